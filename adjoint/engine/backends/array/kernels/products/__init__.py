"""Array kernels of matrix products."""
