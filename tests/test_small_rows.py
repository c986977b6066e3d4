"""Native rows of small operations: the bits of NumPy's kernels, on random operations and values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.runtime import ufuncs
from adjoint.engine.backends.llvm.small import images, loops, rows
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stand_ins import StraightLater
from adjoint.engine.graph.eager import small_calls, straight
from adjoint.engine.ops.index import index
from adjoint.engine.ops.nn.losses import ctc
from adjoint.nn import functional as F

pytestmark = pytest.mark.skipif(
    loops.native() is None, reason="objects are laid out otherwise here: nothing is walked"
)
StraightLater.loaded()
assert images.written is rows.written  # which fills the table
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, 3e38, -1.0)
Step = Callable[[random.Random, ad.Tensor], ad.Tensor]


def some_dims(rng: random.Random, x: ad.Tensor) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(x.ndim), rng.randint(1, x.ndim)))) if x.ndim else ()


def reduced(name: str) -> Step:
    def step(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
        dims = some_dims(rng, x)
        keepdim = rng.random() < 0.6
        return getattr(x, name)(dims, keepdim=keepdim)  # of none where x has none

    return step


def with_other(name: str) -> Step:
    """A function of two, the other one broadcast."""

    def step(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
        other: Any = x.abs()
        if x.ndim and rng.random() < 0.5:
            other = x.sum(rng.randrange(x.ndim), keepdim=True)
        elif name not in ("maximum", "logaddexp") and rng.random() < 0.3:
            other = rng.choice([0.5, -2.0, 3, 0.0])
        return getattr(ad, name)(x, other)

    return step


def chosen(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
    return ad.where(x > 0.3, x * 2, rng.choice([x.abs(), -1.5]))


def product(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
    return x @ x.transpose(-1, -2) if x.ndim >= 2 else x


def rearranged(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
    if x.ndim < 2:
        return x.reshape(-1, 1)
    way = rng.randrange(3)
    if way == 0:
        return x.transpose(rng.randrange(x.ndim), rng.randrange(x.ndim))
    return x.reshape(-1) if way == 1 else x[..., :: rng.choice([1, 2])]


def joined(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
    return ad.cat([x, x * 2], rng.randrange(x.ndim)) if x.ndim else x


def picked(rng: random.Random, x: ad.Tensor) -> ad.Tensor:
    if not x.ndim:
        return x
    dim = rng.randrange(x.ndim)
    places = (x > 0).long().clamp(0, x.shape[dim] - 1)
    return x.gather(dim, places)


UNARY = (
    "exp log sqrt rsqrt neg abs tanh sigmoid relu erf sign square log1p expm1 isnan logit".split()
)
STEPS: list[Step] = [
    *[lambda rng, x, name=name: getattr(ad, name)(x) * 1.0 for name in UNARY],  # type: ignore[misc]
    *[reduced(name) for name in ("sum", "amax", "amin", "mean")],
    *[with_other(name) for name in ("add", "sub", "mul", "div", "maximum", "pow", "logaddexp")],
    chosen,
    product,
    rearranged,
    joined,
    picked,
]


def array_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, wild: bool) -> Any:
    found = rng.standard_normal(shape).astype(dtype)
    if wild and found.size:
        places = rng.random(shape) < 0.3
        found[places] = rng.choice(np.array(SPECIAL), size=shape).astype(dtype)[places]
    if rng.random() < 0.3 and found.ndim >= 2:
        found = np.ascontiguousarray(found.T).T
    return found


def bits(array: Any) -> Any:
    """The bytes of an array, with one NaN for all."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.dtype, array.shape, array.tobytes()


