"""Inner loops of NumPy's and SciPy's functions, called where they are."""
