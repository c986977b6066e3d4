"""Operations whose results are put into memory that is there: in place, and draws into a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.casting import LARGE, make_plan
from adjoint.engine.backends.array.executor import explain, find_kernel
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.memory.filling import zero_triangle
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.large import (
    AT_ONCE,
    DEVICE_LAYOUTS,
    HALF_DTYPES,
    WAITS,
)
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import KERNEL
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.late_faults import UNSEEN, settle
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import wrap

Array = Any


def compute_into(record: Record, target: Any, other: Any, *more: Any) -> bool:
    """record(target, other, ...) in the memory of `target`, where one call does just that.

    One of a ufunc takes half the time of computing a result and copying it (4.4 us of 8.6 for ten
    elements). NumPy refuses bad operands before it writes, and copies operands that overlap.
    """
    into = target._array
    if into.__class__ in DEVICE_LAYOUTS:
        return compute_on_device(record, target, other, *more)
    if into.__class__ is not ndarray:
        return False
    if into.size >= AT_ONCE and compute_with_all_cores(
        record, record.name, target, (other, *more), {}
    ):
        return True
    if more:
        return False
    kernel = record.plans.get(KERNEL) or find_kernel(record)
    if kernel.__class__ is not np.ufunc:
        return False
    kind: Any = other.__class__
    if kind is int and not -LARGE <= other < LARGE:
        return False
    if isinstance(other, TensorBase):
        if HOOKS.sparse is not None and other.is_sparse:  # type: ignore[attr-defined]
            return HOOKS.sparse.add_into(record, into, other)
        other = other._array
        if other.__class__ is not ndarray or (other.shape and other.shape != into.shape):
            return False
        kind = other.dtype if other.shape else (other.dtype,)
    key = (into.dtype if into.shape else (into.dtype,), kind)
    plan = record.plans.get(key)
    if plan is None:
        try:
            plan = record.plans[key] = make_plan(record, [into, other], {})
        except Exception as error:  # the operation says what is wrong
            if raised_outside(error):
                raise
            return False
    if plan.casts is not None or plan.result != into.dtype:
        return False
    quietly(kernel, (into, other, into), {})
    return True


# How often an operation on tensors of one shape is done by one core first: a program that all
# cores run takes some to some dozens of milliseconds to make.
MET_BEFORE = 16
ONE_ROUNDING = frozenset({"add", "sub", "mul", "div"})  # of floats, by every way to compute them
LARGEST = 65504  # numbers up to here are numbers in every dtype of floats
PLAIN_ARGUMENTS = (int, float, bool, str, type(None))
PROGRAM_DTYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))
BY_PLACE = frozenset({"tril_", "triu_"})  # which ask where an element is
_met: dict[Any, Any] = {}  # by kind, how often it was met, then the programs it has
KINDS = 1 << 9  # that are counted, and get programs


def compute_with_all_cores(
    compute: Any, name: str, target: Any, others: tuple[Any, ...], params: dict[str, Any]
) -> bool:
    """compute(target, ...) in the memory of `target` by a program (Note [updates]), which reads and
    writes it once; False: nothing was done.

    Only what has the same bits either way is (`has_same_bits`). Floats given to arithmetic differ
    from call to call and are the program's operands; all other numbers are part of it.
    """
    if not WAITS or LISTENERS:
        return False
    into, order = target._array, None  # or which dimensions come first in memory
    if name in BY_PLACE:
        given = (*others, *params.values()) or (0,)
        plain = len(given) == 1 and is_word(given[0]) and params.keys() <= {"diagonal"}
        if plain and zero_triangle(into, given[0], name == "tril_"):
            return True
    flags = into.flags
    if not flags.c_contiguous:
        order = longest_steps_first(into)
        into = into.transpose(order)
        if name in BY_PLACE or not into.flags.c_contiguous:
            return False
    if not (flags.writeable and flags.aligned and is_program_dtype(into.dtype)):
        return False
    open_numbers = isinstance(compute, Record) and (
        compute.given_floats or compute.name in ONE_ROUNDING
    )
    parts = given_to_program(into, order, others, open_numbers)
    if parts is None or any(type(x) not in PLAIN_ARGUMENTS for x in params.values()):
        return False
    tensors, numbers, places = parts
    key: Any = (name,)
    if places or params:
        named = [(k, type(x), repr(x)) for k, x in params.items()]
        key = (name, *[place[:3] for place in places], *named)
    kind: Any = (key, into.dtype, into.shape)
    if len(tensors) > 1:
        kind += tuple([(t._array.dtype, t._array.shape) for t in tensors[1:]])
    count = _met.get(kind, 0)
    if count.__class__ is list:
        for program in count:
            if program.attempt(tensors, numbers):
                return True
    elif count < MET_BEFORE:
        if count or len(_met) < KINDS:
            _met[kind] = count + 1
        return False

    def rule(given: Any, known: Any) -> None:
        both = given, known
        operands = [place[3] if place[0] == 2 else both[place[0]][place[1]] for place in places]
        out = compute(given[0], *operands, **params)
        if out.dtype is bool_ and given[0].dtype is not bool_:
            out = out.to(given[0].dtype)  # truths are written as 0 and 1
        if out.dtype is not given[0].dtype or out.shape != given[0].shape:
            raise TypeError(f"{name}: its result is no {given[0]._spec}")
        if not (open_numbers or has_same_bits(CONTEXT.capture.graph.nodes, into)):
            raise TypeError(f"{name}: in one program it may be rounded otherwise")
        given[0].copy_(out)

    programs: list[Any] = []
    if not HOOKS.updates.run(key, tensors, numbers, {}, rule, programs):
        return False
    (_met[kind],) = programs
    return True


def given_to_program(
    into: Any, order: Any, others: tuple[Any, ...], open_numbers: bool
) -> tuple[list[Any], list[float], list[Any]] | None:
    """Tensors and numbers that a program is given, the target first, and for each other operand its
    list and its place there, or what the program knows; None where it cannot be given one."""
    tensors: list[Any] = [wrap(into)]
    numbers: list[float] = []
    places: list[Any] = []
    for x in others:
        if isinstance(x, TensorBase):
            array = x._array
            if array.__class__ is not ndarray or not is_program_dtype(array.dtype):
                return None
            if order is not None:
                if array.ndim != len(order):
                    return None
                array = array.transpose(order)
            if not (array.flags.c_contiguous and array.flags.aligned):
                return None
            if np.may_share_memory(array, into):
                if layout_of(array) != layout_of(into):
                    return None
                places.append((0, 0))  # the same elements, each read before it is written
                continue
            places.append((0, len(tensors)))
            tensors.append(wrap(array))
        elif open_numbers and x.__class__ is float and -LARGEST <= x <= LARGEST:
            places.append((1, len(numbers)))
            numbers.append(x)
        elif type(x) in PLAIN_ARGUMENTS:
            places.append((2, type(x), repr(x), x))
        else:
            return None
    return tensors, numbers, places


def is_word(x: Any) -> bool:
    """Whether a number is one of int64's."""
    return type(x) is int and -(1 << 63) <= x < 1 << 63


