"""Parameters divided among processes: each keeps a part, and has the whole only while it is used."""