def compare(fn: Callable[..., Any], make: Callable[[bool], Any], *more: Any) -> bool:
    """Whether a function could be written; if it could, its bits are those of the kernels.

    It is given what `make` makes, which may be wild, and arrays that stay.
    """
    first = make(False)
    tensors = [ad.from_numpy(array) for array in (first, *more)]
    with CONTEXT.having(grad_enabled=False):
        try:
            program = straight.recorded(tensors, lambda: fn(*tensors))
        except (straight.Unfit, NotImplementedError):
            return False
    try:
        run = program.rows([t._array for t in tensors]).run  # type: ignore[misc]
    except rows.NoRow:
        return False
    for wild in (False, True, True):
        array = make(wild)
        if array.strides != first.strides:
            continue
        got, want = run(array, *more), program.kernels(array, *more)
        assert got is not None
        for g, w in zip(got, want, strict=True):
            assert bits(g) == bits(w)
            assert g.strides == w.strides
    return True


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_have_the_bits_of_the_kernels(seed: int) -> None:
    rng = random.Random(seed)
    written = 0
    for case in range(25):
        shape = tuple(rng.randint(1, 7) for _ in range(rng.randint(0, 3)))
        dtype = rng.choice([np.float32, np.float64])
        steps = [rng.choice(STEPS) for _ in range(rng.randint(1, 6))]
        choices = rng.random()

        def fn(x: ad.Tensor, steps: Any = steps, choices: float = choices) -> ad.Tensor:
            taken = random.Random(choices)
            for step in steps:
                x = step(taken, x)
            return x * 1.0

        def make(wild: bool, case: int = case, shape: Any = shape, dtype: Any = dtype) -> Any:
            return array_of(np.random.default_rng([seed, case]), shape, dtype, wild)

        written += compare(fn, make)
    assert written >= 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_and_transforms_are_walked(dtype: Any) -> None:
    """Each of them as rows, of stacks and of other layouts, with the bits of the kernels."""
    norms = (None, "ortho", "forward")

    def wholly(x: ad.Tensor) -> Any:
        square = x @ x.transpose(-1, -2) + 3 * ad.eye(x.shape[-2], dtype=x.dtype)
        lower, u = ad.linalg.cholesky(square), ad.linalg.svd(x)
        values, vectors = ad.linalg.eigh(square)
        q, r = ad.linalg.qr(x)
        inverse = ad.linalg.inv(square)
        sign, size = ad.linalg.slogdet(square)
        found = [lower, *u, values, vectors, q, r, inverse, sign, size, ad.linalg.det(square)]
        return [t * 1.0 for t in (*found, ad.linalg.solve(square, x))]

    def transformed(x: ad.Tensor) -> Any:
        whole = [ad.fft.fft2(x, norm=norm) for norm in norms]
        whole += [ad.fft.ifft(f, dim=0, norm=norm) for f, norm in zip(whole, norms, strict=True)]
        half = [ad.fft.rfft(x, dim=d, norm=norm) for d in (0, -1) for norm in norms]
        back = [ad.fft.irfft(x.to(ad.complex64), n, norm=norm) for n in (4, 5) for norm in norms]
        return [*[ad.view_as_real(f) * 1.0 for f in (*whole, *half)], *[b * 1.0 for b in back]]

    for shape in ((1, 1), (3, 3), (4, 2), (2, 5), (2, 3, 4)):
        numbers = np.random.default_rng([*shape])
        for turned in (False, True):

            def make(
                wild: bool, shape: Any = shape, turned: bool = turned, rng: Any = numbers
            ) -> Any:
                found = rng.standard_normal(shape).astype(dtype)
                return found.swapaxes(-1, -2).copy().swapaxes(-1, -2) if turned else found

            assert compare(wholly, make)
            assert compare(transformed, make)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_halves_are_converted_as_the_kernels_convert_them(dtype: Any) -> None:
    """Every half, floats of every size, and those between two halves."""
    rng = np.random.default_rng(3)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    exact = ad.from_numpy(every).view(dtype).float().numpy()
    between = exact.view(np.uint32) + np.uint32(1 << (15 if dtype is ad.bfloat16 else 12))
    anything = rng.integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32)
    floats = np.concatenate([exact, between.view(np.float32), anything.view(np.float32)])
    x = ad.ones(1 << 10)
    program = straight.recorded([x], lambda: x.to(dtype).float())
    try:
        run = program.rows([x._array]).run  # type: ignore[misc]
    except rows.NoRow:
        assert dtype is ad.float16  # which a machine may not know
        return
    for part in floats.reshape(-1, 1 << 10):
        (got,), (want,) = run(part), program.kernels(part)
        assert bits(got) == bits(want)


