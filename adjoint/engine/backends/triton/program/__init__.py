"""Programs on the GPU: memory, launches, graphs of them."""
