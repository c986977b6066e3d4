"""What the operations of neural networks share: halves in float32, in-place flags, refusals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.layout import last_strides
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.met_calls import write_small
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import SmallCalls, small_writes
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.result_layouts import is_last
from adjoint.engine.ops.shape.convert import CLONE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Fn = Callable[..., Any]
FUNCTIONAL = ("nn.functional",)
BOTH = ("", "nn.functional")


def is_half(x: Any) -> bool:
    """Whether x is a float16 or bfloat16 tensor."""
    return is_tensor(x) and x.dtype.is_half


def widen(x: Any) -> Any:
    """A half tensor in float32; anything else as it is."""
    return x.float() if is_half(x) else x


def in_float32(fn: Fn, counted: int | None = None) -> Fn:
    """`fn` computing halves in float32, its result rounded once to what its operands promote to.

    Of these the first `counted` ones, or all: others are compared only. The signature stays that
    of `fn`: rules are read by their parameters' names.
    """

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_half, args)):
            return fn(*args, **kwargs)
        common = common_dtype(filter(is_tensor, args[:counted]))
        return fn(*map(widen, args), **kwargs).to(common)

    return variant


def require_floating(name: str, x: Any) -> None:
    """Refuse what is no floating-point tensor, as PyTorch's kernels do."""
    if not is_tensor(x):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"{name}: not implemented for {x.dtype.name}. Convert the input to a floating dtype."
        )


@lru_cache(maxsize=1024)
def lies_last(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> bool:
    """Whether an array of images lies with channels innermost, by its steps in bytes."""
    strides = tuple([step // itemsize for step in steps])
    if 0 in shape or 0 in strides:  # which libraries tell in ways of their own
        return False
    return is_last((shape, strides)) and strides == last_strides(shape)


def in_rows(x: Tensor, images: bool = False) -> Tensor:
    """As normalisations lay it out: row by row, or channels innermost where `images` lie so."""
    array = x._array
    known = array.__class__ is ndarray or array.__class__ in DEVICE_LAYOUTS
    if array.flags.c_contiguous if known else x.is_contiguous():
        return x
    if images and known and lies_last(array.shape, array.strides, array.itemsize):
        return x
    place = tuple(array.shape), tuple(x.stride())
    if not images or not is_last(place):
        return CLONE(x, strides=None)
    wanted = last_strides(place[0])
    return x if place[1] == wanted else CLONE(x, strides=wanted)


def apply(name: str, fn: Fn, input: Tensor, inplace: bool, *args: Any) -> Any:
    """fn(input, *args), written into `input` where the caller asks for that."""
    if not inplace:
        return fn(input, *args)
    if name not in _WRITES:
        _WRITES[name] = small_writes(name.rstrip("_"))
    small = _WRITES[name]
    if small is not None and is_tensor(input) and write_small(small, fn, input, args, {}):
        return input
    return HOOKS.update(name, input, fn, *args)


_WRITES: dict[str, SmallCalls | None] = {}  # by name, where programs of few elements are kept
