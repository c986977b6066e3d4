"""Chains of iterable datasets."""
