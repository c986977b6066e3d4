"""PyTorch's path to the tracer."""

from adjoint.fx.tracer import Tracer as Tracer
from adjoint.fx.tracer import is_fx_tracing as is_fx_tracing
from adjoint.fx.tracer import symbolic_trace as symbolic_trace
from adjoint.fx.tracer import wrap as wrap

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]
