"""Array kernels of operations on each element by itself."""
