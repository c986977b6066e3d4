"""What FullyShardedDataParallel is told, by PyTorch's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from adjoint.engine.core.dtype import DType


class ShardingStrategy(Enum):
    """What is divided; SHARD_GRAD_OP keeps parameters whole between forward and backward."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()


class BackwardPrefetch(Enum):
    """When PyTorch gathers ahead; accepted, since it changes no result."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What `state_dict` gives: whole tensors, plain parts, or DTensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What the entries of an optimizer's state are known by."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """The dtypes to compute and to reduce in; None leaves them."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True, slots=True)
class CPUOffload:
    """Whether parameters live on the CPU while they are not used."""

    offload_params: bool = False


@dataclass(frozen=True, slots=True)
class StateDictConfig:
    """How states are given, in one of the ways below."""

    offload_to_cpu: bool = False


@dataclass(frozen=True, slots=True)
class FullStateDictConfig(StateDictConfig):
    """How whole states are given: to every process, or to the first only."""

    rank0_only: bool = False


@dataclass(frozen=True, slots=True)
class ShardedStateDictConfig(StateDictConfig):
    """How DTensors are given."""

    _use_dtensor: bool = True


@dataclass(frozen=True, slots=True)
class LocalStateDictConfig(StateDictConfig):
    """How plain parts are given."""


@dataclass(frozen=True, slots=True)
class OptimStateDictConfig:
    """How an optimizer's state is given, in one of the ways below."""

    offload_to_cpu: bool = True


@dataclass(frozen=True, slots=True)
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's whole state is given."""

    rank0_only: bool = False


@dataclass(frozen=True, slots=True)
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's state is given in DTensors."""

    _use_dtensor: bool = True


@dataclass(frozen=True, slots=True)
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's state is given in plain parts."""

    offload_to_cpu: bool = False


@dataclass(frozen=True, slots=True)
class StateDictSettings:
    """What `set_state_dict_type` replaced."""

    state_dict_type: StateDictType
    state_dict_config: object
    optim_state_dict_config: object
