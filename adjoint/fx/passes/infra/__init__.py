"""Passes, and managers that run them."""
