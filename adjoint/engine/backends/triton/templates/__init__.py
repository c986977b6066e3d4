"""Nodes with kernels of their own: products, rows put at indices."""
