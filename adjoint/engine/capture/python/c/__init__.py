"""C callables by owner: what each reads and writes, or how it is done again in Python."""
