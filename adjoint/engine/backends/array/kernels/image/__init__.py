"""Array kernels of operations over windows of images: convolution, pooling, resizing."""
