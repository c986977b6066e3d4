"""Modules over several devices or processes: at present over one."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.nn.parallel.data_parallel import DataParallel as DataParallel
from adjoint.nn.parallel.data_parallel import data_parallel as data_parallel
from adjoint.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from adjoint.nn.parallel.replicate import replicate as replicate
from adjoint.nn.parallel.scatter_gather import gather as gather
from adjoint.nn.parallel.scatter_gather import scatter as scatter

if _TYPE_CHECKING:
    from adjoint.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

# Star imports and lists of names have what is loaded later, too.
__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """What needs `adjoint.distributed`, which few programs do."""
    if name == "distributed":
        return _brought(f"{__name__}.distributed")
    if name == "DistributedDataParallel":
        return _brought(f"{__name__}.distributed").DistributedDataParallel
    raise _lacking(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "distributed"})
