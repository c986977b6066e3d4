"""Kernels made ready: compiled, kept on disk, launched; the libraries beside them."""
