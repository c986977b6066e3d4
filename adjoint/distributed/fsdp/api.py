"""The options of sharded data parallelism, at PyTorch's path."""

from adjoint.distributed.fsdp.options import BackwardPrefetch as BackwardPrefetch
from adjoint.distributed.fsdp.options import CPUOffload as CPUOffload
from adjoint.distributed.fsdp.options import FullOptimStateDictConfig as FullOptimStateDictConfig
from adjoint.distributed.fsdp.options import FullStateDictConfig as FullStateDictConfig
from adjoint.distributed.fsdp.options import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from adjoint.distributed.fsdp.options import LocalStateDictConfig as LocalStateDictConfig
from adjoint.distributed.fsdp.options import MixedPrecision as MixedPrecision
from adjoint.distributed.fsdp.options import OptimStateDictConfig as OptimStateDictConfig
from adjoint.distributed.fsdp.options import (
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
)
from adjoint.distributed.fsdp.options import ShardedStateDictConfig as ShardedStateDictConfig
from adjoint.distributed.fsdp.options import ShardingStrategy as ShardingStrategy
from adjoint.distributed.fsdp.options import StateDictConfig as StateDictConfig
from adjoint.distributed.fsdp.options import StateDictSettings as StateDictSettings
from adjoint.distributed.fsdp.options import StateDictType as StateDictType
from adjoint.distributed.sharded.offload import CPUOffloadPolicy as CPUOffloadPolicy
from adjoint.distributed.sharded.offload import OffloadPolicy as OffloadPolicy
