"""Large eager operations run as compiled fragments, and give what the eager table gives."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.core.operations import small_calls as names
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import fragments, sightings, small_calls
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from tests.compiling_anew import recorded_anew


@pytest.fixture(autouse=True)
def from_one_element_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every operation that can be a fragment is one, whatever its size."""
    HOOKS.load_rest()
    FRAGMENTS.forget()
    small_calls.PROGRAMS.forget()
    # Small calls get no programs of another kind.
    monkeypatch.setattr(names, "EVERY", 1 << 62)
    monkeypatch.setattr(names, "FIRST", 0)
    monkeypatch.setattr(sightings, "WAITS", False)
    for record in REGISTRY.values():
        if record.large:
            monkeypatch.setattr(record, "large", 1)
    yield
    FRAGMENTS.forget()


def draw(*shape: int, positive: bool = False) -> ad.Tensor:
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    return ad.tensor(np.abs(values) + 0.1 if positive else values, dtype=ad.float32)


def both(fn: Callable[..., Any], *given: ad.Tensor) -> tuple[list[Any], list[Any]]:
    """Results and gradients as fragments, and by the eager table."""

    def run() -> list[Any]:
        leaves = [x.detach().requires_grad_(x.dtype.is_floating_point) for x in given]
        out = fn(*leaves)
        outs = [*out] if isinstance(out, tuple) else [out]
        weights = [ad.arange(1.0, o.numel() + 1).reshape(o.shape) for o in outs]
        sum((o * w).sum() for o, w in zip(outs, weights, strict=True)).backward()
        return [o.detach() for o in outs] + [x.grad for x in leaves if x.requires_grad]

    got = run()
    with CONTEXT.having(reference=True):
        want = run()
    return got, want


CASES: dict[str, tuple[Callable[..., Any], tuple[ad.Tensor, ...]]] = {
    "add": (lambda x, y: x + y, (draw(3, 4), draw(4))),
    "itself": (lambda x: x * x + x, (draw(5),)),
    "div": (lambda x, y: x / y, (draw(3, 4), draw(3, 1, positive=True))),
    "where": (lambda x, y: ad.where(x > 0, x, y), (draw(3, 4), draw(3, 4))),
    "pow": (lambda x: x**3, (draw(4),)),
    "functions": (lambda x: x.exp() + x.log() + x.tanh() + x.sigmoid(), (draw(7, positive=True),)),
    "sum": (lambda x: x.sum(1), (draw(3, 4),)),
    "amax": (lambda x: x.amax(1), (draw(3, 4),)),
    "transposed": (lambda x: x.T.exp() * 2, (draw(3, 4),)),
    "matmul": (lambda x, y: x @ y, (draw(3, 4), draw(4, 5))),
    "batched matmul": (lambda x, y: x @ y.mT, (draw(2, 3, 4), draw(2, 5, 4))),
    "transposed matmul": (lambda x, y: x.T @ y, (draw(4, 3), draw(4, 5))),
    "twice transposed matmul": (lambda x, y: x.T @ y.T, (draw(4, 3), draw(5, 4))),
    "swapped batches": (lambda x, y: x.transpose(0, 1) @ y, (draw(3, 2, 4), draw(2, 4, 5))),
    "linear": (F.linear, (draw(2, 3, 4), draw(5, 4), draw(5))),
    "softmax": (lambda x: ad.softmax(x, -1), (draw(3, 4),)),
    "log_softmax": (lambda x: ad.log_softmax(x, 0), (draw(3, 4),)),
    "gelu": (F.gelu, (draw(3, 4),)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (draw(3, 4),)),
    "silu": (F.silu, (draw(3, 4),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (draw(3, 4), draw(4), draw(4))),
    "group_norm": (lambda x: F.group_norm(x, 2), (draw(2, 4, 3),)),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (draw(3, 4, 5), draw(4), draw(4)),
    ),
    "var": (lambda x: x.var(1), (draw(3, 4),)),
    "mse": (F.mse_loss, (draw(3, 4), draw(3, 4))),
    "huber": (F.huber_loss, (draw(3, 4), draw(3, 4))),
    "cross_entropy": (lambda x: F.cross_entropy(x, ad.tensor([0, 3, 2])), (draw(3, 4),)),
    "weighted logits": (
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w),
        (draw(3, 4), draw(3, 4), draw(4, positive=True)),
    ),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        (draw(2, 3, 8, 8), draw(4, 3, 3, 3), draw(4)),
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        (draw(2, 3, 4, 4), draw(3, 4, 3, 3)),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 2), (draw(2, 3, 6, 6),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (draw(2, 2, 5, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 4)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fragments_give_what_the_table_gives(name: str) -> None:
    fn, given = CASES[name]
    got, want = both(fn, *given)
    assert any(FRAGMENTS.by_kind.values()), "nothing ran as a fragment"
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype is theirs.dtype
        assert mine.stride() == theirs.stride()
        scale = max(1.0, float(theirs.abs().max()))  # what cancels out was as large as others
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-6 * scale)


@pytest.mark.parametrize("name", ["matmul", "gelu", "layer_norm", "attention"])
def test_second_derivatives(name: str) -> None:
    fn, given = CASES[name]

    def run() -> list[Any]:
        leaves = [x.detach().requires_grad_() for x in given]
        grads = ad.autograd.grad(fn(*leaves).square().sum(), leaves, create_graph=True)
        return list(ad.autograd.grad(sum(g.square().sum() for g in grads), leaves))

    got = run()
    with CONTEXT.having(reference=True):
        want = run()
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-3, atol=1e-4)


