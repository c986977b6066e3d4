"""Many tensors at once: PyTorch's functions on lists, small tensors end to end, overlaps."""
