"""`torch.functional`: functions of the top level under their second address."""

from __future__ import annotations

from typing import Any

from adjoint._jit_internal import boolean_dispatch as boolean_dispatch
from adjoint.engine import assembly
from adjoint.overrides import handle_torch_function as handle_torch_function
from adjoint.overrides import has_torch_function as has_torch_function
from adjoint.overrides import has_torch_function_unary as has_torch_function_unary
from adjoint.overrides import has_torch_function_variadic as has_torch_function_variadic

__all__ = [  # noqa: F822 (found by `__getattr__`)
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "block_diag",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "lu",
    "norm",
    "meshgrid",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return assembly.find(name)
