"""PyTorch's path of what is in `adjoint.library`."""