def test_operands_that_are_the_same_or_not() -> None:
    """A kind made for x + x is not used for x + y."""
    x, y = ad.tensor([1, 2, 3]), ad.tensor([10, 20, 30])
    assert (x + x).tolist() == [2, 4, 6]
    assert (x + y).tolist() == [11, 22, 33]
    assert (y + y).tolist() == [20, 40, 60]


def test_parameters_and_numbers_are_part_of_the_kind() -> None:
    x = draw(3, 4)
    assert not np.allclose(ad.softmax(x, 0).numpy(), ad.softmax(x, 1).numpy())
    assert (x * 2).tolist() != (x * 3).tolist()
    assert (ad.tensor([1, 2]) * 2).dtype is ad.int64
    assert (ad.tensor([1, 2]) * 2.0).dtype is ad.float32


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x.pow(2), lambda x: x.pow(2.0)),
        (lambda x: F.hardtanh(x, -0.0, 1.0), lambda x: F.hardtanh(x, 0.0, 1.0)),
        (lambda x: x.sum(0), lambda x: x.sum(0, keepdim=True)),
        (lambda x: x.sort(0), lambda x: x.sort(1)),
        (lambda x: x.sort(1), lambda x: x.sort(1, descending=True)),
        (lambda x: x.topk(2), lambda x: x.topk(2, largest=False)),
        (lambda x: x.topk(2), lambda x: x.topk(3)),
        (lambda x: x.gather(0, ad.tensor([[1, 0]])), lambda x: x.gather(1, ad.tensor([[1, 0]]))),
        (lambda x: x + 1, lambda x: x + 1.0),
        (lambda x: x + 1, lambda x: x + True),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_calls_that_look_alike_are_told_apart(
    one: Callable[[Any], Any], other: Callable[[Any], Any], dtype: str
) -> None:
    """Fragments are found by a quick key, and each call meets those of the calls before."""
    x = (draw(3, 4) * 10).to(getattr(ad, dtype))
    for fn in (one, other, one, other):
        for given in (x, x.t().contiguous().t()):
            with CONTEXT.having(reference=True):
                expected = fn(given)
            actual = fn(given)
            pairs = zip(actual, expected, strict=True) if type(actual) is not ad.Tensor else None
            for mine, theirs in pairs or [(actual, expected)]:
                assert mine.dtype is theirs.dtype
                np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)
                np.testing.assert_array_equal(
                    np.signbit(mine.double().numpy()), np.signbit(theirs.double().numpy())
                )


