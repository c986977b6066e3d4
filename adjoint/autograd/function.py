"""Custom operations with derivatives of their own."""

from adjoint.engine.autodiff.levels.function import Function as Function
from adjoint.engine.autodiff.levels.function import FunctionCtx as FunctionCtx
from adjoint.engine.autodiff.levels.function import once_differentiable as once_differentiable

BackwardCFunction = FunctionCtx  # what PyTorch's contexts inherit from
FunctionMeta = type(Function)


class InplaceFunction(Function):
    """What older programs inherit from for functions that may write to their input."""
