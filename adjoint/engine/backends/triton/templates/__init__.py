"""Nodes with kernels of their own: products, attention, convolution, order, rows at indices."""
