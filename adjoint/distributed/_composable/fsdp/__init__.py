"""Sharded data parallelism, at PyTorch's older path."""

from adjoint.distributed.sharded.fully_shard import FSDPModule as FSDPModule
from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from adjoint.distributed.sharded.fully_shard import fully_shard as fully_shard
from adjoint.distributed.sharded.fully_shard import (
    register_fsdp_forward_method as register_fsdp_forward_method,
)
from adjoint.distributed.sharded.offload import CPUOffloadPolicy as CPUOffloadPolicy
from adjoint.distributed.sharded.offload import OffloadPolicy as OffloadPolicy
