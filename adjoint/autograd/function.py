"""Custom operations with derivatives of their own."""

from adjoint.autodiff.function import Function as Function
from adjoint.autodiff.function import FunctionCtx as FunctionCtx
from adjoint.autodiff.function import once_differentiable as once_differentiable