def test_running_extremes_and_elements_put_are_walked() -> None:
    for dim, seed in ((0, 1), (1, 2)):
        rng = np.random.default_rng(seed)

        def make(wild: bool, rng: Any = rng) -> Any:
            found = rng.integers(-2, 3, (5, 6)).astype(np.float32)
            if wild:
                found[rng.random((5, 6)) < 0.2] = np.nan
            return found

        def run(x: ad.Tensor, dim: int = dim) -> Any:
            at = ad.arange(30).reshape(5, 6) % 4
            best = [*x.cummax(dim), *x.cummin(dim)]
            return [t * 1 for t in (*best, x.scatter(dim, at, x + 10), x.xlogy(x.abs()))]

        assert compare(run, make)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_several_indices_are_walked(dtype: Any) -> None:
    """Read, written and added up: adjacent dimensions and others, blocks of any rank, repeats."""
    rng = np.random.default_rng(3)
    blocks: list[list[tuple[int, ...]]] = [
        [(7,), (7,)],
        [(2, 3), (3,)],
        [(), (4,)],
        [(3, 1), (1, 2)],
    ]
    for dims in ((0, 1), (1, 2), (0, 2), (0, 1, 2), (2,)):
        for a, b in blocks:
            for turned in (False, True):
                shapes = [a, b, a][: len(dims)]
                picks = [rng.integers(0, 4 + d, s) for d, s in zip(dims, shapes, strict=True)]

                def make(wild: bool, turned: bool = turned) -> Any:
                    found = rng.integers(-9, 9, (4, 5, 6)).astype(dtype)
                    return np.ascontiguousarray(found.T).T if turned else found

                def read(x: ad.Tensor, *at: ad.Tensor, dims: Any = dims) -> Any:
                    return index.INDEX(x, *at, dims=dims)

                def put(x: ad.Tensor, *at: ad.Tensor, dims: Any = dims) -> Any:
                    values = index.INDEX(x * 1, *at, dims=dims)
                    return index.INDEX_PUT(x, values + values, *at, dims=dims, accumulate=False)

                def add(x: ad.Tensor, *at: ad.Tensor, dims: Any = dims) -> Any:
                    values = index.INDEX(x, *at, dims=dims)
                    values = values / 3 if x.is_floating_point() else values * 3
                    return index.INDEX_PUT(x, values, *at, dims=dims, accumulate=True)

                assert compare(read, make, *picks)
                if dtype is not np.bool_:
                    assert compare(put, make, *picks) == (len({p.shape for p in picks}) == 1)
                    assert compare(add, make, *picks)


def test_several_indices_out_of_bounds_are_left_to_the_kernels() -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    inside = [np.array([0, 3, 1]), np.array([4, 0, 2])]
    tensors = [ad.from_numpy(array) for array in (x, *inside)]
    program = straight.recorded(tensors, lambda: index.INDEX(tensors[0], *tensors[1:], dims=(0, 1)))
    run = program.rows([t._array for t in tensors]).run  # type: ignore[misc]
    for down, along in (([0, 4, 1], [4, 0, 2]), ([0, 3, 1], [5, 0, 2]), ([0, 1, -1], [0, 0, 0])):
        assert run(x, np.array(down), np.array(along)) is None
        (again,) = run(x, *inside)  # what failed before leaves nothing behind
        assert again.tolist() == x[tuple(inside)].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 31, 48, 63, 64])
