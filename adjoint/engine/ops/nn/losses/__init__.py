"""Losses, by what they are losses of."""