def test_the_default_dtype_counts() -> None:
    x = ad.tensor([1, 2])
    assert (x * 2.0).dtype is ad.float32
    ad.set_default_dtype(ad.float64)
    try:
        assert (x * 2.0).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: draw(2, 3) @ draw(2, 3), RuntimeError),
        (lambda: F.cross_entropy(draw(2, 3), ad.tensor([0, 7])), IndexError),
        (lambda: F.layer_norm(draw(2, 3), (4,)), RuntimeError),
    ],
)
def test_errors_are_those_of_the_table(wrong: Callable[[], Any], kind: type[Exception]) -> None:
    with CONTEXT.having(reference=True), pytest.raises(kind) as want:
        wrong()
    with pytest.raises(kind) as got:
        wrong()
    assert str(got.value) == str(want.value)


def test_what_looks_on_sees_every_operation() -> None:
    """Recordings and the reference interpreter have operations as they are."""
    x = draw(3, 4)
    ad.compile(F.gelu, backend="interpret")(x)
    with CONTEXT.having(reference=True):
        F.gelu(x)
    assert not FRAGMENTS.by_kind


def test_what_runs_beneath_transforms_gives_the_same() -> None:
    x = draw(3, 4)
    with CONTEXT.having(reference=True):
        want = ad.func.vmap(F.gelu)(x), *ad.func.jvp(F.gelu, (x,), (x,))
    for one, other in zip(
        (ad.func.vmap(F.gelu)(x), *ad.func.jvp(F.gelu, (x,), (x,))), want, strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)
    assert FRAGMENTS.by_kind


def test_dropout_draws_as_ever() -> None:
    x = ad.ones(64)
    ad.manual_seed(0)
    got = F.dropout(x, 0.5)
    ad.manual_seed(0)
    with CONTEXT.having(reference=True):
        want = F.dropout(x, 0.5)
    assert got.tolist() == want.tolist()


