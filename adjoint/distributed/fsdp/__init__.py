"""Sharded data parallelism, at PyTorch's path."""

from adjoint.distributed.fsdp.options import BackwardPrefetch as BackwardPrefetch
from adjoint.distributed.fsdp.options import CPUOffload as CPUOffload
from adjoint.distributed.fsdp.options import FullStateDictConfig as FullStateDictConfig
from adjoint.distributed.fsdp.options import MixedPrecision as MixedPrecision
from adjoint.distributed.fsdp.options import ShardingStrategy as ShardingStrategy
from adjoint.distributed.fsdp.options import StateDictType as StateDictType
from adjoint.distributed.fsdp.wrapper import FullyShardedDataParallel as FullyShardedDataParallel
from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from adjoint.distributed.sharded.fully_shard import fully_shard as fully_shard
