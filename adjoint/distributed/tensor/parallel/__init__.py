"""Layers divided over processes: `parallelize_module` with column and row plans."""

from adjoint.distributed.tensor.parallel.api import parallelize_module as parallelize_module
from adjoint.distributed.tensor.parallel.losses import loss_parallel as loss_parallel
from adjoint.distributed.tensor.parallel.styles import ColwiseParallel as ColwiseParallel
from adjoint.distributed.tensor.parallel.styles import ParallelStyle as ParallelStyle
from adjoint.distributed.tensor.parallel.styles import PrepareModuleInput as PrepareModuleInput
from adjoint.distributed.tensor.parallel.styles import (
    PrepareModuleInputOutput as PrepareModuleInputOutput,
)
from adjoint.distributed.tensor.parallel.styles import PrepareModuleOutput as PrepareModuleOutput
from adjoint.distributed.tensor.parallel.styles import RowwiseParallel as RowwiseParallel
from adjoint.distributed.tensor.parallel.styles import SequenceParallel as SequenceParallel