LAWS: dict[str, Callable[[tuple[int, ...]], ad.Tensor]] = {
    "rand": ad.rand,
    "rand float64": lambda shape: ad.rand(shape, dtype=ad.float64),
    "rand bfloat16": lambda shape: ad.rand(shape, dtype=ad.bfloat16),
    "randn": ad.randn,
    "randn float64": lambda shape: ad.randn(shape, dtype=ad.float64),
    "randn float16": lambda shape: ad.randn(shape, dtype=ad.float16),
    "randn complex": lambda shape: ad.randn(shape, dtype=ad.complex64),
    "randint": lambda shape: ad.randint(-3, 100, shape),
    "randint uint8": lambda shape: ad.randint(0, 256, shape, dtype=ad.uint8),
    "uniform_": lambda shape: ad.empty(shape).uniform_(-2.0, 3.0),
    "normal_": lambda shape: ad.empty(shape).normal_(1.0, 3.0),
    "bernoulli_": lambda shape: ad.empty(shape).bernoulli_(0.3),
    "bernoulli": lambda shape: ad.bernoulli(ad.full(shape, 0.25)),
    "exponential_": lambda shape: ad.empty(shape).exponential_(2.0),
    "cauchy_": lambda shape: ad.empty(shape).cauchy_(),
    "geometric_": lambda shape: ad.empty(shape).geometric_(0.5),
    "dropout": lambda shape: F.dropout(ad.ones(shape), 0.3),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_same_bits_as_ever(name: str) -> None:
    for seed, shape in ((0, (7,)), (2**64 - 1, (3, 5, 11)), (17, (1, 1024))):
        found = []
        for reference in (False, True):
            ad.manual_seed(seed)
            with CONTEXT.having(reference=reference):
                drawn = [LAWS[name](shape) for _ in range(2)]  # the second begins elsewhere
                found.append([x.numpy().tobytes() for x in (*drawn, ad.rand(2))])
        assert found[0] == found[1]


UNARY: list[Callable[[ad.Tensor], Any]] = [
    lambda x: x.exp(),
    lambda x: x * 2.5 + 1,
    lambda x: x.relu(),
    lambda x: ad.softmax(x, -1),
    lambda x: ad.log_softmax(x, 0),
    lambda x: x.sum(-1),
    lambda x: x.var(0, correction=0),
    lambda x: F.gelu(x),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: x.tanh() * x.sigmoid(),
    lambda x: F.mse_loss(x, x.detach() * 0.5),
    lambda x: x @ x.mT,
    lambda x: x.amax(-1),
    lambda x: F.linear(x, ad.ones(3, x.shape[-1], dtype=x.dtype)),
]
TOLERANCE = {ad.float64: 1e-10, ad.float32: 3e-5, ad.bfloat16: 6e-2, ad.float16: 8e-3}


def laid_out_anyhow(rng: np.random.Generator, dtype: ad.dtype) -> ad.Tensor:
    """A tensor of odd sizes in some layout: permuted, with gaps, repeated, of one element."""
    shape = [int(n) for n in rng.choice([1, 2, 3, 5, 7, 11, 13, 17], rng.integers(2, 5))]
    x = ad.tensor(rng.standard_normal([2 * n for n in shape])).to(dtype)
    kind = rng.integers(4)
    if kind == 0:
        x = x[tuple([slice(0, n) for n in shape])].contiguous()
    elif kind == 1:
        x = x[tuple([slice(None, None, 2)] * len(shape))]
    else:
        x = x[tuple([slice(0, n) for n in shape])]
    if kind == 2:
        x = x[:1].expand(shape)
    order = rng.permutation(len(shape)) if rng.integers(2) else np.arange(len(shape))
    return x.permute(*[int(d) for d in order])


def rounding_of_gradients(fn: Callable[[ad.Tensor], Any], x: ad.Tensor) -> float:
    """By how much gradients may differ that sum the same terms in another order.

    A gradient is a sum over outputs of weight times derivative. Where the weights' common part
    cancels, as in softmax, the result is small beside its terms, and these are what is rounded.
    With weights of random sign nothing cancels: the sum is as large as the terms' norm, which the
    largest weight, the number of outputs, scales up to that of `both`. Halves are computed in
    float32.
    """
    leaf = x.detach().double().requires_grad_()
    out = fn(leaf)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], tuple(out.shape))
    (out * ad.tensor(signs)).sum().backward()
    assert leaf.grad is not None
    terms = out.numel() * float(leaf.grad.abs().amax())
    unit = float(np.finfo(np.float64 if x.dtype is ad.float64 else np.float32).eps)
    return 8 * unit * terms


def check_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = [*TOLERANCE][int(rng.integers(len(TOLERANCE)))]
    x = laid_out_anyhow(rng, dtype)
    fn = UNARY[int(rng.integers(len(UNARY)))]
    got, want = both(fn, x)
    rounding = (0.0, rounding_of_gradients(fn, x))
    for mine, theirs, terms in zip(got, want, rounding, strict=True):
        assert mine.dtype is theirs.dtype
        several = [d for d, size in enumerate(mine.shape) if size > 1]
        assert [mine.stride(d) for d in several] == [theirs.stride(d) for d in several]
        a, b = mine.double().numpy(), theirs.double().numpy()
        finite = np.isfinite(b)  # halves overflow
        np.testing.assert_array_equal(a[~finite], b[~finite])
        a, b = a[finite], b[finite]
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * scale + terms)


# 328: softmax of large weights that cancel; 896: a product of matrices with permuted leading sizes.
@pytest.mark.parametrize("seed", [*range(24), 328, 896])
def test_operands_in_any_layout(seed: int) -> None:
    check_one(seed)


@pytest.mark.slow
def test_many_operands_in_any_layout() -> None:
    for seed in range(100, 900):
        check_one(seed)


def test_a_failed_compilation_is_told_once_and_the_table_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(task: Any) -> Any:
        raise NotImplementedError("no such target")

    monkeypatch.setattr(HOOKS, "compile_operation", fail)
    x = draw(3)
    with recorded_anew():
        with pytest.warns(UserWarning, match="exp.*could not be compiled.*no such target"):
            got = x.exp()
        np.testing.assert_allclose(got.numpy(), np.exp(x.numpy()), rtol=1e-6)
        x.exp()  # without a second warning


