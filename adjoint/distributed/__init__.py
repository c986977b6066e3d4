"""PyTorch's process groups and collectives, over MPI between CPUs and NCCL between GPUs.

A single process needs neither, so a program written for many runs unchanged on one. `adjoint
launch` starts several.
"""

from __future__ import annotations

import importlib
import os
from enum import Enum
from typing import Any

from adjoint.distributed.communication import kernels as kernels
from adjoint.distributed.communication.collectives import _coalescing_manager as _coalescing_manager
from adjoint.distributed.communication.collectives import all_gather as all_gather
from adjoint.distributed.communication.collectives import (
    all_gather_coalesced as all_gather_coalesced,
)
from adjoint.distributed.communication.collectives import (
    all_gather_into_tensor as _all_gather_base,  # noqa: F401 (its older name)
)
from adjoint.distributed.communication.collectives import (
    all_gather_into_tensor as all_gather_into_tensor,
)
from adjoint.distributed.communication.collectives import all_reduce as all_reduce
from adjoint.distributed.communication.collectives import (
    all_reduce_coalesced as all_reduce_coalesced,
)
from adjoint.distributed.communication.collectives import all_to_all as all_to_all
from adjoint.distributed.communication.collectives import all_to_all_single as all_to_all_single
from adjoint.distributed.communication.collectives import barrier as barrier
from adjoint.distributed.communication.collectives import broadcast as broadcast
from adjoint.distributed.communication.collectives import gather as gather
from adjoint.distributed.communication.collectives import monitored_barrier as monitored_barrier
from adjoint.distributed.communication.collectives import reduce as reduce
from adjoint.distributed.communication.collectives import reduce_scatter as reduce_scatter
from adjoint.distributed.communication.collectives import (
    reduce_scatter_tensor as _reduce_scatter_base,  # noqa: F401 (its older name)
)
from adjoint.distributed.communication.collectives import (
    reduce_scatter_tensor as reduce_scatter_tensor,
)
from adjoint.distributed.communication.collectives import scatter as scatter
from adjoint.distributed.communication.objects import all_gather_object as all_gather_object
from adjoint.distributed.communication.objects import broadcast_object_list as broadcast_object_list
from adjoint.distributed.communication.objects import gather_object as gather_object
from adjoint.distributed.communication.objects import recv_object_list as recv_object_list
from adjoint.distributed.communication.objects import scatter_object_list as scatter_object_list
from adjoint.distributed.communication.objects import send_object_list as send_object_list
from adjoint.distributed.communication.point_to_point import P2POp as P2POp
from adjoint.distributed.communication.point_to_point import batch_isend_irecv as batch_isend_irecv
from adjoint.distributed.communication.point_to_point import irecv as irecv
from adjoint.distributed.communication.point_to_point import isend as isend
from adjoint.distributed.communication.point_to_point import recv as recv
from adjoint.distributed.communication.point_to_point import send as send
from adjoint.distributed.communication.reduce_op import ReduceOp as ReduceOp
from adjoint.distributed.communication.reduce_op import (
    _make_nccl_premul_sum as _make_nccl_premul_sum,
)
from adjoint.distributed.communication.work import Work as Work
from adjoint.distributed.constants import default_pg_timeout as default_pg_timeout
from adjoint.distributed.engines import mpi as _mpi
from adjoint.distributed.engines import nccl as _nccl
from adjoint.distributed.errors import DistBackendError as DistBackendError
from adjoint.distributed.errors import DistError as DistError
from adjoint.distributed.errors import DistNetworkError as DistNetworkError
from adjoint.distributed.errors import DistStoreError as DistStoreError
from adjoint.distributed.groups.group import Backend as Backend
from adjoint.distributed.groups.group import GroupMember as GroupMember
from adjoint.distributed.groups.group import ProcessGroup as ProcessGroup
from adjoint.distributed.groups.group import _rank_not_in_group as _rank_not_in_group
from adjoint.distributed.groups.group import get_backend as get_backend
from adjoint.distributed.groups.group import get_backend_config as get_backend_config
from adjoint.distributed.groups.group import (
    get_default_backend_for_device as get_default_backend_for_device,
)
from adjoint.distributed.groups.group import get_global_rank as get_global_rank
from adjoint.distributed.groups.group import get_group_rank as get_group_rank
from adjoint.distributed.groups.group import get_process_group_ranks as get_process_group_ranks
from adjoint.distributed.groups.group import get_rank as get_rank
from adjoint.distributed.groups.group import get_world_size as get_world_size
from adjoint.distributed.groups.group import group as group
from adjoint.distributed.groups.group import new_group as new_group
from adjoint.distributed.groups.group import new_subgroups as new_subgroups
from adjoint.distributed.groups.group import (
    new_subgroups_by_enumeration as new_subgroups_by_enumeration,
)
from adjoint.distributed.groups.group import split_group as split_group
from adjoint.distributed.groups.start import destroy_process_group as destroy_process_group
from adjoint.distributed.groups.start import init_process_group as init_process_group
from adjoint.distributed.groups.start import is_initialized as is_initialized
from adjoint.distributed.rendezvous import LAUNCHERS as _LAUNCHERS
from adjoint.distributed.rendezvous import rendezvous as rendezvous
from adjoint.distributed.store import FileStore as FileStore
from adjoint.distributed.store import HashStore as HashStore
from adjoint.distributed.store import PrefixStore as PrefixStore
from adjoint.distributed.store import Store as Store
from adjoint.distributed.store import TCPStore as TCPStore
from adjoint.engine.core.state.loading import lacking as _lacking

