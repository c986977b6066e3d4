"""Loops and branches inside programs."""
