"""Operations whose results are put into memory that is there: in place, and draws into a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.casting import LARGE, make_plan
from adjoint.engine.backends.array.executor import KERNEL, explain, find_kernel
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.core.operations.large import AT_ONCE, DEVICE_LAYOUTS, WAITS
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase

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
    if into.size >= AT_ONCE and compute_with_all_cores(record, target, (other, *more)):
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
        other = other._array  # type: ignore[attr-defined]
        if other.__class__ is not ndarray or (other.shape and other.shape != into.shape):
            return False
        kind = other.dtype if other.shape else (other.dtype,)
    key = (into.dtype if into.shape else (into.dtype,), kind)
    plan = record.plans.get(key)
    if plan is None:
        try:
            plan = record.plans[key] = make_plan(record, [into, other], {})
        except Exception:  # the operation says what is wrong
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
_met: dict[Any, int] = {}  # how often, by kind
KINDS = 1 << 9  # that are counted, and get programs


def compute_with_all_cores(record: Record, target: Any, others: tuple[Any, ...]) -> bool:
    """The same by a program that all cores run (Note [updates]); False: nothing was done.

    Only what has the same bits either way is: arithmetic that IEEE 754 rounds once, and what is
    a fragment in the form that is not in place.
    """
    if not (record.name in ONE_ROUNDING or (record.given_floats and record.large)):
        return False
    if not WAITS or LISTENERS:
        return False
    if target._base is not None or target._storage.version < 0:
        return False
    into = target._array
    flags, dtype = into.flags, into.dtype
    if not (dtype == np.float32 or dtype == np.float64) or not (
        flags.c_contiguous and flags.writeable and flags.aligned
    ):
        return False
    tensors: list[Any] = [target]
    numbers: list[float] = []
    places: list[tuple[int, int]] = []  # in which of both lists, and where there
    for x in others:
        if x.__class__ is float and -LARGEST <= x <= LARGEST:
            places.append((1, len(numbers)))
            numbers.append(x)
            continue
        if not isinstance(x, TensorBase):
            return False
        array = x._array  # type: ignore[attr-defined]
        if array.__class__ is not ndarray or array.dtype != dtype or array.shape != into.shape:
            return False
        if not (array.flags.c_contiguous and array.flags.aligned):
            return False
        if x._storage is target._storage or np.may_share_memory(array, into):  # type: ignore[attr-defined]
            return False
        places.append((0, len(tensors)))
        tensors.append(x)
    key = (record.name, *places)
    kind = (key, dtype, into.shape)
    count = _met.get(kind, 0)
    if count < MET_BEFORE:
        if count or len(_met) < KINDS:
            _met[kind] = count + 1
        return False

    def rule(given: Any, known: Any) -> None:
        both = given, known
        out = record(given[0], *[both[which][k] for which, k in places])
        if out.dtype is not given[0].dtype or out.shape != given[0].shape:
            raise TypeError(f"{record.name}: its result is no {given[0]._spec}")
        given[0].copy_(out)

    version = target._storage.version
    if not HOOKS.updates.run(key, tensors, numbers, {}, rule):
        return False
    target._storage.version = version  # which the caller counts
    return True


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
    try:
        if record.met and met_into(record, (target, *others), {}, into):
            return True
        faults.LATEST.append((record.name, None, 0))
        return bool(HOOKS.fragments.compute_into(record, target, *others))
    except MemoryError as error:
        raise explain(record, (target, *others), {}, error) from error


def met_into(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], into: Array
) -> bool:
    """Put what a record gives into an array of a GPU's, if native code finds how."""
    done = HOOKS.meet_into(record.name, record.met, operands, params, switches.computed_with, into)
    return done is True


def draw_into(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], target: Any
) -> bool:
    """Draw into the memory of a GPU's tensor, if such a draw was met before."""
    if not record.met or faults.BLOCKING or LISTENERS:
        return False
    try:
        return met_into(record, operands, params, target._array)
    except MemoryError:  # Python's way tries again, and says what is wrong
        return False


HOOKS.compute_into = compute_into
HOOKS.draw_into = draw_into
