"""Reverse mode on a dynamic tape: `.backward()` and what surrounds it."""
