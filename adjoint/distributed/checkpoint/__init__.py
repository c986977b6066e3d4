"""Checkpoints that all processes write together and any number of processes can read."""

from adjoint.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner as DefaultLoadPlanner,
)
from adjoint.distributed.checkpoint.default_planner import (
    DefaultSavePlanner as DefaultSavePlanner,
)
from adjoint.distributed.checkpoint.files import FileSystemReader as FileSystemReader
from adjoint.distributed.checkpoint.files import FileSystemWriter as FileSystemWriter
from adjoint.distributed.checkpoint.files import async_save as async_save
from adjoint.distributed.checkpoint.files import load as load
from adjoint.distributed.checkpoint.files import load_state_dict as load_state_dict
from adjoint.distributed.checkpoint.files import save as save
from adjoint.distributed.checkpoint.files import save_state_dict as save_state_dict
