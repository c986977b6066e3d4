"""Norms and random programs of eager mode on a GPU, beside NumPy's in double precision.

TRITON_INTERPRET=1 python -m tests.norms_on_a_gpu [how many of each]
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.nn import functional as F

DTYPES = ("float32", "float32", "float64", "float16", "bfloat16")
ROUNDING = {"float64": 1e-12, "float32": 4e-7, "float16": 1e-3, "bfloat16": 8e-3}


def exact(
    x: Any, w: Any, b: Any, g: Any, over: tuple[int, ...], eps: float
) -> tuple[list[Any], float]:
    """A norm of each channel and its gradients, and how large what these are made of is."""
    shape = (1, -1, *(1,) * (x.ndim - 2))
    mean, variance = x.mean(over, keepdims=True), x.var(over, keepdims=True)
    inverse = 1 / np.sqrt(variance + eps)
    standard = (x - mean) * inverse
    weight = 1.0 if w is None else w.reshape(shape)
    out = standard * weight + (0.0 if b is None else b.reshape(shape))
    wide = g * weight
    along = (wide * standard).mean(over, keepdims=True)
    found = [out, (wide - wide.mean(over, keepdims=True) - standard * along) * inverse]
    channel = (0, *range(2, x.ndim))
    large = float(np.abs(wide * inverse).max())  # of which the gradient is what is left
    parts = [(w, (g * standard).sum(channel)), (b, g.sum(channel))]
    return found + [part for given, part in parts if given is not None], large


def close(got: Any, want: Any, error: float, what: Any, large: float = 1e-3) -> None:
    """The same but for rounding of numbers as large as the largest."""
    here = got.detach().cpu().double().numpy()
    assert here.shape == want.shape, what
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(here), finite, err_msg=str(what))
    large = np.abs(want[finite]).max(initial=large)
    np.testing.assert_allclose(
        here[finite], want[finite], rtol=error, atol=error * large, err_msg=str(what)
    )


def norm(rng: Any, device: str) -> None:
    """A norm of some kind and shape, by the batch or of each sample, and its gradients."""
    rank, batch = int(rng.integers(2, 5)), bool(rng.integers(2))
    batch = batch or rank == 2
    shape = [int(n) for n in rng.integers(3, 9, rank)]
    if rng.integers(4) == 0:  # by parts
        shape[-1] = int(rng.integers(9000, 20000)) // int(np.prod(shape[2:-1], initial=1))
        shape[0], shape[1] = 2, 3
    dtype = str(rng.choice(DTYPES))
    far = float(rng.choice([0, 3, 1000])) if dtype in ("float32", "float64") else 0.0
    affine = int(rng.integers(3))
    what = dtype, shape, batch, far, affine
    x = ad.tensor(rng.standard_normal(shape) + far).to(getattr(ad, dtype))
    g = ad.tensor(rng.standard_normal(shape)).to(x.dtype)
    channels = [ad.tensor(rng.standard_normal(shape[1])).to(x.dtype) for _ in range(2)]
    w, b = (*channels[:affine], None, None)[:2]
    given = [None if t is None else t.to(device) for t in (x, w, b)]
    if rank == 4 and rng.integers(2):
        given[0] = given[0].contiguous(memory_format=ad.channels_last)  # type: ignore[union-attr]
    for t in given:
        if t is not None:
            t.requires_grad_()
    over = (0, *range(2, rank)) if batch else tuple(range(2, rank))
    want, large = exact(
        *[None if t is None else t.double().numpy() for t in (x, w, b, g)], over, 1e-5
    )
    call = F.batch_norm if batch else F.instance_norm
    for _ in range(2):
        how: Any = {"training": True} if batch else {}
        out = call(given[0], None, None, given[1], given[2], **how)
        found = ad.autograd.grad(out, [t for t in given if t is not None], g.to(device))
        error = ROUNDING[dtype] * (20 + 3 * far)
        for k, (got, wanted) in enumerate(zip([out, *found], want, strict=True)):
            close(got, wanted, error, (*what, k), large)


def not_numbers(rng: Any, device: str) -> None:
    """A channel with an infinity or a NaN spoils itself alone."""
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    x[int(rng.integers(3)), 2, 1] = rng.choice([np.inf, -np.inf, np.nan])
    given = ad.tensor(x, device=device).requires_grad_()
    out = F.batch_norm(given, None, None, training=True)
    (found,) = ad.autograd.grad(out.sum(), [given])
    for got in (out, found):
        spoiled = np.isnan(got.detach().cpu().numpy()).all((0, 2))
        np.testing.assert_array_equal(spoiled, [False, False, True, False])


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: (x - y).tanh(),
    lambda x, y: x * (y * y + 1).rsqrt(),
    lambda x, y: -x,
]


def program(rng: Any, device: str) -> None:
    """Some operations and sums on values that broadcast against each other, as one program."""
    from adjoint.engine.graph.eager.fragments import FRAGMENTS
    from adjoint.engine.graph.eager.recorded import compiled

    sizes = [int(n) for n in rng.integers(2, 40, 3)]
    plan: list[tuple[Any, ...]] = []
    shapes = [sizes, *[[n if rng.integers(2) else 1 for n in sizes] for _ in range(3)]]
    count = len(shapes)
    for _ in range(int(rng.integers(3, 9))):
        if rng.integers(3) == 0:
            dims = [d for d in range(3) if rng.integers(2)] or [2]
            plan.append(("sum", int(rng.integers(count)), dims))
        else:
            k = int(rng.integers(len(STEPS)))
            plan.append((k, int(rng.integers(count)), int(rng.integers(count))))
        count += 1
    shown = sorted({count - 1, *map(int, rng.integers(4, count, 2))})

    def work(given: list[Any]) -> list[Any]:
        values = list(given)
        for kind, one, other in plan:
            if kind == "sum":
                values.append((values[one] * 0.1).sum(other, keepdim=True).tanh())
            else:
                values.append(STEPS[kind](values[one], values[other]))
        return [values[k] for k in shown]

    arrays = [rng.standard_normal(shape) for shape in shapes]
    want = work([ad.tensor(x) for x in arrays])
    given = [ad.tensor(x.astype(np.float32), device=device) for x in arrays]
    fragment = compiled(given, (), lambda _: work(given), FRAGMENTS.shared)
    for got, wanted in zip(fragment(given, ()), want, strict=True):
        close(got, wanted.numpy(), 1e-4, plan)


def check(count: int, device: str = "cuda") -> None:
    """So many of each."""
    rng = np.random.default_rng(count)
    for _ in range(count):
        norm(rng, device)
        program(rng, device)
    not_numbers(rng, device)


def main(count: int) -> None:
    """All of it on the stand-in."""
    importlib.import_module("tests.cupy_stand_in").connect()
    check(count)
    print("norms hold")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
