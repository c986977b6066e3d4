"""What `Module` is made of: its tree, its tensors, its hooks, how errors and recordings see it."""
