"""Derivatives: the tape, the levels of transforms, and the functions people call."""
