"""Convolutions by cuDNN whose operands were met before, in eager mode on a GPU.

Note [prepared convolutions]
    To find a plan takes longer than to run it, so what was decided for operands of one kind is kept
    under a key that is put together in one go, and calls that find it there do no more than take
    memory and hand over addresses (`prepared_call`). A call that does not goes the long way, which
    checks its operands (`convolved`, in `eager.py`, which loads with the convolutions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.gpu.device_memory import POOLS
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from adjoint.engine.backends.array.libraries.cudnn import Planned

Array = Any
Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was decided for operands of one kind."""

    plan: Planned
    make: Callable[[int], Array]  # the result, given the current stream
    # Has a plan run with memory to work in, given the stream.
    lend: Callable[[int, Callable[..., None], tuple[int, ...]], None] | None
    channels_last: bool
    copied: tuple[bool, bool]  # operands that lie otherwise than they must

    def __call__(self, x: Array, y: Array) -> Array:
        plan = self.plan
        stream = plan.owner.current().ptr
        out = self.make(stream)
        if self.copied[0]:
            x = dense(x, self.channels_last)
        if self.copied[1]:
            y = dense(y, self.channels_last)
        addresses = x.data.ptr, y.data.ptr, out.data.ptr
        if self.lend is None:
            plan(addresses, 0, stream)
        else:
            self.lend(stream, plan, addresses)
        return out


def prepared_by(
    plan: Planned, x: Array, shape: Shape, channels_last: bool, copied: tuple[bool, bool]
) -> Prepared:
    """A plan with what makes its result, of the first operand's dtype on its device."""
    pools, index = POOLS[0], x.data.device_id
    steps = last_steps(shape, x.dtype.itemsize)[1] if channels_last else None
    make = pools.maker(index, shape, x.dtype, steps)
    lend = pools.lender(index, plan.workspace) if plan.workspace else None
    return Prepared(plan, make, lend, channels_last, copied)


PREPARED: dict[Any, Prepared | None] = {}
BENCHMARK = "backends.cudnn.benchmark"  # the switch that has plans timed
# Of records with kernels of our own: what prepares one for arrays and parameters, by name.
PREPARERS: dict[str, Callable[..., Callable[[Array, Array], Array] | None]] = {}


def key_of(
    name: str, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    """All that decides how a convolution runs."""
    return (
        name, x.dtype, x.shape, x.strides, x.data.device_id, y.dtype, y.shape, y.strides,
        y.data.device_id, stride, padding, dilation, groups, switches.computed_with,
        switches.get(BENCHMARK),
    )  # fmt: skip


def prepared_call(record: Record, x: Array, y: Array, geometry: dict[str, Any]) -> Array | None:
    """The result, if a convolution of such operands was prepared on the current device."""
    prepared = prepared_for(record, x, y, geometry)
    return None if prepared is None else prepared(x, y)


def prepared_for(
    record: Record, x: Array, y: Array, geometry: dict[str, Any]
) -> Callable[[Array, Array], Array] | None:
    """What was decided for such operands, if they are on the current device."""
    if record.name in PREPARERS:
        return PREPARERS[record.name](x, y, **geometry)
    prepared = PREPARED.get(key_of(record.name, x, y, **geometry))
    if prepared is None or cupy().cuda.runtime.getDevice() != x.data.device_id:
        return None
    return prepared


def empty(shape: Shape, dtype: Any, channels_last: bool) -> Array:
    """A new array in an order."""
    if not channels_last:
        return cupy().ndarray(shape, dtype)
    module = cupy()
    size, steps = last_steps(shape, dtype.itemsize)
    # Made so at once: to make it otherwise and view it takes CuPy longer than the rest.
    return module.ndarray(shape, dtype, module.cuda.alloc(size), steps)


@lru_cache(maxsize=1024)
def last_steps(shape: Shape, itemsize: int) -> tuple[int, Shape]:
    """Bytes of an array whose channels lie innermost, and of the steps along its dimensions.

    >>> last_steps((2, 3, 5, 7), 4)
    (840, (420, 4, 84, 12))
    """
    steps, step = [0] * len(shape), itemsize
    for d in (1, *reversed(range(2, len(shape))), 0):
        steps[d] = step
        step *= shape[d]
    return step, tuple(steps)


def dense(x: Array, channels_last: bool) -> Array:
    """The same elements without gaps in an order.

    A fragment is launched in a fifth of the time that CuPy's copy takes; that is for those who
    look on, and for what no fragment does.
    """
    if CONTEXT.plain and not LISTENERS and not faults.BLOCKING:
        strides = None
        if channels_last:
            steps = last_steps(x.shape, x.dtype.itemsize)[1]
            strides = tuple([step // x.dtype.itemsize for step in steps])
        copied = cloned(wrap(x), {"strides": strides})
        if copied is not None:
            return copied._array
    made = empty(x.shape, x.dtype, channels_last)
    made[...] = x
    return made


def cloned(x: Tensor, params: dict[str, Any]) -> Tensor | None:
    """A copy of a tensor off the tape by a fragment, if one does it."""
    record = REGISTRY["clone"]
    made: Tensor | None = None
    if record.met:
        rest = switches.computed_with
        made = HOOKS.meet_on_device(record.name, record.met, (x,), params, rest)
    return HOOKS.fragments.forward_on_device(record, (x,), params) if made is None else made
