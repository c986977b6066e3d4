"""Elements in order: sort, top-k, the k-th element, medians."""
