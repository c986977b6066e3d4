"""Fourier transforms of numbers as pairs."""