def test_an_interrupt_wrapped_by_what_it_hit_stays_one() -> None:
    """Python 3.11 raises a RuntimeError from one that comes as a class body ends."""

    def make() -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        fragments.fitting("exp", [], make)


def test_a_fragment_that_is_at_fault_is_not_passed_over() -> None:
    """As where `validate` finds a kernel to differ: the table must not hide it."""

    def differs(inputs: list[Any], targets: list[Any]) -> list[Any]:
        raise RuntimeError("the kernel differs")

    x = draw(3)
    x.exp()
    for kind, fragment in FRAGMENTS.by_kind.items():
        assert fragment is not None
        FRAGMENTS.by_kind[kind] = faulty = copy(fragment)
        faulty.executable = differs
    FRAGMENTS.quick = dict.fromkeys(FRAGMENTS.quick, *FRAGMENTS.by_kind.values())
    with pytest.raises(RuntimeError, match="the kernel differs"):
        x.exp()


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "KEPT", 3)
    for n in range(1, 8):
        ad.ones(n).exp()
    assert len(FRAGMENTS.by_kind) <= 3


def test_shapes_of_one_operation_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "SHAPES", 3)
    for _ in range(2):
        for n in range(1, 8):
            assert ad.zeros(n).exp().tolist() == [1.0] * n
    assert len(FRAGMENTS.by_kind) == 3
    assert len(FRAGMENTS.beyond) == 4  # which are known not to have one


def test_threads() -> None:
    inputs = [draw(8, n) for n in range(2, 10)]
    want = [ad.softmax(x, -1).tolist() for x in inputs]
    FRAGMENTS.forget()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            assert list(pool.map(lambda x: ad.softmax(x, -1).tolist(), inputs)) == want


@pytest.mark.parametrize(
    ("setting", "fragments"), [("", "False True"), ("0", "False False"), ("1", "True True")]
)
def test_the_environment_says_what_is_large(setting: str, fragments: str) -> None:
    program = (
        "import adjoint as ad\n"
        "from adjoint.engine.graph.eager.fragments import FRAGMENTS\n"
        "ad.ones(8).exp(); small = bool(FRAGMENTS.by_kind)\n"
        "ad.ones(200, 100).exp(); print(small, bool(FRAGMENTS.by_kind))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ADJOINT_FRAGMENTS": setting},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == fragments


def test_floats_that_change_are_given_to_one_fragment() -> None:
    """An optimizer's corrections differ at each step; sums of weights depend on all of them."""
    x, y = draw(5), draw(5)
    for value in (0.5, -0.0, 1e-3, 7.25):
        np.testing.assert_allclose((x * value).numpy(), x.numpy() * np.float32(value), rtol=1e-6)
        want = x.numpy() + np.float32(value) * y.numpy()
        np.testing.assert_allclose(ad.add(x, y, alpha=value).numpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            ad.lerp(x, y, value).numpy(), (x + value * (y - x)).numpy(), rtol=1e-5, atol=1e-6
        )
    before = len(FRAGMENTS.by_kind)
    assert (x * 3.5).dtype is ad.float32
    assert (ad.tensor([2, 3]) * 0.5).tolist() == [1.0, 1.5]
    assert len(FRAGMENTS.by_kind) == before + 1, "integers are another kind, other floats are not"


