"""Checkpoints that all processes write together and any number of processes can read."""

from adjoint.distributed.checkpoint.files import load as load
from adjoint.distributed.checkpoint.files import save as save
