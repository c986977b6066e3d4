"""Fragments that native code finds and launches give what they give otherwise (Note [met launches])."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.nn import functional as F

pytestmark = pytest.mark.cuda
OFTEN = 8


@pytest.fixture
def met() -> Iterator[list[bool]]:
    """Whether native code found a program, call by call."""
    assert importlib.import_module("adjoint.engine.backends.triton.runtime.meeting").ready()
    FRAGMENTS.forget()
    found: list[bool] = []
    before = HOOKS.meet_on_device

    def noted(*given: Any) -> Any:
        out = before(*given)
        found.append(out is not None)
        return out

    HOOKS.meet_on_device = noted
    yield found
    HOOKS.meet_on_device = before


def draw(*shape: int, dtype: Any = ad.float32) -> Any:
    return ad.randn(shape, device="cuda").to(dtype)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "add": (lambda x, y: x + y, ((5, 7), (5, 7))),
    "add to itself": (lambda x: x + x, ((5, 7),)),
    "broadcast": (lambda x, y: x * y, ((5, 7), (7,))),
    "number": (lambda x: x * 1.75, ((33,),)),
    "without dimensions": (lambda x: x + 1.0, ((),)),
    "transposed": (lambda x, y: x.t() - y, ((6, 5), (5, 6))),
    "channels last": (
        lambda x: x.to(memory_format=ad.channels_last).relu(),
        ((2, 8, 4, 4),),
    ),
    "sum": (lambda x: x.sum(), ((64, 64),)),
    "sum of rows": (lambda x: x.sum(-1), ((64, 65),)),
    "long sum": (lambda x: x.sum(), ((512, 1024),)),
    "softmax": (lambda x: x.softmax(-1), ((9, 31),)),
    "norm": (lambda x, w, b: F.layer_norm(x, (32,), w, b), ((8, 32), (32,), (32,))),
    "product": (lambda x, y: x @ y, ((16, 24), (24, 8))),
    "turned product": (lambda x, y: x @ y.t(), ((16, 24), (8, 24))),
    "product of a view": (lambda x, y: x[1:] @ y, ((17, 24), (24, 8))),
    "products": (lambda x, y: x @ y, ((3, 16, 24), (3, 24, 8))),
    "linear": (lambda x, w, b: F.linear(x, w, b), ((16, 24), (8, 24), (8,))),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: str, met: list[bool]) -> None:
    """The same operation on new operands of the same kind, and its gradients."""
    fn, shapes = CASES[name]
    kind = getattr(ad, dtype)
    bound = {"float32": 1e-5, "bfloat16": 3e-2, "float64": 1e-12}[dtype]
    for _ in range(OFTEN):
        leaves = [draw(*shape, dtype=kind) for shape in shapes]
        hosts = [x.cpu().double().requires_grad_() for x in leaves]
        on_tape = [x.detach().requires_grad_() for x in leaves]
        plain, taped, wanted = fn(*leaves), fn(*on_tape), fn(*hosts)
        weights = ad.randn(tuple(wanted.shape)).to(kind)
        taped.backward(weights.cuda())
        wanted.backward(weights.double())
        for got, want in (
            (plain, wanted),
            (taped, wanted),
            *[(x.grad, y.grad) for x, y in zip(on_tape, hosts, strict=True)],
        ):
            have, expected = got.detach().double().cpu().numpy(), want.detach().numpy()
            assert tuple(got.shape) == tuple(want.shape)
            scale = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(have, expected, rtol=bound, atol=bound * scale)
    assert any(met), name


def test_other_kinds_do_not_fit(met: list[bool]) -> None:
    """Shapes, steps, dtypes and addresses that differ have programs of their own."""
    pool = draw(40, 40)
    for _ in range(OFTEN):
        for x in (pool, pool.t(), pool[1:], pool[:, 1:], pool[:7, :5], pool.double(), pool.half()):
            y = x * 2.0
            assert y.dtype is x.dtype
            np.testing.assert_array_equal(
                y.cpu().numpy(), x.cpu().numpy() * x.cpu().numpy().dtype.type(2)
            )
    assert any(met)


def test_switches_do_not_fit(met: list[bool]) -> None:
    """Products in tf32 are other programs."""
    x, y = draw(64, 96), draw(96, 64)
    exact = x.double() @ y.double()

    def error() -> float:
        return max(float(((x @ y).double() - exact).abs().max()) for _ in range(OFTEN))

    plain = error()
    before = ad.get_float32_matmul_precision()
    ad.set_float32_matmul_precision("high")
    try:
        rough = error()
    finally:
        ad.set_float32_matmul_precision(before)
    assert plain < 1e-4 < rough
    assert error() < 1e-4


def test_streams(met: list[bool]) -> None:
    """Launches go to the stream that is current."""
    x, y, w = draw(256, 256), draw(256, 256), draw(256, 256)
    for _ in range(OFTEN):
        x + y, x @ w
    stream = ad.cuda.Stream()
    stream.wait_stream(ad.cuda.current_stream())
    with ad.cuda.stream(stream):
        z = (x + y) @ w
    stream.synchronize()
    wanted = (x.cpu().double() + y.cpu().double()) @ w.cpu().double()
    np.testing.assert_allclose(z.cpu().numpy(), wanted.numpy(), rtol=1e-4, atol=1e-3)


def test_threads(met: list[bool]) -> None:
    """Several threads launch the same programs, one with a bias, at once."""
    weight, given = draw(32, 32), [draw(16, 32) for _ in range(4)]
    biases = [draw(32) for _ in range(4)]
    for x, b in zip(given, biases, strict=True):
        for _ in range(OFTEN):
            F.linear(x, weight, b)
    wrong: list[Any] = []

    def work(x: Any, bias: Any) -> None:
        want = (x.cpu() @ weight.cpu().t() + bias.cpu()).numpy()
        for _ in range(200):
            got = F.linear(x, weight, bias)
        if not np.allclose(got.cpu().numpy(), want, rtol=1e-4, atol=1e-4):
            wrong.append(x)

    threads = [Thread(target=work, args=pair) for pair in zip(given, biases, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_let_go(met: list[bool]) -> None:
    """Results and what lies between kernels go when nobody has them."""
    x = draw(512, 1024)
    for _ in range(OFTEN):
        x.sum()
    before = ad.cuda.memory_allocated()
    for _ in range(50):
        x.sum()
        x + 1.0
    assert ad.cuda.memory_allocated() == before
    assert any(met)


# Public functions of x and y (4 x 6), v (6) and whether x is positive.
CALLS: dict[str, Callable[..., Any]] = {
    "mean": lambda x, y, v, m: x.mean(),
    "mean of rows": lambda x, y, v, m: x.mean(-1, keepdim=True),
    "variance": lambda x, y, v, m: x.var(0),
    "largest": lambda x, y, v, m: x.amax(0),
    "clamp": lambda x, y, v, m: x.clamp(-0.5, 0.5),
    "where": lambda x, y, v, m: ad.where(m, x, y),
    "where, a number": lambda x, y, v, m: ad.where(m, x, 0.25),
    "cat": lambda x, y, v, m: ad.cat([x, y]),
    "stack": lambda x, y, v, m: ad.stack((x, y), 1),
    "flip": lambda x, y, v, m: x.flip(0),
    "tril": lambda x, y, v, m: x.tril(1),
    "softmax": lambda x, y, v, m: F.softmax(x, -1),
    "norm": lambda x, y, v, m: F.layer_norm(x, (6,), v, v),
    "gelu": lambda x, y, v, m: F.gelu(x),
    "squares": lambda x, y, v, m: F.mse_loss(x, y),
    "double": lambda x, y, v, m: x.to(ad.float64),
    "of a view": lambda x, y, v, m: ad.add(x[1:], y[1:], alpha=2),
    "linear": lambda x, y, v, m: F.linear(x, y),
    "products by letters": lambda x, y, v, m: ad.einsum("ij,kj->ik", x, y),
    "rows by number": lambda x, y, v, m: F.embedding(m.long(), x),
    "sums at places": lambda x, y, v, m: x.scatter_add(1, m.long(), y),
    "sums of rows": lambda x, y, v, m: x.index_add(0, m.long()[:, 0], y),
    "largest at places": lambda x, y, v, m: x.scatter_reduce(1, m.long(), y, "amax"),
    "reflected": lambda x, y, v, m: F.pad(x, (2, 3), "reflect"),
    "means of windows": lambda x, y, v, m: F.avg_pool1d(x, 3, 2, 1),
    "soft margins": lambda x, y, v, m: F.soft_margin_loss(x, y.sign()),
}


@pytest.mark.parametrize("name", CALLS)
def test_public_calls(name: str, met: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a function on small tensors stays what it was when it has a program."""
    from adjoint.engine.core.operations.small_calls import EVERY
    from adjoint.engine.graph.eager import device_calls

    monkeypatch.setattr(device_calls, "SIGHTED", 0)
    fn, v = CALLS[name], draw(6)
    for turn in range(3 * EVERY):
        x, y = draw(4, 6), draw(4, 6)
        if turn > 2 * EVERY:
            met.clear()
        got = fn(x, y, v, x > 0)
        want = fn(x.cpu(), y.cpu(), v.cpu(), x.cpu() > 0)
        assert got.dtype is want.dtype
        assert got.stride() == want.stride()
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=2e-5, atol=2e-6)
    assert any(met), name
    leaf = x.detach().requires_grad_()
    out = fn(leaf, y, v, x > 0)
    assert out.requires_grad


