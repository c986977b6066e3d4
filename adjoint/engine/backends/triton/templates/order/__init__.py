"""Order: argsort, the first few, medians, modes; by exchanges."""
