"""Products of whole numbers by the dot instructions of processors."""
