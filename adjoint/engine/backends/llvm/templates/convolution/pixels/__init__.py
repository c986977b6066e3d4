"""Convolutions of images whose channels lie innermost, by weights that are kept for many calls."""
