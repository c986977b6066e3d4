"""Files: values in PyTorch's format and safetensors, written atomically, read without execution."""

from adjoint.engine.core.files.atomic import atomic_write as atomic_write
from adjoint.io.checkpoint import CheckpointManager as CheckpointManager
from adjoint.io.checkpoint import load_checkpoint as load_checkpoint
from adjoint.io.checkpoint import rng_state as rng_state
from adjoint.io.checkpoint import save_checkpoint as save_checkpoint
from adjoint.io.checkpoint import set_rng_state as set_rng_state
from adjoint.io.files import load as load
from adjoint.io.files import save as save
