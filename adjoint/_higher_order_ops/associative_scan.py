"""PyTorch's path of `associative_scan`."""

from adjoint.engine.graph.flow.associative import associative_scan as associative_scan
