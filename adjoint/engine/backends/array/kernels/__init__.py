"""Kernels on arrays, by the subjects of ops."""
