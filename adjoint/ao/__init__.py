"""PyTorch's paths of quantisation."""
