"""Array kernels of gated recurrent cells."""
