"""Recipes `adjoint train` knows by name: a file each, with a `main(arguments)`."""
