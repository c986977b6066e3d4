"""Starting jobs from a program, at PyTorch's path."""

from adjoint.distributed.launcher.api import LaunchConfig as LaunchConfig
from adjoint.distributed.launcher.api import elastic_launch as elastic_launch
from adjoint.distributed.launcher.api import launch_agent as launch_agent
