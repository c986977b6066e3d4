"""Deriving Tensor's methods from the public table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import can_cast, float32, float64
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.large import AT_ONCE, DEVICE_LAYOUTS, is_large
from adjoint.engine.core.operations.met_calls import ON_CPU, call_small, joined, written_small
from adjoint.engine.core.operations.older import modern
from adjoint.engine.core.operations.overrides import (
    OVERRIDES,
    PASS,
    asking,
    concerns_nobody,
    dispatch,
    overriding,
    takes_operands,
)
from adjoint.engine.core.operations.public import INPLACE, METHODS, PROPERTIES
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import FILLS, SmallCalls, small_writes
from adjoint.engine.core.state import forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import Filling, Generator
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.elementwise.arithmetic import (
    ADD_SCALED,
    is_scaled_at_once,
    is_scaled_in_one,
    scaled,
)
from adjoint.engine.ops.random.samplers import fill_again, kind_of_fill, note_fill
from adjoint.engine.tensor.copying import install_copying
from adjoint.engine.tensor.index.added_rows import IN_MEMORY
from adjoint.engine.tensor.index.assigning import install_indexing
from adjoint.engine.tensor.index.repeats import write_repeated
from adjoint.engine.tensor.operators import DIRECT, install_operators
from adjoint.engine.tensor.overriding import SPECIAL, WITH_THEM, ask_unbound
from adjoint.engine.tensor.reading.printing import install_printing
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import direct_array, update

_SCALED = ("add", "sub", "subtract")  # x.add_(y, alpha=a): a temporary for a * y, none for the sum


def _of_its_dtype(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What a function gives as it is written to its first argument: truths to numbers, say."""

    def written(target: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = fn(target, *args, **kwargs)
        fits = out.dtype is target.dtype or not can_cast(out.dtype, target.dtype)
        return out if fits else out.to(target.dtype)  # what cannot be written is refused later

    return written


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    record, rows, repeated = DIRECT.get(name), IN_MEMORY.get(name), write_repeated(name)
    small = small_writes(name) or small_writes(fn.__name__.rstrip("_"))
    as_written = _of_its_dtype(fn)
    takes = takes_operands(fn)

    @functools.wraps(fn)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if OVERRIDES.active and not concerns_nobody((self, *args), kwargs):
            taken = dispatch(method, (self, *args), kwargs)
            if taken is not PASS:
                return taken
        operands = (self, *args)
        if small is not None and written_small(
            small,
            self,
            joined(small, operands) if small.spreads else operands,
            kwargs,
            as_written,
            operands,
        ):
            return self
        if repeated is not None and repeated(self, args, kwargs):
            return self
        if rows is not None and rows(self, args, kwargs):
            return self
        try:
            if record is not None and len(args) == 1:
                other = args[0]
                if not kwargs:
                    return update(in_place, self, record, other)
                if name in _SCALED and kwargs.keys() == {"alpha"} and not _shares(self, other):
                    alpha = kwargs["alpha"]
                    if _is_scaled_there(self, other, alpha):
                        factor = float(alpha if name == "add" else -alpha)
                        return update(in_place, self, ADD_SCALED, other, factor)
                    return update(in_place, self, record, scaled(name, self, other, alpha))
            return update(in_place, self, fn, *args, **kwargs)
        except (TypeError, AttributeError) as error:
            if takes and not OVERRIDES.active and overriding(args, kwargs):
                OVERRIDES.enlist()  # the first value of a class of its own
                return method(self, *args, **kwargs)
            written = modern(name, (self, *args), kwargs)
            if written is None or isinstance(error, AttributeError):
                raise
        return update(in_place, *written[0][:1], fn, *written[0][1:], **written[1])

    in_place = method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return asking(method)


# Whose in-place forms draw: into the tensor itself, where nobody has to know of it.
_DRAWING = frozenset(name.rstrip("_") for name in FILLS.split())


def _drawing(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    plain = _inplace(name, fn)
    small = SmallCalls(f"{name}_")

    @functools.wraps(plain)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if OVERRIDES.active and not concerns_nobody((self, *args), kwargs):
            taken: Any = dispatch(method, (self, *args), kwargs)
            if taken is not PASS:
                return taken
        if self._array.__class__ is ndarray:
            if CONTEXT.plain and not (LISTENERS or OVERRIDES.active):
                result: Tensor | None = None
                if small.small and not kwargs:  # the commonest; it asks for the tape itself
                    try:
                        result = HOOKS.meet_call(small.small, (self, *args), kwargs, False)
                    except Exception as error:  # as it is, it succeeds or says what is wrong
                        if raised_outside(error):
                            raise
                if result is None and CONTEXT.device in ON_CPU:
                    result = call_small(small, fn, (self, *args), kwargs)
                if result is not None:
                    return result
            return plain(self, *args, **kwargs)
        if self._array.__class__ not in DEVICE_LAYOUTS or direct_array(self) is None:
            return plain(self, *args, **kwargs)
        if CONTEXT.inferring:  # what is drawn into would be marked as a new tensor is
            return plain(self, *args, **kwargs)
        given = kwargs.get("generator")
        if (args and is_tensor(args[0])) or not (given is None or isinstance(given, Generator)):
            return plain(self, *args, **kwargs)
        kind = None if kwargs else kind_of_fill(method.__name__, self._array, args)
        if kind is not None and fill_again(kind, self):
            return self
        filling = Filling(given, self)
        drawn = fn(self, *args, **{**kwargs, "generator": filling})
        if drawn is self and kind is not None:
            note_fill(kind, filling)
        return self if drawn is self else update(method.__name__, self, lambda _: drawn)

    return asking(method)


def _shares(tensor: Tensor, other: Any) -> bool:
    """Whether what is added lies in the memory written to."""
    return isinstance(other, Tensor) and other._storage is tensor._storage


def _is_scaled_there(tensor: Tensor, other: Any, alpha: Any) -> bool:
    """Whether a multiple is added by one program (x - a y is x + (-a) y in every bit)."""
    if is_large(tensor._array, AT_ONCE) and is_scaled_in_one(tensor, other, alpha):
        return True
    there = tensor._array.__class__ in DEVICE_LAYOUTS and CONTEXT.plain
    plain = there and is_scaled_at_once(tensor, other, alpha) and other.shape == tensor.shape
    plain = plain and other._array.__class__ in DEVICE_LAYOUTS  # elements in memory, not sparse
    return plain and tensor.dtype in (float32, float64)  # halves are rounded between the two


_given: dict[str, Any] = {}  # by name on the class: the function it was derived from
_lock = forks.lock(forks.LockOrder.METHODS)


def install(cls: type[Tensor], modules: Collection[str] | None = None) -> None:
    """Give the class every published method, in-place form and property that it has not yet.

    What it has stays: compiled programs know methods by identity, and users may have replaced them.
    `modules` are those whose functions are meant; None means all.
    """
    with _lock:
        derived: list[tuple[str, Any, Callable[[Any], Any]]] = [
            *((name, fn, lambda fn: fn) for name, fn in list(METHODS.items())),
            *(
                (f"{name}_", fn, partial(_drawing if name in _DRAWING else _inplace, name))
                for name, fn in list(INPLACE.items())
                if f"{name}_" not in METHODS
            ),
            *((name, fn, _property) for name, fn in list(PROPERTIES.items())),
        ]
        for name, fn, derive in derived:
            if _given.get(name) is not fn and (modules is None or _home(fn) in modules):
                setattr(cls, name, derive(fn))
                _given[name] = fn
        if _OPERATORS not in _given:
            _given[_OPERATORS] = True
            install_operators()
            install_indexing()
            install_printing()
            install_copying()
            ask_unbound((*WITH_THEM, *SPECIAL))
        ask_unbound(name for name, _, _ in derived)


_OPERATORS = "the operators"  # no name of a method


def _property(fn: Any) -> property:
    return fn if isinstance(fn, property) else property(fn)


def _home(fn: Any) -> str:
    """The module that a function or property comes from."""
    home: str = (fn.fget if isinstance(fn, property) else fn).__module__
    return home
