"""Depthwise convolutions of images that are read where they lie."""
