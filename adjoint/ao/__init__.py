"""PyTorch's paths of quantisation, and of weights made sparse while training."""
