"""Eager operations that run as programs: large ones compiled, small composites straight."""
