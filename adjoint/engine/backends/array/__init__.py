"""The eager table: a kernel per record, once for NumPy and CuPy."""
