"""Sizes that stand for any size: symbols, graphs put at given sizes, sizes a run says."""
