"""Array kernels of Fourier transforms."""
