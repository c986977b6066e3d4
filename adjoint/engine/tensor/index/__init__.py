"""Subscripts of tensors, read and written."""