def test_ones_and_zeros(met: list[bool]) -> None:
    for dtype in (ad.float32, ad.int64, ad.bool, ad.bfloat16, ad.complex64):
        for _ in range(OFTEN):
            for make in (ad.ones, ad.zeros):
                got = make(3, 5, device="cuda", dtype=dtype)
                assert (got.cpu() == make(3, 5, dtype=dtype)).all()
                assert got.is_cuda
    assert any(met)
    assert ad.ones(2, 0, device="cuda").shape == (2, 0)
    assert ad.full((2,), 2.5, device="cuda").tolist() == [2.5, 2.5]


def test_faults_are_told_with_their_line(met: list[bool]) -> None:
    """Kernels that can fail are launched natively too, and tell of it late, as ever."""
    table, rows = draw(9, 4), ad.tensor([1, 3, 8]).cuda()
    for _ in range(OFTEN):
        F.embedding(rows, table)
    assert any(met)
    met.clear()
    F.embedding(ad.tensor([1, 3, 77]).cuda(), table)
    assert met == [True]
    with pytest.raises(IndexError, match="77") as told:
        ad.cuda.synchronize()
    assert any("test_met_launches_cuda" in note for note in told.value.__notes__)
    np.testing.assert_array_equal(
        F.embedding(rows, table).cpu().numpy(), table.cpu().numpy()[[1, 3, 8]]
    )


