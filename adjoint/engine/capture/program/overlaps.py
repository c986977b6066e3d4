"""Memory that a program writes and also reads through another array.

Note [overlaps]
    Tensors that share a Storage, or a buffer, are known to be windows on the same memory, and a
    trace follows what is written through one of them. Tensors made of two NumPy arrays that overlap
    (`from_numpy(a)` and `from_numpy(a[1:])`, DLPack, buffers) are not. Reading both is fine; a
    program that writes one of them would not show it in the other, so such calls are refused.

    States are looked at once. Arguments are looked at in every call of a program that writes: a
    NumPy view names the owner of its memory, so one that does not belong to a state's owner needs
    no further look; addresses are compared only where memory comes from elsewhere. Where no tensor
    was ever made on memory from outside (`FOREIGN`), not even that is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from operator import le
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from adjoint.engine.core.generated import function_of_text

ndarray = np.ndarray
EXACT = 10_000  # steps that finding out about interleaved arrays may take


class Spans:
    """Arrays by where they lie."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        placed = sorted(((*byte_bounds(a), k) for k, a in enumerate(arrays) if a.size))
        self.arrays = [arrays[k] for _, _, k in placed]
        self.starts = [low for low, _, _ in placed]
        # The furthest end of any array so far.
        self.reach = list(accumulate([high for _, high, _ in placed], max))

    def disjoint(self) -> bool:
        """Whether each array ends before the next begins."""
        return all(map(le, self.reach, self.starts[1:]))

    def meets(self, array: Any) -> Any:
        """One of the arrays, another than the given one, that shares elements with it, or None."""
        if not array.size:
            return None
        low, high = byte_bounds(array)
        k = bisect_left(self.starts, high) - 1
        while k >= 0 and self.reach[k] > low:
            other = self.arrays[k]
            if other is not array and share(array, other):
                return other
            k -= 1
        return None


def share(a: Any, b: Any) -> bool:
    """Whether two arrays have an element in common."""
    try:
        return bool(np.shares_memory(a, b, max_work=EXACT))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True  # to be refused, at worst without need


class Overlaps:
    """What a program has to know about its inputs' memory.

    `states` are arrays that are always the same, `written` those of them that are written; `given`
    the positions among the inputs of arrays that each call brings, and whether they are written.
    """

    def __init__(
        self, states: Sequence[Any], written: Sequence[Any], given: dict[int, bool]
    ) -> None:
        self.given = list(given)
        self.writes_given = [k for k, flag in given.items() if flag]
        self.targets = [a for a in written if isinstance(a, np.ndarray)]
        known = {id(a): a for a in (*states, *self.targets) if isinstance(a, np.ndarray)}
        self.arrays = [*known.values()]
        foreign = any(map(is_foreign, self.arrays))
        # Arrays on memory of their own, each on its own, need no look at addresses.
        if foreign or len(set(map(id, map(root_of, self.arrays)))) < len(self.arrays):
            self._check_states()
        watched = self.arrays if self.writes_given else self.targets
        always = bool(self.writes_given) or (foreign and any(map(is_foreign, watched)))
        # The owners of what is written, of which no array that is given may be a part; None where
        # addresses have to be looked at.
        roots = {id(root_of(a)) for a in watched}
        self.owners = None if always else frozenset(roots)
        self.check = self._checker(always, roots)

    @cached_property
    def every(self) -> Spans:
        """Where the states lie."""
        return Spans(self.arrays)

    @cached_property
    def written(self) -> Spans:
        """Where those of them lie that are written."""
        return Spans(self.targets)

    def _check_states(self) -> None:
        if self.every.disjoint():
            return
        for array in self.targets:
            if self.every.meets(array) is not None:
                raise RuntimeError(_message("a tensor that the function reaches", array))

    def _checker(self, always: bool, roots: set[int]) -> Callable[[Sequence[Any]], None]:
        """A function that refuses inputs which overlap with what is written.

        Written out, as it is part of every call: the owner of each array is looked at, and no more
        unless it is one of `roots`, or nobody NumPy knows.
        """
        lines = ["def check(inputs):", " pass"]
        for k in self.given:
            if always:
                lines.append(f" look({k}, inputs)")
                continue
            lines += [f" a = inputs[{k}]", " r = a.base"]
            lines.append(" if r is None:")
            lines.append(f"  if id(a) in roots: look({k}, inputs)")
            lines.append(
                " elif id(r) in roots or r.__class__ is not ndarray or r.base is not None:"
            )
            lines.append(f"  look({k}, inputs)")
        scope: dict[str, Any] = {"look": self.look, "roots": roots, "ndarray": ndarray}
        return function_of_text("\n".join(lines), "check", "<overlaps>", scope)

    def look(self, k: int, inputs: Sequence[Any]) -> None:
        """Refuse one array, if it does."""
        array = inputs[k]
        if not isinstance(array, ndarray):
            return  # on another device
        writes = k in self.writes_given
        if (self.every if writes else self.written).meets(array) is not None:
            raise RuntimeError(_message("an argument", array))
        for other in self.given if writes else self.writes_given:
            if other != k and inputs[other] is not array and share(array, inputs[other]):
                raise RuntimeError(_message("an argument", array))


def root_of(array: Any) -> Any:
    """The owner of an array's memory, as far as NumPy knows."""
    return array if array.base is None else array.base


def is_foreign(array: Any) -> bool:
    """Whether an array's memory is not a NumPy array's own."""
    root = root_of(array)
    return root.__class__ is not np.ndarray or root.base is not None


def _message(what: str, array: Any) -> str:
    return (
        f"compile: {what}, {array.dtype.name}{list(array.shape)}, overlaps in memory with "
        "one that the function writes in place, through another array (from_numpy, frombuffer, "
        "DLPack), so the write would not be seen. Make both from one tensor, as views of it, or "
        "clone one of them."
    )
