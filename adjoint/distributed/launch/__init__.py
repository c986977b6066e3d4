"""Starting the processes of a job on this machine: `adjoint launch`, torchrun's options."""

from adjoint.distributed.launch.agent import launch as launch
from adjoint.distributed.launch.options import chosen as chosen
from adjoint.distributed.launch.options import get_args_parser as get_args_parser
from adjoint.distributed.launch.options import parse as parse
