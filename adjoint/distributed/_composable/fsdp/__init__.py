"""Sharded data parallelism, at PyTorch's older path."""

from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from adjoint.distributed.sharded.fully_shard import fully_shard as fully_shard
