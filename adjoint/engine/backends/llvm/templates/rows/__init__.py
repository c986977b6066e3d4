"""Rows put or added at indices."""
