"""A recorder that executes Python's own bytecode on real values (README.md)."""
