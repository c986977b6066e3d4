"""Tensor: a window on a storage."""
