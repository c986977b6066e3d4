"""Where time and memory go: PyTorch's `torch.profiler`, for compiled programs too."""

from adjoint.profiler import itt as itt
from adjoint.profiler.profiler import ProfilerAction as ProfilerAction
from adjoint.profiler.profiler import ProfilerActivity as ProfilerActivity
from adjoint.profiler.profiler import kineto_available as kineto_available
from adjoint.profiler.profiler import profile as profile
from adjoint.profiler.profiler import record_function as record_function
from adjoint.profiler.profiler import schedule as schedule
from adjoint.profiler.profiler import supported_activities as supported_activities
from adjoint.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
