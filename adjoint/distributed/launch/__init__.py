"""Starting the processes of a job on this machine: `adjoint launch`, torchrun's options."""

from adjoint.distributed.launch.agent import launch as launch
from adjoint.distributed.launch.options import parse as parse
