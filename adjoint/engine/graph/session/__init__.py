"""Graphs made by hand, and their runs."""
