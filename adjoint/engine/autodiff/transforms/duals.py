"""Forward mode by hand: dual levels, dual tensors."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from adjoint.engine.autodiff.levels.jvp_level import Dual, JvpLevel
from adjoint.engine.autodiff.levels.stack import next_depth
from adjoint.engine.core.errors import DTypeValueError, ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import make_argument, make_level_tensor, payload


class _Open(threading.local):
    """The dual levels this thread has entered."""

    def __init__(self) -> None:
        self.levels: list[JvpLevel] = []


_OPEN = _Open()


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual tensor."""

    primal: Any
    tangent: Any


def current_level() -> int:
    """The dual level that this thread is in; -1 outside of all."""
    return len(_OPEN.levels) - 1


def enter_dual_level() -> int:
    """Begin forward mode; dual tensors live until the level is left."""
    if _OPEN.levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    level = JvpLevel(next_depth())
    _OPEN.levels.append(level)
    CONTEXT.set(levels=(*CONTEXT.levels, level))
    return len(_OPEN.levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End forward mode: tangents of the level are gone."""
    if not _OPEN.levels or (level is not None and level != len(_OPEN.levels) - 1):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one created.")
    left = _OPEN.levels.pop()
    left.active = False
    CONTEXT.set(levels=tuple(level for level in CONTEXT.levels if level is not left))


def _current(name: str) -> JvpLevel:
    if not _OPEN.levels:
        raise RuntimeError(
            f"Trying to {name} outside of a dual level. Make sure to use it within "
            "`with dual_level():`, or call `enter_dual_level()` first."
        )
    return _OPEN.levels[-1]


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Tensor:
    """A tensor with a tangent."""
    current = _current("create a dual Tensor for forward AD")
    for x in (tensor, tangent):
        if not is_tensor(x) or not x.dtype.is_inexact:
            raise DTypeValueError(
                "Expected primal and tangent to be floating point or complex, but got "
                f"{x.dtype.name if is_tensor(x) else type(x).__name__}"
            )
    if tensor.shape != tangent.shape:
        raise ShapeError(
            "make_dual: Trying to set a forward gradient that has a different size than that of "
            f"the original Tensor, this is not supported. Tensor is of size {list(tensor.shape)} "
            f"while the given forward gradient is of size {list(tangent.shape)}."
        )
    if tensor.dtype is not tangent.dtype:
        if tangent.dtype.is_complex and not tensor.dtype.is_complex:
            tangent = tangent.real
        tangent = tangent.to(tensor.dtype)
    current.tangents_on_tape |= tangent.requires_grad
    if tensor._storage.level is current:
        tensor = payload(tensor).primal
    return make_argument(current, make_level_tensor(current, tensor._spec, Dual(tensor, tangent)))


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent (None if there is none) of a tensor."""
    if not _OPEN.levels:
        return UnpackedDualTensor(tensor, None)
    dual = _OPEN.levels[-1].dual(tensor)
    return UnpackedDualTensor(dual.primal, dual.tangent)


class dual_level:
    """Forward mode for a block.

    >>> import adjoint as ad
    >>> from adjoint.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ad.tensor(0.0), ad.tensor(2.0))
    ...     forward_ad.unpack_dual(x.sin()).tangent
    tensor(2.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()
