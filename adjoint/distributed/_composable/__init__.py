"""Composable parallelism, at PyTorch's older path."""

from adjoint.distributed._composable.replicate import replicate as replicate
from adjoint.distributed.sharded.fully_shard import fully_shard as fully_shard
