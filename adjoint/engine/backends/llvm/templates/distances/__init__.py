"""Distances between all pairs of rows."""
