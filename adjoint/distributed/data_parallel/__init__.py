"""Replicas of a module, one per process, whose gradients are averaged."""

from adjoint.distributed.data_parallel.module import (
    DistributedDataParallel as DistributedDataParallel,
)
