"""Factors of small matrices, and systems solved by them."""
