"""Matrix products in tiles."""
