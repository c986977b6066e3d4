"""NumPy arrays and generators inside compiled functions: what cannot be kept exact is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.errors import CaptureError
from adjoint.graph import capture


def _read_after_write() -> Callable[..., Any]:
    a = np.ones(2, dtype=np.float32)
    t = ad.from_numpy(a)

    def f(x: Any) -> Any:
        t.add_(1)
        return x * float(a[0])

    return f


def _written_under_a_tensor() -> Callable[..., Any]:
    a = np.ones(2, dtype=np.float32)
    t = ad.from_numpy(a)

    def f(x: Any) -> Any:
        a[0] = 5.0
        return x * t

    return f


def _generator_kept() -> Callable[..., Any]:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(ad.Generator())
        return x

    return f


def _unseeded() -> Callable[..., Any]:
    return lambda x: x * float(np.random.default_rng().random())


def _shuffled() -> Callable[..., Any]:
    order = np.arange(3)

    def f(x: Any) -> Any:
        np.random.shuffle(order)
        return x

    return f


def _with_out() -> Callable[..., Any]:
    a = np.ones(2)

    def f(x: Any) -> Any:
        np.add(a, 1, out=a)
        return x

    return f


def _shape_that_is_drawn() -> Callable[..., Any]:
    return lambda x: x.sum() * ad.from_numpy(np.nonzero(np.random.rand(8) > 0.5)[0]).shape[0]


class _Ending:
    def __del__(self) -> None:
        pass


def _with_an_end() -> Callable[..., Any]:
    def f(x: Any) -> Any:
        _Ending()
        return x

    return f


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_read_after_write, "read after a tensor on its memory was written to"),
        (_written_under_a_tensor, "is the memory of a tensor"),
        (_generator_kept, "a Generator that the function makes is kept"),
        (_unseeded, "Pass a seed"),
        (_shuffled, "Draw outside"),
        (_with_out, "it writes to what it is given"),
        (_with_an_end, "it has a __del__"),
    ],
)
def test_what_is_refused(make: Callable[[], Callable[..., Any]], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(make())(ad.ones(2))


def test_shapes_that_depend_on_draws_are_refused() -> None:
    np.random.seed(0)
    f = capture(_shape_that_is_drawn())
    with pytest.raises(CaptureError, match="depends on numbers that differ from call to call"):
        [f(ad.ones(2)) for _ in range(8)]


def test_one_recording_serves_many_arrays() -> None:
    f = capture(lambda x, a: x * ad.from_numpy(a) + float(a[0]))
    for k in range(5):
        given = np.array([k, 2.0], dtype=np.float32)
        assert f(ad.ones(2), given).tolist() == [2.0 * k, 2.0 + k]
    assert f.traces == 1


def test_a_result_shares_the_memory_of_the_array() -> None:
    f = capture(lambda a: (ad.from_numpy(a), a))
    for _ in range(2):
        given = np.ones(2, dtype=np.float32)
        made, same = f(given)
        given[0] = 7.0
        assert made.tolist() == [7.0, 1.0]
        assert same is given


def test_objects_that_were_met_are_let_go_of() -> None:
    class Holder:
        rate = 2.0

    held = [Holder()]
    reference = weakref.ref(held[0])

    def f(x: Any) -> Any:
        found = reference()
        return x * 100 if found is None else x * found.rate

    run = capture(f)
    gc.disable()  # nothing may have to be looked for
    try:
        assert run(ad.ones(1)).tolist() == [2.0]
        held.clear()
        assert run(ad.ones(1)).tolist() == [100.0]
    finally:
        gc.enable()


def test_a_program_says_how_it_seeds() -> None:
    def f(x: Any) -> Any:
        ad.manual_seed(3)
        return x + ad.rand(2)

    run = capture(f)
    assert run(ad.ones(2)).tolist() == run(ad.ones(2)).tolist()
    assert run.latest.effects.moves.everywhere is not None
