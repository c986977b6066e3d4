"""PyTorch's path of `map`."""

from adjoint.engine.graph.flow.associative import map_rows

map = map_rows
