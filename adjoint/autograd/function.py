"""Custom operations with derivatives of their own."""

from adjoint.engine.autodiff.levels.function import Function as Function
from adjoint.engine.autodiff.levels.function import FunctionCtx as FunctionCtx
from adjoint.engine.autodiff.levels.function import once_differentiable as once_differentiable
