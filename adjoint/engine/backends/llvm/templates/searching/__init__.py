"""Places in sequences that are in order."""
