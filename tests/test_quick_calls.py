"""What makes calls of compiled functions quick does what its plain version does."""

from __future__ import annotations

import gc
import operator
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.runtime.objects import objects
from adjoint.engine.capture.program.hosts import checked_reader, reader
from adjoint.engine.capture.program.ready import _keyed, _outcome
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.tensor.storage import count_writes
from adjoint.engine.tensor.tensor import Tensor, wrap_places

OPERATIONS: list[Callable[..., Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.neg,
    operator.lt, operator.eq, max, type, bool,
]  # fmt: skip
NUMBERS: list[Any] = [0, 1, 2, 0.5, -1.5, 0.0, -0.0, True, float("nan"), float("inf"), 99]


def scalars(draw: random.Random, state: dict[str, Any]) -> list[HostScalar]:
    """Numbers read from a dict, and what is computed of them."""
    made = [
        HostScalar(partial(operator.getitem, state, name), name, key=("state", name))
        for name in state
    ]
    for _ in range(6):
        fn = draw.choice(OPERATIONS)
        arity = 1 if fn in (operator.neg, type, bool) else 2
        among = made if fn is not operator.pow else made[:3]  # powers of powers take forever
        args = [draw.choice([*among, draw.choice(NUMBERS)]) for _ in range(arity)]
        made.append(HostScalar.computed(fn, *args))
    return made


def outcome(read: HostScalar | Callable[[], Any]) -> Any:
    """What is read or raised, so that NaN and signs of zeros compare."""
    try:
        found = [read.get()] if type(read) is HostScalar else read()  # type: ignore[operator]
    except Exception as error:
        return type(error)
    return None if found is None else [(type(x), repr(x)) for x in found]


def check_numbers(seed: int) -> int:
    """Random numbers and tests of them, read together and apart; how often a test failed."""
    draw = random.Random(seed)
    state = {name: draw.choice(NUMBERS) for name in "abc"}
    every = [x for x in scalars(draw, state) if outcome(x) is not TypeError]
    hosts = draw.sample(every, 3)
    tests = [(x, x.get()) for x in draw.sample(every, 3) if type(outcome(x)) is list]
    keyed = [(_keyed(test, found), _outcome(found)) for test, found in tests]
    alike = [[lambda: state["a"], lambda: state["b"]]] if draw.random() < 0.3 else []
    together = checked_reader(keyed, alike, hosts)
    numbers, outcomes = reader(hosts), reader([test for test, _ in keyed])

    def apart() -> Any:
        if any(calls[0]() != call() for calls in alike for call in calls[1:]):  # NaN: never equal
            return None
        if outcomes() != [found for _, found in keyed]:
            return None
        return numbers()

    failed = 0
    for _ in range(5):
        state[draw.choice("abc")] = draw.choice(NUMBERS)
        wanted = outcome(apart)
        assert outcome(together) == wanted
        failed += wanted is None
    return failed


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_numbers_are_read_together_with_their_tests_as_each_alone(count: int) -> None:
    assert sum(map(check_numbers, range(count))) > count / 2


def slots(thing: Any) -> dict[str, Any]:
    names = [name for name in type(thing).__slots__ if not name.startswith("__")]
    return {name: getattr(thing, name) for name in names if hasattr(thing, name)}


def test_tensors_of_native_code_are_those_of_python() -> None:
    found = objects()
    if found is None:
        pytest.skip("this interpreter lays out objects otherwise: tensors are made in Python")
    count, places, _ = found
    draw = random.Random(0)
    for _ in range(100):
        arrays: list[Any] = [
            np.zeros(draw.choice([(), (3,), (2, 0), (4, 5)]), draw.choice(["f4", "i8", "?"]))
            for _ in range(draw.randint(0, 6))
        ]
        arrays.append(None)
        chosen = tuple(draw.choices(range(len(arrays)), k=draw.randint(0, 8)))
        made, wanted = places(arrays, chosen), wrap_places(arrays, chosen)
        versions = tuple(draw.choices([0, 1, 3], k=len(chosen)))
        count(tuple(t._storage for t in made), versions)
        count_writes([t._storage for t in wanted], versions)
        for native, plain in zip(made, wanted, strict=True):
            assert type(native) is Tensor
            one, other = slots(native), slots(plain)
            own, others = slots(one.pop("_storage")), slots(other.pop("_storage"))
            assert one["_array"] is other["_array"]
            del one["_array"], other["_array"], own["buffer"], others["buffer"]
            assert one == other
            assert own == others
    with pytest.raises(IndexError):
        places([None], (1,))


def test_tensors_of_native_code_are_let_go() -> None:
    found = objects()
    if found is None:
        pytest.skip("this interpreter lays out objects otherwise: tensors are made in Python")
    count, places, _ = found
    array = np.zeros(3)
    before = sys.getrefcount(array)
    for _ in range(100):
        (tensor,) = places([array], (0,))
        count((tensor._storage,), (1000,))
        tensor.name_of_ours = tensor  # held by itself
    del tensor
    gc.collect()
    assert sys.getrefcount(array) == before


def test_a_number_that_only_a_failed_test_keeps_from_raising() -> None:
    class Model(ad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Any, by: float) -> Any:
            return x * (1 / by if by else 5.0)

    model = Model()
    step = ad.compile(model.forward)
    for by in (0.5, 0.25, 0.0, 2.0, 0.0, 4.0):
        assert step(ad.ones(1), by).item() == model.forward(ad.ones(1), by).item()
