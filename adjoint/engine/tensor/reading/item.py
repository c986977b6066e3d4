"""From tensors to Python values: item, tolist, bool, int, float and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.errors import CaptureError, ShapeError, ShapeValueError, users_line
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, asking, taken
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.tensor.meta import is_meta, no_data
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import leak_message, payload


def known(x: Tensor) -> Any:
    """The array of elements, where they are known; None inside vmap and while tracing.

    Differentiation does not hide a value: under grad and jvp it is that of the level below.
    """
    while x._storage.level is not None:
        x = x._storage.level.reveal(payload(x))
        if x is None:
            return None
    if CONTEXT.capture is not None:
        return CONTEXT.capture.known(x)
    return None if type(x._array) is Window else x._array


def elements(x: Tensor, name: str, remedy: str) -> Any:
    """The elements as an array on the host, or an error that says why there are none."""
    array = known(x)
    if array is None:
        if HOOKS.wrappers is not None and HOOKS.wrappers.among((x,)):
            return HOOKS.wrappers.elements(x)
        raise unknown(x, name, remedy)
    return HOOKS.array.to_host(array)


def unknown(x: Tensor, name: str, remedy: str) -> Exception:
    """The error for elements that are asked for and not known: where, of what, and what to do."""
    reason, origin = "inside vmap, where it stands for many", ""
    while x._storage.level is not None:
        below = x._storage.level.reveal(payload(x))
        if below is None:
            break
        x = below
    else:
        reason = "while the function is traced for a graph"
        if CONTEXT.capture is not None:
            origin = f", {CONTEXT.capture.origin(x)}"
        elif is_meta(x):
            return no_data(name)
        elif type(x._array) is Window:
            return RuntimeError(leak_message())
        else:
            reason = "to other libraries inside a transform, which could not follow them"
    return CaptureError(
        f"{name}: the value of a tensor ({x._spec}{origin}) is asked for at {users_line()}; it is "
        f"not known {reason}. {remedy}"
    )


_KEEP = (
    "Keep it a tensor, pass it in as a Python number (a static argument), or return it and convert "
    "it outside; sizes (x.shape, len(x)) are numbers already."
)
_BRANCH = (
    "A Python branch or loop cannot depend on it: use where(condition, a, b) for a choice by "
    "element, cond(pred, f, g, operands) for a branch, scan or while_loop for a loop, or pass in "
    "what decides as a Python value (a static argument)."
)


@method
def item(self: Tensor) -> Any:
    """The one element, as a Python number.

    >>> import adjoint as ad
    >>> ad.tensor([2.5]).item()
    2.5
    """
    array = elements(self, "item", _KEEP)
    if array.size != 1:
        raise ShapeError(
            f"a Tensor with {array.size} elements cannot be converted to Scalar. Choose or reduce "
            "to one, or take them all with tolist()."
        )
    return array.item()


@method
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for a 0-d tensor."""
    return elements(self, "tolist", _KEEP).tolist()


@method(name="__bool__")
def to_bool(self: Tensor) -> bool:
    """Whether the one element is not zero."""
    if OVERRIDES.active and (given := taken(to_bool, self)) is not PASS:
        return given
    size = self._array.size
    if size != 1:
        many = "more than one value" if size else "no values"
        raise ShapeError(
            f"Boolean value of Tensor with {many} is ambiguous: its shape is {list(self.shape)}. "
            "Use any() or all()."
        )
    return bool(elements(self, "bool", _BRANCH).item())


asking(to_bool)


@public(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero."""
    return to_bool(input)


def _convert(name: str, kind: Callable[..., Any]) -> Callable[[Tensor], Any]:
    def convert(self: Tensor) -> Any:
        if OVERRIDES.active and (given := taken(convert, self)) is not PASS:
            return given
        if self._array.size != 1:
            raise ShapeValueError(
                "only one element tensors can be converted to Python scalars, received shape "
                f"{list(self.shape)}"
            )
        value = elements(self, name, _KEEP).item()
        if isinstance(value, complex) and kind is not complex:
            if value.imag:
                raise RuntimeError(
                    f"{name}: value {value} cannot be converted without overflow. Take .real first."
                )
            value = value.real
        return kind(value)

    convert.__name__ = f"__{name}__"
    convert.__doc__ = f"The one element, as a Python {name}."
    return asking(convert)


to_int = method(name="__int__")(_convert("int", int))
to_float = method(name="__float__")(_convert("float", float))
to_complex = method(name="__complex__")(_convert("complex", complex))


@method(name="__index__")
def to_index(self: Tensor) -> int:
    """The one element of an integer tensor, for use as a Python index."""
    if OVERRIDES.active and (given := taken(to_index, self)) is not PASS:
        return given
    if self._array.size != 1 or self.dtype.is_inexact:
        raise TypeError(
            "only integer tensors of a single element can be converted to an index, received "
            f"{self._spec}"
        )
    return int(elements(self, "index", _KEEP).item())


asking(to_index)


@method(name="__contains__")
def contains(self: Tensor, element: Any) -> bool:
    """Whether any element equals `element`."""
    if not is_tensor(element) and plain_number(element) is None:
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )
    return bool(elements(self == element, "in", _BRANCH).any())


@method(name="__reversed__")
def reverse(self: Tensor) -> Tensor:
    """The rows in reverse order."""
    return self.flip(0) if self.ndim else self


# -- the other way ------------------------------------------------------------------------------


def plain_number(value: Any) -> Any:
    """A Python number (or host scalar) from one or from an array library's scalar; else None."""
    if isinstance(value, (bool, int, float, complex, HostScalar)):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return None


def scalar_tensor(value: Any, like: Tensor, name: str = "setitem") -> Tensor:
    """A number as a 0-d tensor of `like`'s dtype and device."""
    value = checked_scalar(name, value, like.dtype)
    out: Tensor = FULL(value, shape=(), dtype=like.dtype, device=like.device)
    return out
