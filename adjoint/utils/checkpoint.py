"""Recompute in backward instead of saving."""

from adjoint.autodiff.checkpoint import CheckpointError as CheckpointError
from adjoint.autodiff.checkpoint import checkpoint as checkpoint
from adjoint.autodiff.checkpoint import checkpoint_sequential as checkpoint_sequential
from adjoint.autodiff.checkpoint import get_device_states as get_device_states
from adjoint.autodiff.checkpoint import set_device_states as set_device_states