def test_order_of_rows_is_numpy_s(dtype: Any, length: int) -> None:
    """Rows whose elements all differ go by ranks, others element by element."""
    rng = np.random.default_rng([length, np.dtype(dtype).itemsize])

    def make(wild: bool) -> Any:
        if wild:  # equal ones, and numbers that are none
            found = rng.integers(-9, 9, (5, length)).astype(dtype)
            if dtype in (np.float32, np.float64):
                found[rng.random((5, length)) < 0.1] = np.nan
            found[2] = rng.permutation(length)
            return found
        return np.array([rng.permutation(length) for _ in range(5)]).astype(dtype) - length // 2

    def run(x: ad.Tensor) -> Any:
        orders = [x.argsort(1, stable=True), x.argsort(1, descending=True, stable=True)]
        turned = x.T.argsort(0, descending=True, stable=True)
        return [t * 1 for t in (*orders, turned)]

    assert compare(run, make)

    def few(x: ad.Tensor) -> Any:
        return [t * 1 for t in (*x.topk(max(1, length // 3)), *x.sort(), *x.median(1))]

    assert compare(few, lambda wild: make(False))
    short = length <= 16  # in longer ones equals have PyTorch's order
    assert compare(lambda x: [t * 1 for t in (*x.mode(1), *x.T.mode(0))], make) == short


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("reduce", ["amax", "amin", "prod"])
def test_reductions_at_indices_are_numpy_s(dtype: Any, reduce: str) -> None:
    rng = np.random.default_rng([np.dtype(dtype).itemsize, len(reduce)])
    at, source = rng.integers(0, 3, (5, 4)), rng.integers(1, 9, (5, 4)).astype(dtype)

    def make(wild: bool) -> Any:
        found = rng.integers(1, 9, (3, 4)).astype(dtype)
        if wild and found.dtype.kind == "f":
            found[rng.random((3, 4)) < 0.3] = np.nan
        return found

    def run(x: ad.Tensor, y: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        return x.scatter_reduce(0, at, y, reduce) * 1

    assert compare(run, make, source, at)


def test_long_sums_are_taken_in_numpy_s_pairs() -> None:
    rng = np.random.default_rng(2)
    for shape in ((2000,), (3, 500), (17, 90), (2, 9, 77)):
        for dims in ((0,), (len(shape) - 1,), tuple(range(len(shape)))):

            def fn(x: ad.Tensor, dims: Any = dims) -> ad.Tensor:
                return x.sum(dims) * 1.0

            assert compare(fn, lambda _, n=shape: rng.standard_normal(n).astype(np.float32))


@pytest.mark.parametrize("seed", range(3))
def test_convolutions_and_pooling_have_the_bits_of_the_kernels(seed: int) -> None:
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    written = 0
    for _ in range(12):
        rank, groups = rng.choice([1, 2, 2]), rng.choice([1, 1, 2])
        dtype = rng.choice([np.float32, np.float64])
        sizes = tuple(rng.randint(4, 7) for _ in range(rank))
        kernel = tuple(rng.randint(1, 3) for _ in range(rank))
        shape = (rng.randint(1, 2), 2 * groups, *sizes)
        step, pad, spread = rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([1, 1, 2])
        weight = numbers.standard_normal((3 * groups, 2, *kernel)).astype(dtype)
        suffix = f"{rank}d"

        def make(wild: bool, shape: Any = shape, dtype: Any = dtype) -> Any:
            found = numbers.standard_normal(shape).astype(dtype)
            if wild:
                places = numbers.random(shape) < 0.1
                found[places] = numbers.choice(np.array(SPECIAL), size=shape).astype(dtype)[places]
            return found

        def convolve(x: Any, w: Any, given: Any = (step, pad, spread, groups)) -> Any:
            step, pad, spread, groups = given
            call = getattr(F, f"conv{w.ndim - 2}d")
            return call(x, w, None, step, pad, spread, groups)

        def derived(x: Any, w: Any) -> Any:
            _, pull = ad.func.vjp(convolve, x, w)
            return [g * 1.0 for g in pull(convolve(x, w) * 0.5)]

        def largest(x: Any, name: str = f"max_pool{suffix}", given: Any = (step, pad)) -> Any:
            return getattr(F, name)(x, 2, given[0], given[1], return_indices=True)

        def mean(x: Any, name: str = f"avg_pool{suffix}", given: Any = (step, pad)) -> Any:
            return getattr(F, name)(x, 2, given[0], given[1], count_include_pad=False) * 1.0

        def resized(x: Any, mode: str = {1: "linear", 2: "bilinear"}[rank]) -> Any:
            return F.interpolate(x, scale_factor=1.5, mode=mode) * 1.0

        def columns(x: Any, given: Any = (kernel, 1, pad, step)) -> Any:
            found, pull = ad.func.vjp(lambda x: F.unfold(x, *given), x)
            return [found * 1.0, pull(found * 0.5)[0] * 1.0]

        if rank == 2:
            assert compare(columns, make)
        written += compare(convolve, make, weight) + compare(derived, make, weight)
        written += compare(largest, make) + compare(mean, make) + compare(resized, make)
    assert written >= 40


def often(call: Callable[[], Any]) -> Any:
    """What the last of many calls gives."""
    for _ in range(straight.AFTER + straight.OFTEN + 2):
        out = call()
    return out


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The programs, whose rows are not put off until many of them were called."""
    programs = StraightLater.loaded()
    programs.forget()
    monkeypatch.setattr(straight, "LOADED", 0)
    monkeypatch.setattr(small_calls, "SIGHTED", 1 << 60)  # functions leave all to their records
    return programs


def walked(programs: Any) -> int:
    """How many programs are walked."""
    found = [p for p in programs.by_kind.values() if isinstance(p, straight.Straight)]
    return sum(p.run is not p.kernels for p in found)


def test_programs_that_are_called_often_are_walked_and_give_the_same(soon: Any) -> None:
    x, target = ad.randn(3, 5, requires_grad=True), ad.tensor([1, 0, 4])

    def call() -> list[Any]:
        x.grad = None
        loss = F.cross_entropy(F.layer_norm(x, (5,)), target)
        loss.backward()
        assert x.grad is not None
        return [loss.detach().numpy().copy(), x.grad.numpy().copy()]

    with CONTEXT.having(reference=True):
        want = call()
    for g, w in zip(often(call), want, strict=True):
        np.testing.assert_array_equal(g, w)
    assert walked(soon) >= 3


def test_numbers_and_layouts_that_differ_are_told_apart(soon: Any) -> None:
    """Each call is compared with what it gives by the table, while native code knows all others."""
    rng = np.random.default_rng(4)
    x = ad.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
    given = [x, x.double(), x.t(), x[:, 1:], ad.from_numpy(-x.numpy()), x[:2], x.reshape(3, 2, 2)]
    calls: list[Callable[[Any], Any]] = [
        lambda x: F.leaky_relu(x, 0.0),
        lambda x: F.leaky_relu(x, -0.0),
        lambda x: F.leaky_relu(x, 0.5),
        lambda x: F.elu(x, 1),
        lambda x: F.elu(x, 1.0),
        lambda x: x.softmax(0),
        lambda x: x.softmax(1),
        lambda x: x.var(1, correction=0),
        lambda x: x.var(1, correction=1),
        lambda x: x.var(1, keepdim=True),
        lambda x: F.mse_loss(x, x, reduction="none"),
        lambda x: F.mse_loss(x, x + 1, reduction="none"),
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.scaled_dot_product_attention(x, x + 0, x + 0, is_causal=True),
    ]
    with CONTEXT.having(reference=True):
        want = [[call(x).numpy().copy() for x in given] for call in calls]
    for _ in range(straight.AFTER + straight.OFTEN + 3):
        for call, wanted in zip(calls, want, strict=True):
            for x, w in zip(given, wanted, strict=True):
                out = call(x).numpy()
                assert bits(out) == bits(w)
    assert walked(soon) > 40


def test_programs_forgotten_are_not_found(soon: Any) -> None:
    x = ad.randn(2, 4)
    often(lambda: x.softmax(1))
    assert REGISTRY["softmax"].small
    soon.forget()
    assert not REGISTRY["softmax"].small


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_few_elements_is_that_of_many(
    soon: Any, zero_infinity: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a target is impossible, empty, or not all steps are read."""
    numbers = np.random.default_rng(6)
    x = ad.from_numpy(numbers.standard_normal((5, 4, 4)).astype(np.float32)).requires_grad_()
    targets = ad.tensor([[1, 2, 3], [1, 1, 1], [3, 1, 0], [2, 2, 2]])
    lengths = ad.tensor([5, 4, 0, 5]), ad.tensor([2, 3, 0, 3])

    def call() -> list[Any]:
        x.grad = None
        loss = F.ctc_loss(x.log_softmax(2), targets, *lengths, 0, "none", zero_infinity)
        loss.backward(ad.tensor([1.0, 2.0, 3.0, -1.0]))
        assert x.grad is not None
        return [loss.detach().numpy().copy(), x.grad.numpy().copy()]

    few = often(call)
    assert walked(soon) >= 2
    monkeypatch.setattr(ctc, "FEW", 0)
    for got, want in zip(few, call(), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


def test_what_rows_cannot_do_is_said_as_ever(soon: Any) -> None:
    x = ad.randn(2, 4)
    often(lambda: F.cross_entropy(x, ad.tensor([1, 3])))
    assert walked(soon)
    with pytest.raises(IndexError, match="Target 9 is out of bounds"):
        F.cross_entropy(x, ad.tensor([1, 9]))
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        F.cross_entropy(x, ad.tensor([1, -1]))


def test_results_and_operands_are_nobody_else_s(soon: Any) -> None:
    x = ad.tensor([[1.0, 2.0]])
    first = often(lambda: x.softmax(1))
    held = first.clone()
    x.fill_(7.0)
    second = x.softmax(1)
    assert second.tolist() == [[0.5, 0.5]]
    np.testing.assert_array_equal(first.numpy(), held.numpy())


def test_operands_that_get_other_memory_while_results_are_made(soon: Any) -> None:
    """The collector may run then, and with it any code."""
    x, other = ad.tensor([[1.0, 2.0]]), ad.tensor([[3.0, 3.0]])
    often(lambda: x.softmax(1))
    record = REGISTRY["softmax"]
    (words, wanted, literals, names, values, rest, made, kept), *_ = record.small
    (make, given) = made[0]
    changes: list[Any] = [lambda: setattr(x, "data", other), lambda: setattr(x, "data", other.t())]
    for change in changes:

        def changed(*given: Any, change: Any = change) -> Any:
            change()
            return make(*given)

        x.data = ad.tensor([[1.0, 2.0]])
        record.small = ((words, wanted, literals, names, values, rest, ((changed, given),), kept),)
        assert set(x.softmax(1).flatten().tolist()) <= {0.5, 1.0}


def test_arrays_that_are_not_aligned_are_left_to_numpy(soon: Any) -> None:
    memory = np.zeros(33, np.uint8)
    askew = memory[1:].view(np.float32)
    askew[:] = np.arange(8)
    x, straightened = ad.from_numpy(askew), ad.from_numpy(askew.copy())
    want = often(lambda: straightened.softmax(0))
    np.testing.assert_array_equal(x.softmax(0).numpy(), want.numpy())


def test_numpy_is_laid_out_as_expected() -> None:
    assert ufuncs.is_laid_out()
    assert ufuncs.inner_loop_of(np.add, "ff->f") != ufuncs.inner_loop_of(np.add, "dd->d")
    assert ufuncs.inner_loop_of(np.exp, "ff->f") is None
