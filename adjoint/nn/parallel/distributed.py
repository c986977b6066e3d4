"""A module trained by the processes of a group, at PyTorch's path."""

from adjoint.distributed.data_parallel.buckets import GradBucket as GradBucket
from adjoint.distributed.data_parallel.module import (
    DistributedDataParallel as DistributedDataParallel,
)
