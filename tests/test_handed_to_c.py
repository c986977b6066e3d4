"""Values handed to C that have special methods in Python: done as Python does it, or refused.

Whichever it is, the recorded code sees nothing of it: its handlers catch what Python raises alone.
"""

from __future__ import annotations

import array
import bisect
import functools
import heapq
import json
import math
import operator
import pickle
import re
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.capture.python.observation import observe
from adjoint.engine.core.errors import CaptureError


class Degrees(float):
    def __repr__(self) -> str:
        return f"{float(self)} degrees"


class Started(float):
    """`__new__` is C's, `__init__` Python's."""

    def __init__(self, value: float) -> None:
        self.started = float(value)


class Count(int):
    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __repr__(self) -> str:
        return "a count"


class Ordinal:
    def __index__(self) -> int:
        return 1


class Named:
    def __index__(self) -> Any:
        return "one"


class Misled(int):
    """C does not ask heirs of int for their index."""

    def __index__(self) -> int:
        return 2


class Raw(bytes):
    def __repr__(self) -> str:
        return "raw"


class Names(set[Any]):
    def __repr__(self) -> str:
        return "names"


class Rows(list[Any]):
    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]


class Thing:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    def __hash__(self) -> int:
        return 7


@functools.lru_cache
def cached(value: Any) -> Any:
    return value


def item_set(owner: Any, key: Any, value: Any) -> Any:
    owner[key] = value
    return list(owner)


def item_deleted(owner: Any, key: Any) -> Any:
    del owner[key]
    return list(owner)


def united(names: set[Any], more: Any) -> Any:
    names |= more
    return sorted(names)


DUMPED = pickle.dumps(Thing())
warm, few = Degrees(21.5), Count(2)
numbers = array.array("d", [1.0, 2.0, 3.0])
shown = types.MappingProxyType({2: "two"})
CASES: dict[str, Callable[[], Any]] = {
    "format": lambda: format(warm, ".2f"),
    "format in text": lambda: f"{warm:.2f}",
    "percent": lambda: "%.1f" % warm,  # noqa: UP031
    "str.format": lambda: "{:.1f}".format(warm),  # noqa: UP032
    "round": lambda: round(warm),
    "round to digits": lambda: round(warm, 1),
    "float": lambda: float(warm),
    "int": lambda: int(warm),
    "complex": lambda: complex(warm),
    "float of a bound value": lambda: float.__neg__(warm),
    "text of bytes": lambda: str(Raw(b"abc"), "ascii"),
    "negative": lambda: -warm,
    "positive": lambda: +few,
    "inverted": lambda: ~few,
    "absolute": lambda: abs(warm),
    "truth": lambda: bool(warm),
    "truth of a branch": lambda: 1 if few else 2,
    "sum": lambda: sum([warm, warm]),
    "sine": lambda: math.sin(warm),
    "greatest common divisor": lambda: math.gcd(few, 4),
    "power": lambda: pow(few, 2, 3),
    "divmod": lambda: divmod(warm, 2.0),
    "operator": lambda: warm * 2.0,
    "operator of two": lambda: warm + few,
    "text times": lambda: "ab" * few,
    "list times": lambda: [1] * few,
    "comparison": lambda: warm < 30.0,
    "index": lambda: [1, 2, 3][few],
    "operator.index": lambda: operator.index(few),
    "index of its own": lambda: [1, 2, 3][Ordinal()],
    "operator.index of its own": lambda: operator.index(Ordinal()),
    "index of an heir": lambda: [1, 2, 3][Misled(1)],
    "range of an heir": lambda: list(range(Misled(1))),
    "range": lambda: list(range(few)),
    "slice": lambda: [1, 2, 3][: Count(1)],
    "slice.indices": lambda: slice(0, few).indices(Count(5)),
    "item of an array": lambda: numbers[few],
    "item of a view": lambda: shown[few],
    "view asked": lambda: shown.get(few),
    "membership of an array": lambda: warm in numbers,
    "membership of a list": lambda: Thing() in [1, Thing()],
    "array set": lambda: item_set(array.array("d", [1.0, 2.0]), 0, warm),
    "array set outside": lambda: item_set(numbers, Count(0), 1.0),
    "array deleted": lambda: item_deleted(array.array("d", [1.0, 2.0]), Count(0)),
    "array in place": lambda: list(operator.iadd(array.array("d", [1.0]), numbers)),
    "bytes set": lambda: item_set(bytearray(b"abc"), 0, Count(65)),
    "set in place": lambda: united({1}, Names({2})),
    "set joined": lambda: sorted({1} | Names({2})),
    "rows compared": lambda: Rows([1]) == [1],
    "rows in rows": lambda: [Rows([1])] == [[1]],
    "rows joined": lambda: [0, *Rows([1])],
    "things counted": lambda: [Thing(), Thing()].count(Thing()),
    "thing found": lambda: [1, Thing()].index(Thing()),
    "thing removed": lambda: deque([1, Thing()]).remove(Thing()),
    "key": lambda: {Thing(): 1}[Thing()],
    "cached": lambda: cached(warm),
    "cached thing": lambda: isinstance(cached(Thing()), Thing),
    "made with a start": lambda: Started(warm).started,
    "made": lambda: float.__new__(Degrees, warm) + 0.5,
    "made by class": lambda: Degrees(warm) + 0.5,
    "dumped": lambda: pickle.dumps(warm),
    "dumped within": lambda: pickle.dumps({"a": [few]}),
    "loaded": lambda: pickle.loads(pickle.dumps([1, 2])),
    "loaded thing": lambda: isinstance(pickle.loads(DUMPED), Thing),
    "json": lambda: json.dumps({"a": few}),
    "json of rows": lambda: json.dumps(Rows([1])),
    "heap": lambda: heapq.nsmallest(1, [few, Count(1)]),
    "bisect": lambda: bisect.bisect([1, 2, 3], few),
    "joined text": lambda: ",".join(["a", str(few)]),
    "struct of rows": lambda: array.array("d", Rows([1.0, 2.0])).tolist(),
    "numpy": lambda: np.asarray([warm, 1.0]).tolist(),
    "numpy item": lambda: np.arange(4.0)[few].item(),
    "numpy set": lambda: item_set(np.arange(3.0), few, warm),
    "numpy filled": lambda: np.zeros(2).fill(warm),
}


