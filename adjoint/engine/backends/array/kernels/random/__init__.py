"""Array kernels of random numbers."""
