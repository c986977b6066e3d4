"""PyTorch's paths of quantised layers."""
