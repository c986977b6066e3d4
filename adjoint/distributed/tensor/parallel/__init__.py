"""Layers divided over processes: `parallelize_module` with column and row plans."""

from adjoint.distributed.tensor.parallel.api import parallelize_module as parallelize_module
from adjoint.distributed.tensor.parallel.styles import ColwiseParallel as ColwiseParallel
from adjoint.distributed.tensor.parallel.styles import ParallelStyle as ParallelStyle
from adjoint.distributed.tensor.parallel.styles import RowwiseParallel as RowwiseParallel
