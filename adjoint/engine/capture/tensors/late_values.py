"""Python's values of tensors that a call knows only when its program has run: `loss.item()`.

They may be kept, returned, printed and added up: effects and results are made after the program.
What the function does must not depend on them, and nothing that is done with them may raise.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import is_host
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.meta import is_meta
from adjoint.engine.tensor.reading.printing import tape_remarks, to_string
from adjoint.engine.tensor.tensor import Tensor

_NUMBERS = (bool, int, float)
_PLAIN = (*_NUMBERS, str)
_SAMPLES: dict[Any, Any] = {bool: True, int: 1, float: 1.5, str: "text"}
# What texts are tried with, as `%d` cannot write a NaN, nor `%c` a negative number.
_HARD: dict[Any, tuple[Any, ...]] = {float: (math.nan, math.inf), int: (-1, 2**63)}


class LateValue:
    """What a function will give of tensors, numbers and other late values, in each call."""

    __slots__ = ("args", "fn", "kind", "refusal")

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kind: Any, refusal: CaptureError
    ) -> None:
        self.fn, self.args = fn, args
        self.kind = kind  # its class where that is known: numbers and text go on
        self.refusal = refusal  # what is said to who needs it now

    def pin(self, *_: Any) -> Any:
        """The value itself, which nobody knows."""
        raise self.refusal

    def sample(self) -> Any:
        """Some value of its class, for who asks for that alone."""
        return _SAMPLES[self.kind] if self.kind in _SAMPLES else self.pin()

    def then(self, fn: Callable[..., Any], args: tuple[Any, ...], kind: Any) -> LateValue:
        """What comes of it."""
        return LateValue(fn, args, kind, self.refusal)

    def written(self, fn: Callable[..., Any], *options: Any) -> LateValue:
        """Its text: `str`, `repr`, `format`."""
        fn(self.sample(), *options)  # raises here what it would raise in each call
        if not _writes_all(self.kind, lambda value: fn(value, *options)):
            self.pin()
        return self.then(fn, (self, *options), str)

    def __round__(self, ndigits: int | None = None) -> LateValue:
        if ndigits is None or self.kind is not float:
            self.pin()
        return self.then(round, (self, ndigits), float)

    __bool__ = __len__ = __iter__ = __getitem__ = __float__ = __int__ = __index__ = pin
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = pin
    __hash__ = pin

    def __repr__(self) -> str:
        if CONTEXT.capture is not None:
            self.pin()
        return f"<a value of each call, by {self.fn.__name__}>"


def _writes_all(kind: Any, write: Callable[[Any], str]) -> bool:
    """Whether the text of no value of a class raises."""
    try:
        for value in _HARD.get(kind, ()):
            write(value)
    except (ValueError, OverflowError):
        return False
    return True


def is_late_value(value: Any) -> bool:
    """Whether a value is one that a call knows at its end."""
    return type(value) is LateValue


def carries(value: LateValue, name: str) -> bool:
    """Whether an operator gives another such value, whatever it is."""
    return value.kind in _NUMBERS and (name in _OPERATORS or name == "round")


def joined(parts: list[Any]) -> LateValue:
    """Texts put together, some of which are late."""
    first = next(part for part in parts if is_late_value(part))
    return first.then(_join, tuple(parts), str)


def extreme(fn: Callable[..., Any], values: list[Any]) -> LateValue:
    """`min` or `max` of numbers."""
    first: LateValue = next(value for value in values if is_late_value(value))
    kinds = {_kind_of(value) for value in values}
    if len(kinds) > 1 or not kinds <= {int, float}:
        first.pin()  # whose class it is depends on which it is
    return first.then(fn, tuple(values), *kinds)


def of_texts(name: str, a: Any, b: Any) -> Any:
    """`a + b` or `a % b` where one is a text and one is late; MISSING of others."""
    if name == "add" and is_late_value(a) != is_late_value(b) and str in (_kind_of(a), _kind_of(b)):
        late, other = (a, b) if is_late_value(a) else (b, a)
        return joined([a, b]) if late.kind is str and type(other) is str else MISSING
    values = b if type(b) is tuple else (b,)
    if name != "mod" or type(a) is not str or not any(map(is_late_value, values)):
        return MISSING
    first: LateValue = next(value for value in values if is_late_value(value))
    if not all(is_late_value(x) or type(x) in (*_NUMBERS, str) for x in values):
        first.pin()
    samples = [x.sample() if is_late_value(x) else x for x in values]
    a % tuple(samples)  # raises what calls would
    for k, late in enumerate(values):
        if is_late_value(late):
            given = partial(_percent_with, a, samples, k)
            if not _writes_all(late.kind, given):
                late.pin()
    return first.then(_percent, (a, *values), str)


def _percent_with(pattern: str, samples: list[Any], place: int, value: Any) -> str:
    return pattern % (*samples[:place], value, *samples[place + 1 :])


def _percent(pattern: str, *values: Any) -> str:
    return pattern % values


def _join(*parts: str) -> str:
    return "".join(parts)


_OPERATORS = ("add", "sub", "mul", "truediv", "neg", "pos", "abs")


def _kind_of(x: Any) -> Any:
    if is_late_value(x):
        return x.kind
    return type(x.get()) if is_host(x) else type(x) if type(x) in _PLAIN else _base(x)


def _base(x: Any) -> Any:
    return (float if isinstance(x, float) else int) if is_extent(x) else None


def _binary(fn: Callable[[Any, Any], Any], *, swap: bool) -> Callable[[LateValue, Any], Any]:
    def method(self: LateValue, other: Any) -> Any:
        mine, theirs = self.kind, _kind_of(other)
        if mine not in _NUMBERS or theirs not in _NUMBERS:
            return self.pin()
        # A quotient by what may be zero raises, as one of whole numbers too large for a float does.
        divides = fn is operator.truediv
        if divides and (swap or type(other) not in _NUMBERS or not other or mine is not float):
            return self.pin()
        kind = float if divides or float in (mine, theirs) else int
        return self.then(fn, (other, self) if swap else (self, other), kind)

    return method


def _unary(fn: Callable[[Any], Any]) -> Callable[[LateValue], LateValue]:
    def method(self: LateValue) -> LateValue:
        return self.then(fn, (self,), float if self.kind is float else int)

    return method


for _name in ("add", "sub", "mul", "truediv"):
    _fn = getattr(operator, _name)
    setattr(LateValue, f"__{_name}__", _binary(_fn, swap=False))
    setattr(LateValue, f"__r{_name}__", _binary(_fn, swap=True))
for _name in ("neg", "pos", "abs"):
    setattr(LateValue, f"__{_name}__", _unary(getattr(operator, _name)))


# -- of tensors ---------------------------------------------------------------------------------


def _number_kind(tensor: Tensor) -> Any:
    dtype = tensor.dtype
    if dtype.is_complex:
        return None
    return float if dtype.is_floating_point else bool if dtype.name == "bool" else int


def _item(tensor: Tensor) -> Any:
    return tensor.item()


def _tolist(tensor: Tensor) -> Any:
    return tensor.tolist()


def _numpy(tensor: Tensor) -> Any:
    return tensor.numpy()


_MOST = 1024  # elements of a list whose every element may be asked for


def _listed(whole: LateValue, tensor: Tensor) -> Any:
    """The elements of a tensor as nested lists of late values, or late as a whole."""
    shape = tuple(tensor.shape)
    if tensor.numel() > _MOST or any(map(is_extent, shape)):
        return whole

    def nested(index: tuple[int, ...]) -> Any:
        if len(index) == len(shape):
            return whole.then(_element, (whole, *index), _number_kind(tensor))
        return [nested((*index, k)) for k in range(shape[len(index)])]

    return nested(())


def _element(nested: Any, *index: int) -> Any:
    for k in index:
        nested = nested[k]
    return nested


def late_value(name: str, tensor: Any, refusal: CaptureError) -> Any:
    """What stands for the answer to a tensor's method; None where that may raise, or is needed."""
    if tensor._storage.level is not None or is_meta(tensor):
        return None
    kind = _number_kind(tensor)
    if name == "numpy":
        shared = not (tensor.requires_grad and CONTEXT.grad_enabled)
        return LateValue(_numpy, (tensor,), None, refusal) if shared else None
    with CONTEXT.having(grad_enabled=False):
        copied = tensor.detach().clone()  # what it is now, whoever writes to it
    if name == "tolist" and tensor.ndim:
        return _listed(LateValue(_tolist, (copied,), None, refusal), copied)
    if copied.numel() != 1 or (name == "__int__" and kind not in (bool, int)) or kind is None:
        return None
    wanted = {"__float__": float, "__int__": int}.get(name)
    return LateValue(wanted or _item, (copied,), wanted or kind, refusal)


