"""PyTorch's path of `cond`."""

from adjoint.graph.flow.cond import cond as cond