def guarded(make: Callable[[], Any]) -> Any:
    """What careful code does; run by Python none of the handlers sees an exception."""
    try:
        return "made", make()
    except CaptureError as error:
        return "seen", repr(error)
    except Exception as error:
        return "caught", repr(error)


@pytest.mark.parametrize("name", CASES)
def test_done_as_python_does_or_refused(name: str) -> None:
    wanted = guarded(CASES[name])
    assert wanted[0] == "made"
    try:
        seen = observe(guarded, (CASES[name],))
    except CaptureError as error:
        refusal = str(error)
    else:
        seen.roll_back()
        assert seen.error is None
        assert seen.result == wanted
        assert type(seen.result[1]) is type(wanted[1])
        return
    assert re.search(r"\.py:\d+\)", refusal)
    assert refusal.endswith(".")  # what to do instead


@pytest.mark.parametrize("fn", [operator.index, [1, 2, 3].__getitem__])
@pytest.mark.parametrize("value", [1.5, "1", None, Named()])
def test_what_is_no_index_is_none(fn: Any, value: Any) -> None:
    with pytest.raises(TypeError) as wanted:
        fn(value)
    error = observe(fn, (value,)).error
    assert type(error) is TypeError
    assert str(error) == str(wanted.value)


@pytest.mark.filterwarnings("ignore:compile. .* runs as Python")
@pytest.mark.parametrize("name", ["negative", "dumped", "set in place", "cached", "array set"])
def test_a_compiled_function_does_so_too(name: str) -> None:
    """A handler of the function's own takes no other way than by Python."""

    def scaled(x: ad.Tensor) -> ad.Tensor:
        try:
            CASES[name]()
        except Exception:
            return x * 100.0
        return x * 2.0

    compiled = ad.compile(scaled, fullgraph=False)
    for _ in range(3):
        assert compiled(ad.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