def late_text(
    fn: Callable[..., str], args: tuple[Any, ...], refusal: CaptureError
) -> LateValue | None:
    """What stands for a tensor's text; None where a class of the user's says what that is."""
    tensor, *options = args
    if tensor._storage.level is not None or type(tensor) is not Tensor:
        return None
    with CONTEXT.having(grad_enabled=False):
        copied = tensor.detach().clone()
    if fn is not format or tensor.ndim:
        remarks = tuple(tape_remarks(tensor))
        return LateValue(_printed, (copied, remarks), str, refusal) if not any(options) else None
    kind = _number_kind(tensor)
    fn(_SAMPLES.get(kind, 1j), *options)  # raises what each call would raise
    if not _writes_all(kind, lambda value: fn(value, *options)):
        return None
    return LateValue(fn, (copied, *options), str, refusal)


def _printed(tensor: Tensor, remarks: tuple[str, ...]) -> str:
    return to_string(tensor, remarks=remarks)


_EXACT = ("float32", "float64")
_ARITHMETIC = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__")


@functools.cache
def _arithmetic() -> frozenset[Any]:
    """The methods of tensors that take a number as a tensor without dimensions."""
    return frozenset(getattr(Tensor, name) for name in _ARITHMETIC)


@functools.cache
def _texts() -> dict[Any, Callable[..., str]]:
    writers: list[Callable[..., str]] = [str, repr, format]
    own = {getattr(Tensor, f"__{fn.__name__}__"): fn for fn in writers}
    return own | {fn: fn for fn in writers}


def text_of(fn: Any) -> Callable[..., str] | None:
    """Which of `str`, `repr` and `format` a function is, of tensors or at all."""
    return _texts().get(fn) if isinstance(fn, Hashable) else None


def with_elements(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of arithmetic with tensors in the place of their elements, or a refusal.

    A number is rounded to the other operand's dtype, as a tensor that is converted to it.
    """
    late = next(x for x in (*args, *kwargs.values()) if is_late_value(x))
    tensor = args[0] if args else None
    element: Any = late.args[0] if late.fn in (_item, float) else None
    # A whole number becomes a float first, which rounds it once more than the conversion.
    plain = isinstance(element, Tensor) and element.dtype.is_floating_point
    fits = isinstance(tensor, Tensor) and tensor.dtype.name in _EXACT
    if not (plain and fits and not kwargs and len(args) == 2 and fn in _arithmetic()):
        late.pin()
    return (tensor, element.to(args[0].dtype).reshape(())), kwargs


LATE = frozenset({"item", "tolist", "numpy", "__float__", "__int__"})
