"""PyTorch's address of what tests of libraries are written with; `common_utils` is there."""
