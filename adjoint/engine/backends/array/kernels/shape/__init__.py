"""Array kernels of views and movement of elements."""
