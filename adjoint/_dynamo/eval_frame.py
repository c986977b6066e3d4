"""What `compile` makes of a module, under PyTorch's name."""

from adjoint._dynamo.optimized import OptimizedModule as OptimizedModule


def is_dynamo_supported() -> bool:
    """Whether programs can be compiled: yes."""
    return True
