"""Utilities around training."""

from adjoint.utils import checkpoint as checkpoint
