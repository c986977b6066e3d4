"""Eager operations at ever new sizes: recorded and planned for many, and kept on disk."""
