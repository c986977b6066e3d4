"""Layers whose numbers are quantised."""
