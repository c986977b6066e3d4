"""Where PyTorch keeps its transforms."""