def test_operands_are_let_go_of() -> None:
    gc.collect()
    gc.disable()
    try:
        x = ad.zeros(300_007)
        y = x + 1
        held = weakref.ref(x)
        del x, y
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(512, 1024), (1 << 19,), (2, 512, 512)])
def test_long_sums_of_halves_are_rounded_once(shape: tuple[int, ...], dtype: str) -> None:
    """Parts of a sum are kept in float32: here they are a hundred times the sum."""
    rng = np.random.default_rng(3)
    count = int(np.prod(shape))
    half = rng.standard_normal(count // 2).astype(np.float32)
    numbers = rng.permutation(np.concatenate([half, -half])).reshape(shape)
    x = ad.tensor(numbers).to(getattr(ad, dtype)) + 2.0**-17
    exact = float(np.asarray(x.double()).sum())
    for total in (x.sum(), ad.compile(lambda y: y.sum())(x)):
        assert float(total) == pytest.approx(exact, rel=2**-7, abs=0.02)


MOVES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "flip": (lambda x, i: x.flip(-1), lambda a, i: a[:, ::-1]),
    "flip of a slice": (lambda x, i: x[:, 1::2].flip(0, 1), lambda a, i: a[::-1, 1::2][:, ::-1]),
    "roll": (lambda x, i: x.roll(3, -1), lambda a, i: np.roll(a, 3, -1)),
    "gather": (lambda x, i: x.gather(1, i), lambda a, i: np.take_along_axis(a, i, 1)),
    "rows": (lambda x, i: x[i[:, 0]], lambda a, i: a[i[:, 0]]),
    "cat": (lambda x, i: ad.cat([x, x], -1), lambda a, i: np.concatenate([a, a], -1)),
    "stack": (lambda x, i: ad.stack([x, x], -1), lambda a, i: np.stack([a, a], -1)),
    "transposed": (lambda x, i: x.t().contiguous(), lambda a, i: a.T),
    "triu": (lambda x, i: x.triu(), lambda a, i: np.triu(a)),
    "tril": (lambda x, i: x.tril(2), lambda a, i: np.tril(a, 2)),
}


@pytest.mark.parametrize("name", MOVES)
def test_complex_numbers_that_are_moved_keep_every_bit(name: str) -> None:
    """They go as eight bytes, whatever number those would be."""
    move, reference = MOVES[name]
    rng = np.random.default_rng(len(name))
    bits = rng.integers(0, 2**64, (128, 128), dtype=np.uint64)
    bits[0, :5] = [0, 1 << 63, 0x7FF0000000000001, 0xFFF8000000000123, 1]
    i = rng.integers(0, 128, (128, 128))
    want = np.ascontiguousarray(reference(bits, i))
    x, index = ad.from_numpy(bits.view(np.complex64)), ad.from_numpy(i)
    for _ in range(5):
        out = move(x, index)
        assert out.dtype is ad.complex64
        np.testing.assert_array_equal(np.ascontiguousarray(out.numpy()).view(np.uint64), want)
    joined = ad.cat([x, ad.ones(1, 128)])  # which are converted
    assert joined.dtype is ad.complex64
    assert (joined[-1] == 1).all()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("seed", range(3))
def test_complex_numbers_are_computed_part_by_part(dtype: Any, seed: int) -> None:
    """Of any layout, with infinities, NaN and zeros of either sign among them."""
    rng = np.random.default_rng(seed)
    a = (rng.normal(size=(66, 50)) + 1j * rng.normal(size=(66, 50))).astype(dtype)
    a.real[0, :4], a.imag[1, :4] = [np.inf, -0.0, 0.0, np.nan], [np.nan, -0.0, -np.inf, 0.0]
    a = [a, a.T, a[::2, ::-1]][seed]
    for _ in range(5):
        x = ad.from_numpy(a) if seed < 2 else ad.tensor(a)
        np.testing.assert_array_equal((-x).numpy(), -a)
        assert np.array_equal(np.signbit((-x).numpy().real), np.signbit((-a).real))
        with np.errstate(all="ignore"):
            products = [(number, a * dtype(number)) for number in (2j, 0.5 - 1j)]
            sums = [np.cumsum(a, dim, np.complex128).astype(dtype) for dim in (0, 1)]
        for number, product in products:
            np.testing.assert_array_equal((x * number).numpy(), product)
        made = ad.complex(x.imag, x.real).numpy()
        np.testing.assert_array_equal(made.real, a.imag)
        np.testing.assert_array_equal(made.imag, a.real)
        for dim, want in enumerate(sums):
            np.testing.assert_allclose(x.cumsum(dim).numpy(), want, rtol=1e-6)
