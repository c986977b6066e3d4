"""Recompute in backward instead of saving."""

from adjoint.autodiff.checkpoint import CheckpointError as CheckpointError
from adjoint.autodiff.checkpoint import checkpoint as checkpoint
from adjoint.autodiff.checkpoint import checkpoint_sequential as checkpoint_sequential
