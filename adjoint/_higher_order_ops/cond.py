"""PyTorch's path of `cond`."""

from adjoint.engine.graph.flow.cond import cond as cond
