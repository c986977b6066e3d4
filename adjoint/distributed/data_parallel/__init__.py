"""Replicas of a module, one per process, whose gradients are averaged."""

import adjoint.nn  # noqa: F401  before what follows: it imports this package's modules by name
from adjoint.distributed.data_parallel.module import (
    DistributedDataParallel as DistributedDataParallel,
)