reduce_op = ReduceOp


class DebugLevel(Enum):
    """How much is checked while collectives run; here every collective always is."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def get_debug_level() -> DebugLevel:
    """What `TORCH_DISTRIBUTED_DEBUG` asks for."""
    return DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()]


def set_debug_level(level: DebugLevel) -> None:
    """Ask for a level, here and in the processes that this one starts."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level.name


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex numbers can be reduced so."""
    ordered = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR)
    return reduceOp not in (*ordered, ReduceOp.BXOR)


def is_available() -> bool:
    """Whether process groups can be made: of one process always, of more with an engine."""
    return True


def is_nccl_available() -> bool:
    """Whether NCCL can be used: there is a GPU, and NCCL is installed."""
    return _nccl.is_usable()


def is_gloo_available() -> bool:
    """Whether `init_process_group("gloo")` reaches other processes; MPI answers for it."""
    return _mpi.is_installed()


def is_mpi_available() -> bool:
    """Whether MPI can be used: mpi4py is installed."""
    return _mpi.is_installed()


def is_ucc_available() -> bool:
    """Whether UCC can be used; it has no part here."""
    return False


def is_xccl_available() -> bool:
    """Whether XCCL can be used; it has no part here."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be used, by its name."""
    known = {"gloo": is_gloo_available, "mpi": is_mpi_available, "nccl": is_nccl_available}
    check = known.get(backend.lower())
    return check is not None and check()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Which process of this machine this is, as the launcher says."""
    for _, _, name in _LAUNCHERS.values():
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
            "get_node_local_rank to work, or start the program with `adjoint launch`."
        )
    return int(fallback_rank)


def get_pg_count() -> int:
    """How many groups there are."""
    from adjoint.distributed.groups.group import GROUPS

    return len(GROUPS)


# Names that lie in modules which load when they are used.
_ELSEWHERE = {
    "GradBucket": "adjoint.nn.parallel.distributed",
    "Join": "adjoint.distributed.algorithms.join",
    "Joinable": "adjoint.distributed.algorithms.join",
    "JoinHook": "adjoint.distributed.algorithms.join",
}


def __getattr__(name: str) -> Any:
    if name in ("DeviceMesh", "device_mesh", "init_device_mesh"):
        device_mesh = importlib.import_module("adjoint.distributed.device_mesh")
        return device_mesh if name == "device_mesh" else getattr(device_mesh, name)
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if name == "distributed_c10d":
        return importlib.import_module("adjoint.distributed.distributed_c10d")
    raise _lacking(__name__, name)
