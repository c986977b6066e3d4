"""Array kernels of special functions."""
