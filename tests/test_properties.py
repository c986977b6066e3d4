"""Random programs of views and in-place writes: NumPy, eager, captured, batched and differentiated
runs agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.graph import capture

Step = tuple[Any, ...]


@st.composite
def view_steps(draw: Any, shape: tuple[int, ...]) -> tuple[list[Step], tuple[int, ...]]:
    """A chain of views valid for `shape`, and the shape it leads to."""
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, 3))):
        if not shape:
            break
        kind = draw(st.sampled_from(["slice", "select", "transpose", "unsqueeze", "diagonal"]))
        dim = draw(st.integers(0, len(shape) - 1))
        if kind == "slice":
            start = draw(st.integers(0, shape[dim]))
            stop = draw(st.integers(start, shape[dim]))
            step = draw(st.integers(1, 2))
            steps.append(("slice", dim, start, stop, step))
            shape = (*shape[:dim], len(range(start, stop, step)), *shape[dim + 1 :])
        elif kind == "select" and shape[dim]:
            steps.append(("select", dim, draw(st.integers(0, shape[dim] - 1))))
            shape = (*shape[:dim], *shape[dim + 1 :])
        elif kind == "transpose":
            other = draw(st.integers(0, len(shape) - 1))
            steps.append(("transpose", dim, other))
            order = list(shape)
            order[dim], order[other] = order[other], order[dim]
            shape = tuple(order)
        elif kind == "unsqueeze":
            steps.append(("unsqueeze", dim))
            shape = (*shape[:dim], 1, *shape[dim:])
        elif kind == "diagonal" and len(shape) == 2:
            steps.append(("diagonal",))
            shape = (min(shape),)
    return steps, shape


def show(x: Any, steps: list[Step]) -> Any:
    """Follow the chain on a NumPy array or a tensor; both give views."""
    for kind, *args in steps:
        match kind:
            case "slice":
                dim, start, stop, step = args
                x = x[(slice(None),) * dim + (slice(start, stop, step),)]
            case "select":
                x = x[(slice(None),) * args[0] + (args[1], ...)]  # ...: a view, even if 0-d
            case "transpose":
                x = np.swapaxes(x, *args) if isinstance(x, np.ndarray) else x.transpose(*args)
            case "unsqueeze":
                x = np.expand_dims(x, args[0]) if isinstance(x, np.ndarray) else x.unsqueeze(*args)
            case "diagonal":
                if isinstance(x, np.ndarray):
                    x = np.lib.stride_tricks.as_strided(x, (min(x.shape),), (sum(x.strides),))
                else:
                    x = x.diagonal()
            case _:
                raise ValueError(kind)
    return x


@st.composite
def programs(draw: Any) -> tuple[tuple[int, ...], list[Step]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    writes: list[Step] = []
    for _ in range(draw(st.integers(1, 4))):
        steps, _ = draw(view_steps(shape))
        source, _ = draw(view_steps(shape))
        kind = draw(st.sampled_from(["add", "mul", "fill", "copy", "old"]))
        writes.append((kind, steps, source, draw(st.integers(-3, 3))))
    return shape, writes


def run_numpy(x: Any, writes: list[Step]) -> Any:
    x = x.copy()
    old = x[..., :1]
    for kind, steps, source, c in writes:
        window = show(x, steps)
        match kind:
            case "add":
                window += c
            case "mul":
                window *= c * 0.5
            case "fill":
                window[...] = c
            case "copy":
                window[...] = show(x, source).sum() * 0.5
            case "old":
                window += old.sum()
    return x * 1.5 + old.sum()


def run_tensor(x: Any, writes: list[Step]) -> Any:
    x = x.clone()
    old = x[..., :1]
    for kind, steps, source, c in writes:
        window = show(x, steps)
        match kind:
            case "add":
                window += c
            case "mul":
                window *= c * 0.5
            case "fill":
                window[...] = c
            case "copy":
                window[...] = show(x, source).sum() * 0.5
            case "old":
                window += old.sum()
    return x * 1.5 + old.sum()


@settings(max_examples=50, deadline=None)
@given(programs())
def test_views_and_writes(program: Any) -> None:
    shape, writes = program
    array = np.random.default_rng(0).uniform(-1, 1, shape)
    want = run_numpy(array, writes)
    x = ad.tensor(array)
    np.testing.assert_allclose(run_tensor(x, writes).numpy(), want, rtol=1e-12, atol=1e-12)
    captured = capture(lambda v: run_tensor(v, writes))
    for _ in range(2):
        np.testing.assert_allclose(captured(x).numpy(), want, rtol=1e-12, atol=1e-12)
    batched = ad.func.vmap(lambda v: run_tensor(v, writes))(ad.stack([x, x]))
    np.testing.assert_allclose(batched[1].numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(programs())
def test_views_and_writes_at_length(program: Any) -> None:
    test_views_and_writes.hypothesis.inner_test(program)  # type: ignore[attr-defined]


@settings(max_examples=30, deadline=None)
@given(programs())
def test_views_and_writes_differentiate(program: Any) -> None:
    """The tape, forward mode and their captured forms follow the same program."""
    shape, writes = program
    rng = np.random.default_rng(1)
    array, direction = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)
    # The program is affine in x, so one difference is exact.
    slope = (run_numpy(array + direction, writes) - run_numpy(array, writes)).sum()

    def gradient(v: Any) -> Any:
        v = v.detach().clone().requires_grad_()
        (g,) = ad.autograd.grad(run_tensor(v, writes).sum(), v, materialize_grads=True)
        return g

    x, t = ad.tensor(array), ad.tensor(direction)
    for g in (
        gradient(x),
        capture(gradient)(x),
        ad.func.grad(lambda v: run_tensor(v, writes).sum())(x),
    ):
        np.testing.assert_allclose((g * t).sum().item(), slope, rtol=1e-9, atol=1e-9)
    _, pushed = ad.func.jvp(lambda v: run_tensor(v, writes).sum(), (x,), (t,))
    np.testing.assert_allclose(pushed.item(), slope, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(programs())
def test_views_and_writes_differentiate_at_length(program: Any) -> None:
    test_views_and_writes_differentiate.hypothesis.inner_test(program)  # type: ignore[attr-defined]


DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64", "complex64"]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_broadcasting_and_promotion(a: str, b: str, shape: list[int], ones: list[bool]) -> None:
    """Shapes broadcast as NumPy's do; the result's dtype is what `result_type` says, both ways."""
    other = [1 if one else n for n, one in zip(shape, ones, strict=False)]
    x = ad.ones(*shape, dtype=getattr(ad, a)) if shape else ad.ones((), dtype=getattr(ad, a))
    y = ad.ones(*other, dtype=getattr(ad, b)) if other else ad.ones((), dtype=getattr(ad, b))
    for left, right in ((x, y), (y, x)):
        out = left + right
        assert tuple(out.shape) == np.broadcast_shapes(tuple(shape), tuple(other))
        assert out.dtype is ad.result_type(left, right)
        assert (left * right).dtype is out.dtype
        assert (left == right).all()
