"""Rows of a table pooled in bags, and the gradient of that."""
