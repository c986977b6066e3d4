"""Where PyTorch keeps special tensors."""
