"""Picking and placing by index."""
