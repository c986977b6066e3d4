"""PyTorch's path of `while_loop`."""

from adjoint.graph.flow.while_loop import while_loop as while_loop
