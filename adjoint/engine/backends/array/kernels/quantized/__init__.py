"""Array kernels of products of whole numbers and packed weights."""
