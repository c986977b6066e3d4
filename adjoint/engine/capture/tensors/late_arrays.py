"""NumPy arrays of each call: drawn by it, or given to it, and what is computed from them.

Note [late arrays]
    While a function is recorded such an array is a `LateArray`. Its shape and dtype are known, its
    elements are not: what NumPy would do to it becomes a step that each call takes before anything
    else, numbers taken out of it are host scalars, and a tensor made of it is an input. A test of
    an element holds for calls where it comes out the same. An array among the arguments is also a
    tensor argument on the same memory, so what the function writes there the caller sees.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.engine.capture.python.exposing import expose
from adjoint.engine.capture.python.recorder import DrawnNumber
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.engine.graph.sizes.resizing import is_of_sizes
from adjoint.engine.ops.shape.convert import clone
from adjoint.engine.tensor.tensor import wrap
from adjoint.engine.tensor.watching import show

if TYPE_CHECKING:
    from adjoint.engine.capture.tensors.following import TensorEngine

# Attributes that depend on shape and dtype alone.
_STATIC = frozenset("shape dtype ndim size itemsize nbytes strides".split())
_PARTS = frozenset("T real imag".split())
METHODS = frozenset(
    "all any argmax argmin argsort astype clip copy cumprod cumsum dot flatten item max mean min "
    "nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take tolist "
    "trace transpose var view".split()
)
_MOST = 1024  # elements of a list that is made of an array
WRITES = frozenset("fill sort put partition itemset".split())


class ArraySlot:
    """Where a late array finds the array of the present call."""

    __slots__ = ("place", "scalar", "value")

    def __init__(self, place: int, value: Any) -> None:
        self.place = place
        self.value = value
        self.scalar: Any = None  # the array that stands for it

    def now(self) -> Any:
        """The array that was given."""
        return self.value._array


class LateArray:
    """An array of each call."""

    __slots__ = ("checked", "draw", "engine", "shared", "slot", "tensor")

    def __init__(
        self,
        engine: TensorEngine,
        draw: DrawnNumber,
        tensor: Any = None,
        slot: ArraySlot | None = None,
    ) -> None:
        self.engine = engine
        self.draw = draw
        self.tensor = tensor  # of an argument: the one on the same memory
        self.slot = slot
        self.checked = False  # whether calls look at shape and dtype
        self.shared: Any = None  # a tensor on the memory of one that was drawn

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.draw.value)

    @property
    def value(self) -> Any:
        """The array while the function is recorded."""
        return self.draw.value

    def read(self) -> None:
        """Refuse to be read once tensors on the same memory were written to."""
        tensor = self.tensor if self.shared is None else self.shared
        if tensor is not None and self.engine.memory.is_written(tensor):
            raise self.refuse("it is read after a tensor on its memory was written to")

    def refuse(self, why: str) -> Exception:
        """An error that names the line."""
        refusal: Exception = self.engine.recorder.refuse(
            "a NumPy array of the call", why, "Use tensors for what changes, or pass numbers."
        )
        return refusal

    def check(self) -> None:
        """Have each call look whether shape and dtype are as they were."""
        if self.checked:
            return
        self.checked = True
        wanted = self.value.shape, self.value.dtype

        def look() -> None:
            now = self.draw.now()
            if (now.shape, now.dtype) != wanted:
                raise CaptureError(
                    f"compile: a NumPy array of the call is {now.dtype}{list(now.shape)}, and was "
                    f"{wanted[1]}{list(wanted[0])} when the function was recorded: its shape "
                    "depends on numbers that differ from call to call. Compute it outside."
                )

        self.engine.recorder.draws.append(DrawnNumber(look, None, self))

    def __getattr__(self, name: str) -> Any:
        if name in _STATIC:
            self.check()
            return getattr(self.value, name)
        if name in _PARTS:
            return late_call(self.engine, getattr, (self, name), {})
        if name in METHODS or (name in WRITES and self.tensor is None):
            return LateMethod(self, name)
        if not hasattr(self.value, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        raise self.refuse(f".{name} of it cannot be put off to each call")

    def __len__(self) -> int:
        self.check()
        return len(self.value)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        return late_call(self.engine, operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.tensor is not None:
            if not (type(value) in (bool, int, float) or is_late(value) or is_host(value)):
                raise self.refuse(f"a {type(value).__name__} is written to it")
            self.tensor[key] = tensor_of(value) if is_late(value) else value
            return
        self.write()
        late_call(self.engine, operator.setitem, (self, key, value), {})

    def write(self) -> None:
        """Refuse to be written to where others show the same memory."""
        if self.shared is not None:
            raise self.refuse("it is written to, and a tensor shows its memory")
        given = [late.value for late in self.engine.given_arrays]
        if any(np.may_share_memory(self.value, other) for other in given):
            raise self.refuse("it is written to, and is part of an argument; write to that itself")

    def __float__(self) -> Any:
        return late_call(self.engine, float, (self,), {})

    def __int__(self) -> Any:
        return late_call(self.engine, int, (self,), {})

    def __index__(self) -> Any:
        return operator.index(late_call(self.engine, operator.index, (self,), {}))

    def __bool__(self) -> Any:
        return bool(late_call(self.engine, bool, (self,), {}))

    __hash__ = None  # type: ignore[assignment]


class LateMethod:
    """A method of such an array."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: LateArray, name: str) -> None:
        self.owner, self.name = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.name
        if name in WRITES:
            self.owner.write()
        return late_call(
            self.owner.engine,
            lambda own, *given, **named: getattr(own, name)(*given, **named),
            (self.owner, *args),
            kwargs,
        )


