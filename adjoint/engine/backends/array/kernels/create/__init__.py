"""Array kernels of tensors from nothing."""
