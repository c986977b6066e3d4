"""Convolutions and folds: implicit products over windows."""
