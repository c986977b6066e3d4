"""Array kernels of sums, extremes and scans along dimensions."""
