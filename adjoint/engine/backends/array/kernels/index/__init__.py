"""Array kernels of picking and placing by index."""
