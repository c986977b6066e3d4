"""Quantised numbers: scales and zero points, products of whole numbers, packed weights."""
