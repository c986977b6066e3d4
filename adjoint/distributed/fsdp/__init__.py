"""Sharded data parallelism, at PyTorch's path."""

from adjoint.distributed.fsdp.wrapper import FullyShardedDataParallel as FullyShardedDataParallel
from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from adjoint.distributed.sharded.fully_shard import fully_shard as fully_shard
