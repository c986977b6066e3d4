"""PyTorch's path of `map`."""

from adjoint.graph.flow.associative import map_rows

map = map_rows
