"""Tensors from nothing."""
