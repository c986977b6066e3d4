"""Parameters divided among processes: each keeps a part, and gathers the whole for use."""
