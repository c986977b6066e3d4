"""PyTorch's path of `while_loop`."""

from adjoint.engine.graph.flow.while_loop import while_loop as while_loop