def longest_steps_first(array: Array) -> list[int]:
    """An array's dimensions, from the one with the longest steps to that with the shortest."""
    return sorted(range(array.ndim), key=lambda d: -array.strides[d])


def layout_of(array: Array) -> tuple[Any, ...]:
    """Where elements lie and what they are: arrays of which it is the same are the same one."""
    return array.ctypes.data, array.dtype, array.shape, array.strides


def is_program_dtype(dtype: Any) -> bool:
    """Whether programs compute in a dtype as the eager table does: no complex ones, no bytes."""
    return dtype in PROGRAM_DTYPES or dtype in HALF_DTYPES


def has_same_bits(nodes: Any, into: Array) -> bool:
    """Whether operations on tensors as large as `into` have the same bits one by one, as they run
    where nothing is written in place, and in one program.

    So has what rounds nothing, before or after one operation that does: arithmetic that IEEE 754
    rounds once, or what is a fragment by itself.
    """
    rounding = 0
    for node in nodes:
        record = node.record
        if record.fails and (record.fails != "divisor" or into.dtype.kind != "f"):
            return False
        if record.draws or record.given_a_draw or record.opaque or record.indexed:
            return False
        if record.rounding == "exact" and record.compose is None:
            continue
        if not (0 < record.large <= into.size or record.name in ONE_ROUNDING):
            return False
        rounding += 1
    return rounding <= 1


# CuPy's classes of memory that others own: two of them may be the same memory.
OWNED_ELSEWHERE = frozenset({"DLPackMemory", "UnownedMemory"})


def memory_of(array: Array) -> Any:
    """What owns the memory that a GPU's array shows part of; None where that is not known."""
    memory = getattr(array.data, "mem", None)
    return None if memory.__class__.__name__ in OWNED_ELSEWHERE else memory


def are_apart(one: Array, other: Array) -> bool:
    """Whether arrays of a GPU's are known to share no memory."""
    mine, theirs = memory_of(one), memory_of(other)
    return mine is not None and theirs is not None and mine is not theirs


def compute_on_device(record: Record, target: Any, *others: Any) -> bool:
    """The same on a GPU, where such a fragment was met before and the operands lie apart."""
    by_element = record.family == "elementwise" or record.given_floats
    if not by_element or record.fails or faults.BLOCKING or LISTENERS:
        return False
    into = target._array
    for other in others:
        if is_tensor(other):
            array = other._array
            if array.__class__ is not into.__class__ or not are_apart(array, into):
                return False
    if UNSEEN:
        settle()
    try:
        if record.met and met_into(record, (target, *others), {}, (into,)):
            return True
        faults.LATEST.append((record.name, None, 0))
        return bool(HOOKS.fragments.compute_into(record, target, *others))
    except MemoryError as error:
        raise explain(record, (target, *others), {}, error) from error


def met_into(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], into: tuple[Array, ...]
) -> bool:
    """Put what a record gives into arrays of a GPU's, if native code finds how."""
    done = HOOKS.meet_into(record.name, record.met, operands, params, switches.computed_with, into)
    return done is True


def put_into(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], *targets: Any
) -> bool:
    """Have a record write its results to the memory of a GPU's tensors, if it was met before.

    They lie apart from each other and from what is read, but for elements that are written where
    they were read.
    """
    if not record.met or faults.BLOCKING or LISTENERS:
        return False
    if UNSEEN:
        settle()
    try:
        into = tuple([target._array for target in targets])
        if not met_into(record, operands, params, into):
            return False
    except MemoryError:  # Python's way tries again, and says what is wrong
        return False
    for target in targets:
        target._storage.version += 1
    return True


HOOKS.compute_into = compute_into
HOOKS.compute_large = compute_with_all_cores
HOOKS.put_into = put_into
