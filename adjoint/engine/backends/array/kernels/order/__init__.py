"""Array kernels of sorting, searching and counting."""
