"""What the eager table does on a GPU at once is what it does the long way, and what the CPU gives.

TRITON_INTERPRET=1 python -m tests.table_on_a_gpu
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.backends.array import executor
from tests.launches_on_a_gpu import draw, whole

# By name: a function, its operands, and whether it has a gradient by those that are floats.
Case = tuple[Callable[..., Any], tuple[Any, ...], bool]


def ahead(*shape: int, dtype: Any = np.float32) -> Any:
    """Numbers above a half."""
    return (np.abs(draw(*shape)) + 0.5).astype(dtype)


CASES: dict[str, Case] = {
    "gammainc": (ad.special.gammainc, (ahead(4, 5), ahead(4, 5)), False),
    "gammainc of halves": (
        ad.special.gammainc, (ahead(4, 5, dtype=np.float16), ahead(4, 5, dtype=np.float16)), False
    ),
    "gammainc of two dtypes": (
        ad.special.gammainc, (ahead(4, 5), ahead(4, 5, dtype=np.float64)), False
    ),
    "gammainc of columns": (
        lambda x, y: ad.special.gammainc(x.T, y.T), (ahead(4, 5), ahead(4, 5)), False
    ),
    "gammainc over rows": (ad.special.gammainc, (ahead(4, 1), ahead(5)), False),
    "gammaincc by a number": (
        lambda x, y: ad.special.gammaincc(x, y.sum()), (ahead(4, 5), ahead(1)), False
    ),
    "zeta": (lambda x: ad.special.zeta(x + 2, 1.5), (ahead(4, 5),), False),
    "frexp": (lambda x: ad.frexp(x), (draw(4, 5),), False),
    "frexp, its gradient": (lambda x: ad.frexp(x)[0], (draw(4, 5),), True),
    "frexp of columns": (lambda x: ad.frexp(x.T), (draw(4, 5),), False),
    "frexp of halves": (lambda x: ad.frexp(x), (draw(4, 5, dtype=np.float16),), False),
    "fft": (lambda x: ad.fft.fft(x).abs(), (draw(4, 12),), True),
    "fft of columns": (lambda x: ad.fft.fft(x.T, dim=0).real, (draw(4, 12),), True),
    # Of several dimensions, and Poisson's samples, on a real GPU alone: tests/test_more_calls_cuda.py.
    "rfft": (lambda x: ad.fft.rfft(x).abs(), (draw(2, 8, 12),), True),
    "irfft": (lambda x: ad.fft.irfft(ad.complex(x, x * 2), 9), (draw(3, 5),), True),
    "qr": (lambda x: ad.linalg.qr(x)[1].abs(), (draw(3, 4, 4),), False),
    "nonzero": (lambda x: (x > 0).nonzero(), (draw(4, 5),), False),
    "unique": (
        lambda x: ad.unique(x, return_inverse=True, return_counts=True), (whole(5, 4, 6),), False
    ),
    "unique rows": (lambda x: ad.unique(x, dim=0), (whole(2, 9, 2),), False),
    "unique_consecutive": (lambda x: ad.unique_consecutive(x), (whole(2, 30),), False),
    "bincount": (lambda x: ad.bincount(x, minlength=7), (whole(5, 40),), False),
    "histc": (lambda x: ad.histc(x, 7, -1, 1), (draw(50),), False),
    "isin": (lambda x: ad.isin(x, x[:2, 0]), (whole(9, 4, 6),), False),
}  # fmt: skip
# What is refused, and what the message says.
REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "frexp of whole numbers": (lambda x: ad.frexp(x), whole(9, 4), "floating-point"),
    "a count of numbers below zero": (lambda x: ad.bincount(x - 5), whole(4, 4), "non-negative"),
    "a matrix that is none": (lambda x: ad.linalg.qr(x), draw(4), "2 dimensions"),
}


@contextmanager
def going(*, at_once: bool) -> Iterator[list[str]]:
    """A block in which the table's kernels are called at once, or never are; the long ways taken."""
    taken: list[str] = []
    quick, general = executor.run_by_table, executor.run_general

    def long(record: Any, operands: Any, params: Any) -> Any:
        taken.append(record.name)
        return general(record, operands, params)

    executor.run_general = long
    executor.run_by_table = quick if at_once else long
    try:
        yield taken
    finally:
        executor.run_by_table, executor.run_general = quick, general


