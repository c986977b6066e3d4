"""Two looks at Python objects that every call of a compiled function takes, as native code.

Through Python, the address of an array's elements costs 2 us (NumPy describes the whole array to
tell it) and a comparison of fifty objects by identity 1.4 us; a small step has thirty to spend.
Where the interpreter or NumPy lay out objects otherwise than expected, which is tried once, both
are done in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.core.operations.record import lists_differ as slow_differ

HEAD = object.__basicsize__  # what every object begins with
# Where threads run at once, lists may change under our eyes, and reference counts mean less.
COUNTED: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# An array has the address of its elements first; a list, its length and where its items are.
TEXT = f"""
declare ptr @PyLong_FromLongLong(i64)
define ptr @address(ptr %self, ptr %array) {{
  %place = getelementptr i8, ptr %array, i64 {HEAD}
  %data = load i64, ptr %place
  %out = call ptr @PyLong_FromLongLong(i64 %data)
  ret ptr %out
}}
define ptr @differ(ptr %self, ptr %args, i64 %count) {{
  %second = getelementptr ptr, ptr %args, i64 1
  %a = load ptr, ptr %args
  %b = load ptr, ptr %second
  %pa = getelementptr i8, ptr %a, i64 {HEAD}
  %pb = getelementptr i8, ptr %b, i64 {HEAD}
  %na = load i64, ptr %pa
  %nb = load i64, ptr %pb
  %even = icmp eq i64 %na, %nb
  br i1 %even, label %look, label %no
look:
  %qa = getelementptr i8, ptr %a, i64 {HEAD + 8}
  %qb = getelementptr i8, ptr %b, i64 {HEAD + 8}
  %ia = load ptr, ptr %qa
  %ib = load ptr, ptr %qb
  br label %loop
loop:
  %i = phi i64 [ 0, %look ], [ %next, %step ]
  %over = icmp eq i64 %i, %na
  br i1 %over, label %yes, label %step
step:
  %xa = getelementptr ptr, ptr %ia, i64 %i
  %xb = getelementptr ptr, ptr %ib, i64 %i
  %va = load ptr, ptr %xa
  %vb = load ptr, ptr %xb
  %next = add i64 %i, 1
  %same = icmp eq ptr %va, %vb
  br i1 %same, label %loop, label %no
yes:
  %zero = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %zero
no:
  %one = call ptr @PyLong_FromLongLong(i64 1)
  ret ptr %one
}}"""

Address = Callable[[Any], int]
Differ = Callable[[list[Any], list[Any]], int]


def slow_address(array: Any) -> int:
    """Where an array's elements begin, by NumPy's own account."""
    where: int = array.__array_interface__["data"][0]
    return where


def address_of(array: Any) -> int:
    """Where an array's elements begin, the quick way if it is NumPy's own."""
    return looks()[0](array) if array.__class__ is np.ndarray else slow_address(array)


@cache
def looks() -> tuple[Address, Differ]:
    """`address(array)`, for arrays of NumPy's own class, and `differ(list, list)`, for lists.

    >>> address, differ = looks()
    >>> array = np.arange(3)
    >>> address(array) == array.__array_interface__["data"][0]
    True
    >>> differ([array, 1], [array, 1]), differ([array], [array.copy()]), differ([], [None])
    (0, 1, 1)
    """
    if sys.implementation.name != "cpython" or not COUNTED:
        return slow_address, slow_differ
    code = library.linked("peeking", TEXT, fastcall.interpreter())
    address: Address = fastcall.builtin(code.address("address"), name="address", keep=code)
    flags = fastcall.METH_FASTCALL
    differ: Differ = fastcall.builtin(code.address("differ"), name="differ", flags=flags, keep=code)
    return (address, differ) if _right(address, differ) else (slow_address, slow_differ)


def _right(address: Address, differ: Differ) -> bool:
    """Whether objects are laid out as expected. Only memory of the objects' own is read."""
    arrays = [np.arange(6), np.zeros((2, 3))[:, 1:], np.ones((), np.float32)]
    lists: list[list[Any]] = [[], [None], arrays, [*arrays, None], [None, *arrays], [*arrays]]
    return all(address(a) == slow_address(a) for a in arrays) and all(
        differ(a, b) == slow_differ(a, b) for a in lists for b in lists
    )
