"""Running every `check_*` function of programs on every rank; the first failure ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.distributed as dist
from tests.quick_code import leave_out_passes


def usual(names: Iterable[str], *few: str) -> list[str]:
    """The names of models to check: all where the environment says so, else a few."""
    return [name for name in names if name in few or "EVERY_MODEL" in os.environ]


def run(*modules: ModuleType | Any) -> None:
    leave_out_passes()
    patience = 60 if "EVERY_MODEL" not in os.environ else 240  # others may have the processors
    dist.init_process_group("gloo", timeout=patience)
    chosen = sys.argv[1:]
    for name, check in [item for module in modules for item in vars(module).items()]:
        if name.startswith("check_") and (not chosen or name in chosen):
            ad.manual_seed(0)
            try:
                check(dist.get_rank(), dist.get_world_size())
            except BaseException:
                print(f"failed: {name}", file=sys.stderr)
                raise
            dist.barrier()
    if dist.get_rank() == 0:
        print("passed")


def same(x: Any, y: Any, tolerance: float = 0.0) -> None:
    x = x.detach().numpy() if isinstance(x, ad.Tensor) else np.asarray(x)
    y = y.detach().numpy() if isinstance(y, ad.Tensor) else np.asarray(y)
    assert x.shape == y.shape, (x.shape, y.shape)
    np.testing.assert_allclose(
        x.astype(np.complex128), y.astype(np.complex128), rtol=tolerance, atol=tolerance
    )