def is_late(value: Any) -> bool:
    """Whether a value is an array of each call."""
    return type(value) is LateArray


def holds_late(values: Sequence[Any]) -> bool:
    """Whether there is an array of each call among values, or in lists and tuples of them."""
    return any(is_late(x) or (type(x) in (list, tuple) and holds_late(x)) for x in values)


def late_call(
    engine: TensorEngine, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What NumPy makes of arrays of each call, put off to each call."""
    if any(map(is_tensor, (*args, *kwargs.values()))):
        return fn(*[tensor_of(x) if is_late(x) else x for x in args], **kwargs)
    given = [_reader(engine, x) for x in args]
    named = {key: _reader(engine, x) for key, x in kwargs.items()}

    def take() -> Any:
        return fn(*[read() for read in given], **{key: read() for key, read in named.items()})

    return put_off(engine, DrawnNumber(take, take(), None))


def put_off(engine: TensorEngine, draw: DrawnNumber) -> Any:
    """What stands for something that each call takes anew."""
    engine.recorder.draws.append(draw)
    value = draw.value
    if value is None:
        return None
    if type(value) in (bool, int, float):
        return HostScalar(draw.now, "drawn", key=("drawn", id(draw)))
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return LateArray(engine, draw)
    if type(value) is tuple:
        return tuple(_part(engine, draw, i) for i in range(len(value)))
    if type(value) is list and len(value) <= _MOST:
        return engine.recorder.new([_part(engine, draw, i) for i in range(len(value))])
    raise engine.recorder.refuse(
        "a NumPy array of the call",
        f"a {type(value).__name__} is made of it, which cannot be put off to each call",
        "Compute it outside and pass the result.",
    )


def _part(engine: TensorEngine, draw: DrawnNumber, index: int) -> Any:
    return put_off(engine, DrawnNumber(lambda: draw.now()[index], draw.value[index], None))


def _reader(engine: TensorEngine, value: Any) -> Callable[[], Any]:
    """What gives an operand in each call."""
    if is_late(value):
        value.read()
        read: Callable[[], Any] = value.draw.now
        return read
    if isinstance(value, HostScalar):
        engine.sized |= is_of_sizes(value)
        return value.get
    if type(value) in (list, tuple) and holds_late(value):
        parts, kind = [_reader(engine, x) for x in value], type(value)
        return lambda: kind([read() for read in parts])
    operand = expose(engine.recorder, value)
    return lambda: operand


def tensor_of(late: LateArray) -> Any:
    """An array of each call as a tensor, on the same memory."""
    late.read()
    late.check()
    if late.tensor is not None:
        return late.tensor
    value = late.value
    if isinstance(value, np.float64):
        return HostScalar(lambda: float(late.draw.now()), "drawn", key=("drawn", id(late.draw)))
    if late.shared is None:
        buffer = np.array(value)
        fill = DrawnNumber(lambda: np.copyto(buffer, late.draw.now()), None, None)
        late.engine.recorder.draws.append(fill)
        tensor = wrap(buffer)
        show(tensor._storage)  # filled by each call
        late.engine.recorder.alive.append(tensor)
        late.shared = clone(tensor)
    return late.shared


def _operator(name: str, swap: bool) -> Callable[..., Any]:
    fn = getattr(operator, name)

    def method(self: LateArray, other: Any) -> Any:
        return late_call(self.engine, fn, (other, self) if swap else (self, other), {})

    return method


def _in_place(name: str) -> Callable[..., Any]:
    fn, written = getattr(operator, name), getattr(operator, f"i{name.rstrip('_')}")

    def method(self: LateArray, other: Any) -> Any:
        if self.tensor is None:
            self.write()
            late_call(self.engine, written, (self, other), {})
        else:
            result = late_call(self.engine, fn, (self, other), {})
            if not np.can_cast(result.value.dtype, self.value.dtype, "same_kind"):
                raise self.refuse(f"{result.value.dtype} is written to its {self.value.dtype}")
            self[...] = result
        return self

    return method


for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split():
    _fn = f"{_name}_" if _name in ("and", "or") else _name
    setattr(LateArray, f"__{_name}__", _operator(_fn, False))
    setattr(LateArray, f"__r{_name}__", _operator(_fn, True))
    setattr(LateArray, f"__i{_name}__", _in_place(_fn))
for _name in "lt le gt ge eq ne".split():
    setattr(LateArray, f"__{_name}__", _operator(_name, False))
for _name in "neg pos abs invert".split():
    _one = getattr(operator, _name)
    setattr(
        LateArray, f"__{_name}__", lambda self, fn=_one: late_call(self.engine, fn, (self,), {})
    )