def results(name: str, device: str) -> list[Any]:
    """What a call gives, and its gradients."""
    fn, given, followed = CASES[name]
    xs = [ad.tensor(x, device=device) for x in given]
    out = fn(*xs)
    found = list(out) if isinstance(out, tuple) else [out]
    if followed:
        leaves = [ad.tensor(x, device=device, requires_grad=True) for x in given]
        made = fn(*leaves)
        g = ad.tensor(draw(*made.shape, dtype=made.dtype.name), device=device)
        found += ad.autograd.grad(made, leaves, g)
    return found


def close(got: list[Any], want: list[Any], what: str, rough: float) -> None:
    """The same up to rounding, lying the same way."""
    assert len(got) == len(want), what
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype is b.dtype, (what, k)
        assert tuple(a.shape) == tuple(b.shape), (what, k)
        assert a.stride() == b.stride(), (what, k, a.stride(), b.stride())
        here, there = (x.detach().cpu().resolve_conj().numpy() for x in (a, b))
        error = max(rough, 2e-3 if rough and b.dtype.itemsize == 2 else 0.0)
        np.testing.assert_allclose(here, there, error, error, err_msg=f"{what}, result {k}")


def check(name: str) -> None:
    with going(at_once=False) as taken:
        long = results(name, "cuda")
        assert taken, (name, "took no long way")
    with going(at_once=True) as taken:
        found = results(name, "cuda")
        assert not taken, (name, taken)
    close(found, long, f"{name}, the long way", 0.0)
    close(found, results(name, "cpu"), f"{name} on the CPU", 2e-5)


def check_refused(name: str) -> None:
    fn, given, says = REFUSED[name]
    told = [refusal(lambda to=to: fn(ad.tensor(given, device=to))) for to in ("cpu", "cuda")]
    assert told[0].__class__ is told[1].__class__, (name, told)
    assert all(says in str(error) for error in told), (name, told)


def refusal(call: Callable[[], Any]) -> Exception | None:
    """What a call raises."""
    try:
        call()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return error
    return None


def check_networks_under_autocast() -> None:
    """As in PyTorch, recurrent networks give halves there, and gradients as parameters are.

    On a GPU alone: to interpret them takes minutes.
    """
    for kind in ("LSTM", "GRU", "RNN"):
        ad.manual_seed(3)
        layer = getattr(ad.nn, kind)(4, 6, 2, bidirectional=True).to("cuda")
        x = ad.tensor(draw(5, 3, 4), device="cuda")
        packed = ad.nn.utils.rnn.pack_padded_sequence(x, ad.tensor([5, 4, 2]))
        for given in (x, packed):
            want = layer(given)[0]
            with ad.autocast("cuda", ad.bfloat16):
                out, last = layer(given)
            out, want = (y if given is x else y.data for y in (out, want))
            states = last if isinstance(last, tuple) else (last,)
            assert {y.dtype for y in (out, *states)} == {ad.bfloat16}, kind
            ad.testing.assert_close(out.float(), want, rtol=0.03, atol=0.03)
            grads = ad.autograd.grad(out.float().square().sum(), [*layer.parameters()])
            wanted = ad.autograd.grad(want.square().sum(), [*layer.parameters()])
            for g, w in zip(grads, wanted, strict=True):
                assert g.dtype is ad.float32, kind
                assert (g - w).norm() <= 0.03 * w.norm() + 0.01, kind


def main(names: list[str]) -> None:
    """All of it on the stand-in."""
    importlib.import_module("tests.cupy_stand_in").connect()
    for name in names or CASES:
        check(name)
    for name in () if names else REFUSED:
        check_refused(name)
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
