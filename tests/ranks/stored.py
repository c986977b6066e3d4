"""Collectives of the host where there is no MPI and GPUs would talk by NCCL: by the job's store."""

from __future__ import annotations

import sys
from typing import Any

import adjoint.distributed as dist
from adjoint.distributed.engines import mpi, nccl
from tests.ranks import checks, collectives


def check_engine(rank: int, size: int) -> None:
    world: Any = dist.group.WORLD
    assert world.engine.name == "store"


if __name__ == "__main__":
    mpi.joins = lambda: False
    nccl.missing = lambda: None
    begin = dist.init_process_group
    dist.init_process_group = lambda backend, **rest: begin("nccl", **rest)
    mine: Any = sys.modules[__name__]
    for name, value in vars(collectives).items():
        if name.startswith("check_"):
            setattr(mine, name, value)
    checks.run(mine)
