"""Looking at a program while it runs: its operations, the first NaN, common mistakes."""

from adjoint.debug.findings import Finding as Finding
from adjoint.debug.memory import memory_report as memory_report
from adjoint.debug.memory import track_memory as track_memory
from adjoint.debug.nonfinite import NonFiniteError as NonFiniteError
from adjoint.debug.nonfinite import break_on_nonfinite as break_on_nonfinite
from adjoint.debug.operations import Operation as Operation
from adjoint.debug.operations import trace_ops as trace_ops
from adjoint.debug.suspicions import check as check

__all__ = [
    "Finding",
    "NonFiniteError",
    "Operation",
    "break_on_nonfinite",
    "check",
    "memory_report",
    "track_memory",
    "trace_ops",
]
