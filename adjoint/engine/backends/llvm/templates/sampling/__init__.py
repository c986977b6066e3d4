"""Images sampled at the points of a grid, and the gradients of that."""
