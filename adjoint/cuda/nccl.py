"""NCCL's version. Collectives are in `adjoint.distributed`, one process a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from adjoint.distributed.engines.nccl import load
from adjoint.distributed.errors import DistBackendError


def version() -> tuple[int, int, int]:
    """NCCL's version, as (major, minor, patch)."""
    return load().version()


def is_available(tensors: Sequence[Any] = ()) -> bool:
    """Whether NCCL is installed, and these tensors are on GPUs of their own."""
    try:
        load()
    except DistBackendError:
        return False
    places = [x.device for x in tensors]
    return all(p.type == "cuda" for p in places) and len(set(places)) == len(places)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    """Collectives among the GPUs of one process, which are refused."""
    raise NotImplementedError(
        "cuda.nccl: there are no collectives among the GPUs of one process. Start one process a "
        "GPU (adjoint launch) and use adjoint.distributed, or copy with cuda.comm."
    )


all_reduce = reduce = broadcast = all_gather = reduce_scatter = _refuse
