"""Scans that go back to two turns whose words advance, beside the same with every turn listed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.compiler.flow import bodies

Function = Callable[..., Any]
EVERY = 10**9  # entries, so that all turns are listed


def leaves(tree: Any) -> list[Any]:
    return [tree.numpy()] if isinstance(tree, ad.Tensor) else [x for t in tree for x in leaves(t)]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Function:
    """Compiles a function, with so many entries of a scan listed at most; and its program."""
    made: list[native.Native] = []
    start = native.Native.__init__

    def noted(self: native.Native, *given: Any, **kwargs: Any) -> None:
        start(self, *given, **kwargs)
        made.append(self)

    monkeypatch.setattr(native.Native, "__init__", noted)

    def planned(fn: Function, listed: int, *args: Any) -> tuple[Function, native.Native]:
        made.clear()
        with monkeypatch.context() as patch:
            # What is kept does not say how it was planned.
            patch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / str(listed)))
            patch.setattr(bodies, "LISTED", listed)
            compiled = ad.compile(lambda *args: fn(*args))
            compiled(*args)
        (program,) = made
        assert not program.calls_eager
        return compiled, program

    return planned


def goes_back(program: native.Native) -> bool:
    return any(entry[3] < 0 for entry in program.image.segments[0] or ())


def rnn(xs: Any, c: Any) -> Any:
    return ad.scan(lambda c, x: ((c.flip(0) * 0.5 + x).tanh(), (c.sum(), c * x)), c, xs)


def backwards(xs: Any, c: Any) -> Any:
    return ad.scan(lambda c, x: (c * 0.9 + x, c), c, xs, reverse=True)


def two_carries(xs: Any, c: Any) -> Any:
    body = lambda c, x: ((c[1] + x[0], c[0] * 0.5 - x[1]), (c[0], x[0] * x[1]))
    return ad.scan(body, (c, c * 2), (xs, xs.flip(0)))


def drawn(xs: Any, c: Any) -> Any:
    """Every turn has numbers of its own."""
    return ad.scan(lambda c, x: (c * 0.5 + ad.rand_like(c), x + ad.randn(())), c, xs)


def nested(xs: Any, c: Any) -> Any:
    inner = lambda c, x: ad.scan(lambda d, y: (d * 0.5 + y, d.sum()), c, xs * x.mean())
    return ad.scan(lambda c, x: inner(c, x), c, xs)


def branching(xs: Any, c: Any) -> Any:
    body = lambda c, x: (ad.cond(x.sum() > 0, lambda: c + x, lambda: c * 0.5), c)
    return ad.scan(body, c, xs)


def looped(xs: Any, c: Any) -> Any:
    grown = lambda c: ad.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 0.7), (0, c))[1]
    return ad.scan(lambda c, x: (grown(c) + x, c), c, xs)


def gradients(xs: Any, c: Any) -> Any:
    xs, c = (t.detach().requires_grad_() for t in (xs, c))
    last, stacked = ad.scan(lambda c, x: ((c * 0.5 + x).sin(), c * x), c, xs)
    (last.sum() + (stacked * stacked).sum()).backward()
    return xs.grad, c.grad


PROGRAMS = [rnn, backwards, two_carries, drawn, nested, branching, looped, gradients]


@pytest.mark.parametrize("run", PROGRAMS)
def test_turns_gone_back_to_are_those_that_are_listed(run: Function, planned: Function) -> None:
    rng = np.random.default_rng(len(run.__name__))
    for turns in map(int, {*rng.integers(6, 24, 2), 6, 7}):
        xs, c = (ad.from_numpy(rng.standard_normal((n, 5))) for n in (turns, 1))
        c = c[0]
        looped_call, looped_program = planned(run, 0, xs, c)
        listed_call, listed_program = planned(run, EVERY, xs, c)
        assert goes_back(looped_program)
        assert goes_back(listed_program) == (run is looped)
        for shift in (0.0, 1.5):  # other arguments, elsewhere in memory
            results = []
            for call in (looped_call, listed_call):
                ad.manual_seed(7)
                results.append(leaves(call(xs + shift, c - shift)))
            for one, other in zip(*results, strict=True):
                np.testing.assert_array_equal(one, other)


def test_programs_do_not_grow_with_their_turns(planned: Function) -> None:
    sizes = set()
    for turns in (200, 500, 1000):
        xs = ad.zeros(turns, 3)
        _, program = planned(rnn, bodies.LISTED, xs, ad.zeros(3))
        sizes.add((len(program.words), len(program.image.segments[0] or ())))
    assert len(sizes) == 1


def test_what_fails_in_a_turn_changes_nothing(planned: Function) -> None:
    """The next call begins at the first turn again."""
    count, table = ad.zeros(()), ad.arange(12.0).reshape(6, 2)

    def counting(rows: Any) -> Any:
        count.add_(1)
        return ad.scan(lambda c, at: (c + F.embedding(at, table).sum(), c), ad.zeros(()), rows)

    fits = ad.arange(20) % 6
    compiled, program = planned(counting, 0, fits)
    assert goes_back(program)
    want = leaves(compiled(fits))
    wrong = fits.clone()
    wrong[13] = 6
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(wrong)
        for one, other in zip(want, leaves(compiled(fits)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert count.item() == 4


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers(workers: int, planned: Function) -> None:
    """Words are advanced by one of them, when nobody reads them."""
    rng = np.random.default_rng(1)
    xs, c = (ad.from_numpy(rng.standard_normal((n, 300, 40))) for n in (40, 1))
    run = lambda xs, c: ad.scan(lambda c, x: ((c * 0.5 + x).tanh(), c.sum(0)), c, xs)
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(workers)
        call, program = planned(run, 0, xs, c[0])
        assert program.parallel
        results = leaves(call(xs, c[0]))
    finally:
        ad.set_num_threads(before)
    listed, _ = planned(run, EVERY, xs, c[0])
    for one, other in zip(results, leaves(listed(xs, c[0])), strict=True):
        np.testing.assert_array_equal(one, other)


# -- what is made once for all turns (Note [made once]) --------------------------------------------

# By name: a turn, of the carry and a slice, with two matrices that last, for NumPy and for us; and
# whether anything is made before the loop.
TURNS: dict[str, tuple[Function, bool]] = {
    "times": (lambda xp, w, v, c, x: (xp.tanh(c @ w + x), c), True),
    "transposed": (lambda xp, w, v, c, x: (xp.tanh(c @ w.T + x), x @ v), True),
    "from the left": (lambda xp, w, v, c, x: (xp.tanh((w.T @ c.T).T + x), c * x), True),
    "beside what is carried": (lambda xp, w, v, c, x: (xp.tanh(c @ (x.T @ c)), c @ w), True),
    "made of what lasts": (lambda xp, w, v, c, x: (xp.tanh(c @ (w @ v) + x), c), True),
    "shown": (lambda xp, w, v, c, x: (xp.tanh(c + x), w @ v), True),
    "read by kernels": (lambda xp, w, v, c, x: (xp.tanh(c + (w @ v)[: len(c)]), c + x), True),
    "carried": (lambda xp, w, v, c, x: (xp.tanh(c @ (x.T @ c)), c), False),
    "made by kernels": (lambda xp, w, v, c, x: (xp.tanh(c @ (w + v) + x), c), False),
}
IN_EACH_TURN = ("shown", "read by kernels")  # products that are


def by_turns(turn: Function, w: Any, v: Any, c: Any, xs: Any) -> list[Any]:
    """What NumPy makes of it, one turn after the other, in float64."""
    w, v, c, xs = (t.numpy().astype(np.float64) for t in (w, v, c, xs))
    stacked = []
    for x in xs:
        c, y = turn(np, w, v, c, x)
        stacked.append(y)
    return [c, np.stack(stacked)]


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("listed", [0, EVERY])
def test_what_all_turns_share_is_made_once(name: str, listed: int, planned: Function) -> None:
    turn, once = TURNS[name]
    rng = np.random.default_rng(len(name))
    sizes = [(7, 16, 80), (6, 13, 67)]  # few rows may meet a matrix where it lies
    if name == "transposed":  # in panels for few rows as well, if they fill a tile or are one
        tile = outer_tile("f32")
        sizes = [(7, 4 * tile.rows, 80), (6, tile.rows, 67), (7, 1, 67)]
    for turns, rows, wide in sizes:
        shapes = (wide, wide), (wide, wide), (rows, wide), (turns, rows, wide)
        given = [ad.from_numpy(rng.standard_normal(s, np.float32) / wide**0.5) for s in shapes]

        def run(w: Any, v: Any, c: Any, xs: Any) -> Any:
            return ad.scan(lambda c, x: turn(ad, w, v, c, x), c, xs)

        call, program = planned(run, listed, *given)
        told = program.explain()
        assert (re.search(r"(?m)^ *\d+ +template ", told) is not None) == once
        products = re.findall(rf"(?m)^ *\d+\.\d+ +template matmul {wide}x{wide}x{wide} ", told)
        assert len(products) == (name in IN_EACH_TURN)
        for shift in (0.0, 0.1):  # other matrices, elsewhere in memory
            moved = [t + shift for t in given]
            for one, other in zip(leaves(call(*moved)), by_turns(turn, *moved), strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def test_loops_in_loops_and_one_after_another_share_what_lasts(planned: Function) -> None:
    rng = np.random.default_rng(5)
    w, u, c = (ad.from_numpy(rng.standard_normal((24, 24), np.float32) / 5) for _ in range(3))
    xs = ad.from_numpy(rng.standard_normal((8, 24, 24), np.float32))

    def run(w: Any, u: Any, c: Any, xs: Any) -> Any:
        def turn(c: Any, x: Any) -> Any:
            inner, _ = ad.scan(lambda d, y: ((d @ w + y).tanh(), d.sum()), c @ u, xs)
            return (inner + x, inner @ u)

        c, ys = ad.scan(turn, c, xs)
        return ad.scan(lambda c, y: ((c @ u.T + y).tanh(), c @ w), c, ys)

    def again(c: Any, turn: Function, xs: Any) -> tuple[Any, Any]:
        stacked = []
        for x in xs:
            c, y = turn(c, x)
            stacked.append(y)
        return c, np.stack(stacked)

    wide = [t.numpy().astype(np.float64) for t in (w, u, c, xs)]
    w_, u_, c_, xs_ = wide
    inner = lambda c: again(c @ u_, lambda d, y: (np.tanh(d @ w_ + y), 0), xs_)[0]
    c_, ys = again(c_, lambda c, x: ((d := inner(c)) + x, d @ u_), xs_)
    want = again(c_, lambda c, y: (np.tanh(c @ u_.T + y), c @ w_), ys)
    call, _ = planned(run, 0, w, u, c, xs)
    for one, other in zip(leaves(call(w, u, c, xs)), want, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


def test_one_row_meets_a_matrix_that_is_a_part_of_another(planned: Function) -> None:
    """Panels as wide as a tile of one row are made of columns that do not lie side by side."""
    rng = np.random.default_rng(6)
    w, c, xs = (
        ad.from_numpy(rng.standard_normal(shape, np.float32) / 6)
        for shape in ((80, 210), (1, 40), (8, 1, 70))
    )

    def run(w: Any, c: Any, xs: Any) -> Any:
        turn = lambda c, x: ((c @ w[::2, ::3] + x).tanh()[:, :40], c.sum())
        return ad.scan(turn, c, xs)

    call, _ = planned(run, 0, w, c, xs)
    want = c.numpy().astype(np.float64)
    for x in xs.numpy():
        want = np.tanh(want @ w.numpy()[::2, ::3].astype(np.float64) + x)[:, :40]
    np.testing.assert_allclose(leaves(call(w, c, xs))[0], want, rtol=1e-4, atol=1e-5)
