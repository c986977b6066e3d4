"""Where time and memory go: PyTorch's `torch.profiler`, for compiled programs too."""

from adjoint.profiler import itt as itt
from adjoint.profiler.events import DeviceType as DeviceType
from adjoint.profiler.profiler import kineto_available as kineto_available
from adjoint.profiler.profiler import profile as profile
from adjoint.profiler.profiler import record_function as record_function
from adjoint.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler
from adjoint.profiler.settings import ProfilerAction as ProfilerAction
from adjoint.profiler.settings import ProfilerActivity as ProfilerActivity
from adjoint.profiler.settings import _ExperimentalConfig as _ExperimentalConfig
from adjoint.profiler.settings import schedule as schedule
from adjoint.profiler.settings import supported_activities as supported_activities

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
