"""Products with weights of 4 or 8 bits in groups."""
