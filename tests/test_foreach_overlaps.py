"""Updates of many tensors that share memory give what updates one by one give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.backends.array.lists.apart import apart
from adjoint.engine.backends.array.lists.foreach import BINARY, METHODS, SCALED, UNARY
from adjoint.engine.backends.array.lists.many import update_many

SIZE = 12
IN_PLACE = sorted(f"_foreach_{op}_" for op in UNARY | BINARY | SCALED | {"copy", "zero"})
Window = tuple[int, int, int]  # memory, start, length


def memories() -> list[Any]:
    return [np.linspace(0.2, 0.9, SIZE, dtype=np.float32) * scale for scale in (1, 0.9)]


def window(memory: Any, place: Window, kind: str, whole: list[ad.Tensor]) -> ad.Tensor:
    """A tensor on part of a memory: of its own, or a view of one that others are views of too."""
    number, start, length = place
    if kind == "numpy":
        return ad.from_numpy(memory[number][start : start + length])
    return whole[number][start : start + length]


@st.composite
def calls(draw: Any) -> Any:
    """Lists of windows of the same lengths, and of what kind each tensor is."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))
    return [
        [((draw(st.integers(0, 1)), draw(st.integers(0, 6)), n), draw(KINDS)) for n in lengths]
        for _ in range(3)
    ]


KINDS = st.sampled_from(["numpy", "view"])


def one_by_one(op: str, rows: list[list[ad.Tensor]], more: dict[str, Any]) -> None:
    for target, *others in rows:
        if op == "zero":
            target.zero_()
        elif op == "copy":
            target.copy_(others[0])
        else:
            getattr(target, METHODS.get(op, op) + "_")(*others, **more)


def arity(op: str) -> int:
    if op in UNARY or op == "zero":
        return 0
    return 2 if op in SCALED or op == "lerp" else 1


def check(name: str, columns: Any, more: dict[str, Any]) -> None:
    op = name.removeprefix("_foreach_").removesuffix("_")
    results: list[Any] = []
    for together in (True, False):
        memory = memories()
        whole = [ad.from_numpy(each) for each in memory]
        lists = [
            [window(memory, place, kind, whole) for place, kind in column]
            for column in columns[: 1 + arity(op)]
        ]
        with ad.no_grad(), np.errstate(all="ignore"):
            try:
                if together:
                    getattr(ad, name)(*lists, **more)
                else:
                    one_by_one(op, [list(row) for row in zip(*lists, strict=True)], more)
            except RuntimeError as error:  # what one operation refuses, many refuse
                results.append(str(error))
                continue
        results.append([each.tolist() for each in memory])
    if isinstance(results[1], str):
        assert results[0] == results[1]
    else:  # a vector's last bits may depend on where it begins
        np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


@pytest.mark.parametrize("name", IN_PLACE)
@given(columns=calls())
@settings(max_examples=15, deadline=None)
def test_shared_memory(name: str, columns: Any) -> None:
    check(name, columns, {})


@pytest.mark.parametrize("name", ["_foreach_add_", "_foreach_sub_"])
@given(columns=calls())
@settings(max_examples=15, deadline=None)
def test_shared_memory_with_a_factor(name: str, columns: Any) -> None:
    check(name, columns, {"alpha": 0.5})


def test_each_sees_what_came_before() -> None:
    with ad.no_grad():
        a, b = ad.ones(2), ad.full((2,), 2.0)
        ad._foreach_add_([a, b], [b, a])
        assert (a.tolist(), b.tolist()) == ([3.0, 3.0], [5.0, 5.0])
        a, b = ad.ones(2), ad.full((2,), 2.0)
        ad._foreach_add_([a, b], [b, a], alpha=2)
        assert (a.tolist(), b.tolist()) == ([5.0, 5.0], [12.0, 12.0])
        a, b = ad.full((2,), 3.0), ad.ones(2)
        ad._foreach_mul_([a, b], a[0])  # the factor is part of the first
        assert (a.tolist(), b.tolist()) == ([9.0, 9.0], [9.0, 9.0])
        a = ad.ones(2)
        ad._foreach_add_([a, a, a.view(2)], 1)
        assert a.tolist() == [4.0, 4.0]
        x, y = ad.zeros(1).expand(3), ad.ones(3)
        with pytest.raises(RuntimeError, match="more than one element"):
            ad._foreach_add_([x, y], 1)


def test_updates_that_read_a_target_twice() -> None:
    """A rule of several steps sees its own changes where what it reads is its target."""

    def rule(x: ad.Tensor, y: ad.Tensor) -> None:
        x.mul_(2).add_(y)

    with ad.no_grad():
        a, b = ad.ones(2), ad.ones(3)
        update_many(rule, [a, b], [a, b])
    assert (a.tolist(), b.tolist()) == ([4.0, 4.0], [4.0, 4.0, 4.0])


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda params, **more: ad.optim.SGD(params, 0.1, momentum=0.9, **more),
    "adam": lambda params, **more: ad.optim.Adam(params, 0.1, **more),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shared", ["parameters", "two kinds", "gradient of a parameter"])
def test_optimizers_with_shared_memory(name: str, shared: str) -> None:
    results = []
    for foreach in (None, False):
        memory = np.linspace(0.1, 1, 12, dtype=np.float32)
        parts = [memory[:4], memory[2:6]] if shared != "gradient of a parameter" else [
            memory[:4], memory[4:8]
        ]  # fmt: skip
        if shared == "two kinds":  # one of them in a bundle, one by itself
            parts = [memory[8:10], memory[10:12], memory[8:12:2]]
        params = [ad.nn.Parameter(ad.from_numpy(part)) for part in parts]
        optimizer = OPTIMIZERS[name](params, foreach=foreach)
        for step in range(3):
            for i, p in enumerate(params):
                p.grad = ad.full(p.shape, 0.1 * (i + step + 1))
            if shared == "gradient of a parameter" and step:
                params[1].grad = params[0].detach()
            optimizer.step()
        results.append(memory.tolist())
    assert results[0] == results[1]


@given(
    written=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=5),
    read=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=5),
    foreign=st.booleans(),
)
def test_apart_against_sets_of_places(written: Any, read: Any, foreign: bool) -> None:
    memory = np.frombuffer(bytearray(40), np.uint8) if foreign else np.zeros(40, np.uint8)
    places = [[set(range(start, start + n)) for start, n in each] for each in (written, read)]
    arrays = [[memory[start : start + n] for start, n in each] for each in (written, read)]
    wanted = not any(
        one & other
        for i, one in enumerate(places[0])
        for other in [*places[0][i + 1 :], *places[1]]
    )
    assert apart(*arrays) == wanted
    assert apart([a[::-1] for a in arrays[0]], arrays[1]) == wanted