def test_functions_that_write_are_not_tried(
    met: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is tried is made twice, which must not be seen."""
    from adjoint.engine.core.operations.small_calls import EVERY
    from adjoint.engine.graph.eager import device_calls

    monkeypatch.setattr(device_calls, "SIGHTED", 0)
    start = ad.randn(4, 6)
    for call in (
        lambda x: F.elu(x, 1.0, True),
        lambda x: F.silu(x, inplace=True),
        lambda x: F.celu(x, 0.5, inplace=True),
        lambda x: x.add_(0.25),
        lambda x: ad.add(x, 1.0, out=x),
    ):
        here, there = start.clone(), start.cuda()
        for _ in range(2 * EVERY + 1):
            got = call(there)
            want = call(here)
            assert got.data_ptr() == there.data_ptr()
            np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_many_lengths_are_found(met: list[bool]) -> None:
    """Native code finds programs of more sizes than one list compares (Note [listed programs])."""
    leaves = [draw(n, 16) for n in range(1, 101)]
    for _ in range(OFTEN):
        del met[:]
        found = [x * 1.75 for x in leaves]
    assert met == [True] * len(leaves)
    for x, y in zip(leaves, found, strict=True):
        np.testing.assert_array_equal(y.cpu().numpy(), x.cpu().numpy() * np.float32(1.75))
