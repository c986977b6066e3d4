"""Recompute in backward instead of saving."""

from adjoint.engine.autodiff.tape.checkpoint import CheckpointError as CheckpointError
from adjoint.engine.autodiff.tape.checkpoint import checkpoint as checkpoint
from adjoint.engine.autodiff.tape.checkpoint import checkpoint_sequential as checkpoint_sequential
from adjoint.engine.autodiff.tape.checkpoint import get_device_states as get_device_states
from adjoint.engine.autodiff.tape.checkpoint import set_device_states as set_device_states
