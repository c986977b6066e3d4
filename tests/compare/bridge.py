"""Moving values between PyTorch and Adjoint, for comparison."""

from __future__ import annotations

import types
from typing import Any

import ml_dtypes
import numpy as np
import torch

import adjoint as ad
from adjoint.engine.core.dtype import DTYPES

TORCH_OF = {d: getattr(torch, d.name) for d in DTYPES}
OURS_OF = {v: k for k, v in TORCH_OF.items()}


class Unsupported(Exception):
    """A sample that uses what Adjoint does not have (a dtype, a layout)."""


def to_numpy(t: torch.Tensor) -> np.ndarray[Any, Any]:
    """The tensor's elements with its strides, sharing nothing."""
    t = t.detach().resolve_conj().resolve_neg()
    if t.dtype is torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def ours(x: Any) -> Any:
    """A PyTorch value as Adjoint's: tensors, dtypes, devices and containers of them."""
    if isinstance(x, torch.Tensor):
        if x.layout is torch.sparse_coo:
            made = ad.sparse_coo_tensor(ours(x._indices()), ours(x._values()), tuple(x.shape))
            return made.requires_grad_(x.requires_grad)
        if x.layout is not torch.strided or x.dtype not in OURS_OF or x.device.type != "cpu":
            raise Unsupported(f"{x.layout} {x.dtype}")
        out = _window(x) if x.storage_offset() else ad.from_numpy(_like_strides(to_numpy(x)))
        return out.requires_grad_() if x.requires_grad else out
    if isinstance(x, torch.nn.Module):
        return _layer(x)
    if isinstance(x, types.FunctionType) and x.__module__.startswith("torch.testing"):
        raise Unsupported("a function written for PyTorch's tensors")
    if isinstance(x, torch.dtype):
        if x not in OURS_OF:
            raise Unsupported(str(x))
        return OURS_OF[x]
    if isinstance(x, torch.device):
        return ad.device(str(x))
    if isinstance(x, (torch.memory_format, torch.layout)):
        name = str(x).rsplit(".", 1)[-1]
        if not hasattr(ad, name):
            raise Unsupported(str(x))
        return getattr(ad, name)
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return tuple(ours(v) for v in x)
    if isinstance(x, (list, tuple)):
        return type(x)(ours(v) for v in x)
    if isinstance(x, dict):
        return {k: ours(v) for k, v in x.items()}
    if x in (torch.sum, torch.mean):
        return getattr(ad, x.__name__)
    return x


def _layer(x: torch.nn.Module) -> Any:
    """A layer without parameters, as ours."""
    name = type(x).__name__
    if list(x.parameters()) or list(x.buffers()) or not hasattr(ad.nn, name):
        raise Unsupported(f"a layer: {name}")
    made = getattr(ad.nn, name)()
    for key, value in vars(x).items():
        if not key.startswith("_"):
            setattr(made, key, value)
    return made


def _window(x: torch.Tensor) -> ad.Tensor:
    """A tensor that begins inside its storage, with the rest of that storage around it."""
    places = x.untyped_storage().nbytes() // x.element_size()
    whole = to_numpy(x.detach().as_strided((places,), (1,), 0))
    with ad.no_grad():
        return ad.from_numpy(whole.copy()).as_strided(x.shape, x.stride(), x.storage_offset())


def _like_strides(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that keeps an exotic layout where a plain copy would lose it."""
    if array.size == 0 or any(s <= 0 for s in array.strides):
        if 0 in array.strides and array.size:
            base = array[
                tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)
            ].copy()
            return np.broadcast_to(base, array.shape)
        return array.copy()
    size = (
        1
        + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
        // array.itemsize
    )
    if size > 4 * array.size + 64:
        return array.copy()
    flat = np.zeros(size, array.dtype)
    view = np.lib.stride_tricks.as_strided(flat, array.shape, array.strides)
    view[...] = array
    return view


def theirs(x: Any) -> Any:
    """An Adjoint value as PyTorch's."""
    if isinstance(x, ad.Tensor):
        array = np.ascontiguousarray(x.detach().cpu().numpy())
        array = array.reshape(tuple(x.shape))
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        return torch.from_numpy(array.copy())
    if isinstance(x, (list, tuple)):
        return [theirs(v) for v in x]
    return x
