"""The profiler's names in PyTorch's compiled module."""

from adjoint.profiler.settings import ProfilerActivity as ProfilerActivity
from adjoint.profiler.settings import _ExperimentalConfig as _ExperimentalConfig
