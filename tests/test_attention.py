"""Attention and cross entropy keep little for backward, and long attention goes by blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.fragments import FRAGMENTS, name_of
from adjoint.engine.ops.nn import attention_rows
from adjoint.engine.ops.nn.attention import ATTENTION
from adjoint.engine.ops.random.placed import place_tensor
from adjoint.func import grad, jacfwd, jvp, vmap
from adjoint.graph import capture
from adjoint.nn import functional as F

LENGTH, KEYS, BLOCK = 11, 9, 4  # two blocks and three rows more
sdpa = F.scaled_dot_product_attention
rng = np.random.default_rng(5)


def tensor(*shape: int) -> Any:
    return ad.tensor(rng.normal(size=shape))


def operands() -> list[Any]:
    return [tensor(2, 4, LENGTH, 3), tensor(2, 4, KEYS, 3), tensor(2, 4, KEYS, 2)]


BOOLS = rng.random((LENGTH, KEYS)) > 0.3
BOOLS[1] = False  # a query that sees nothing
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...] | None]] = {
    "plain": ({}, None),
    "causal": ({"is_causal": True}, None),
    "scaled": ({"scale": 0.3}, None),
    "booleans": ({"attn_mask": ad.tensor(BOOLS)}, None),
    "biases": ({}, (2, 1, LENGTH, KEYS)),
    "a bias for each key": ({}, (KEYS,)),
    "a bias for each head": ({}, (4, 1, KEYS)),
    "more values": ({}, None),
    "shared heads": ({"enable_gqa": True}, None),
    "shared heads and biases": ({"enable_gqa": True}, (4, LENGTH, KEYS)),
}


def case(name: str) -> tuple[Callable[..., Any], list[Any]]:
    """A function of tensors, and the tensors: query, key, value and perhaps a mask."""
    options, shape = CASES[name]
    xs = operands()
    if "enable_gqa" in options:
        xs[1:] = [x[:, :2].clone() for x in xs[1:]]
    if name == "more values":  # than queries and keys
        xs[:2] = [x[0] for x in xs[:2]]
    if shape is not None:
        return lambda q, k, v, mask: sdpa(q, k, v, mask, **options), [*xs, tensor(*shape)]
    return lambda q, k, v: sdpa(q, k, v, **options), xs


def reference(name: str, xs: list[Any]) -> Any:
    """Attention as its formula says."""
    options, _ = CASES[name]
    q, k, v, *mask = xs
    if "enable_gqa" in options:
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    scores = (q @ k.mT) * options.get("scale", 3**-0.5)
    if "is_causal" in options:
        mask = [ad.ones(LENGTH, KEYS, dtype=ad.bool).tril()]
    mask = mask or [options[n] for n in ("attn_mask",) if n in options]
    if not mask:
        return scores.softmax(-1) @ v
    if mask[0].dtype is not ad.bool:
        return (scores + mask[0]).softmax(-1) @ v
    weights = scores.masked_fill(~mask[0], -1e9).softmax(-1)
    return weights.where(mask[0], 0.0) @ v


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings go by small blocks."""
    monkeypatch.setattr(attention_rows, "ROWS", BLOCK)
    monkeypatch.setattr(attention_rows, "LONG", 1)


def total(fn: Callable[..., Any], *xs: Any) -> Any:
    out = fn(*xs)
    return (out * ad.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()


def slopes(fn: Callable[..., Any], xs: list[Any]) -> Any:
    return grad(lambda *xs: total(fn, *xs), tuple(range(len(xs))))(*xs)


def curvature(fn: Callable[..., Any], xs: list[Any]) -> Any:
    def steepness(*xs: Any) -> Any:
        return sum((g * g).sum() for g in slopes(fn, list(xs)))

    return grad(steepness, tuple(range(len(xs))))(*xs)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str, blocks: None) -> None:
    fn, xs = case(name)

    def plain(*xs: Any) -> Any:
        return reference(name, list(xs))

    close(fn(*xs), plain(*xs))
    close(capture(fn)(*xs), plain(*xs))
    for derivative in (slopes, curvature):
        want = derivative(plain, xs)
        close(derivative(fn, xs), want)
        close(capture(lambda *xs, d=derivative: d(fn, list(xs)))(*xs), want)
    tangents = [tensor(*x.shape) for x in xs]
    want = jvp(plain, tuple(xs), tuple(tangents))[1]
    close(jvp(fn, tuple(xs), tuple(tangents))[1], want)
    close(capture(lambda *xs: jvp(fn, xs, tuple(tangents))[1])(*xs), want)


def close(got: Any, want: Any) -> None:
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        ad.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_recording_by_blocks_has_a_loop(blocks: None) -> None:
    recorded = capture(lambda q, k, v: sdpa(q, k, v).sum())
    recorded(*operands())
    assert "scan" in str(recorded.latest.graph.nodes[0].subgraph)


def test_vmap_of_derivatives() -> None:
    fn, xs = case("causal")

    def each(q: Any, k: Any, v: Any) -> Any:
        return slopes(fn, [q, k, v])

    stacks = [ad.stack([x, 2 * x, -x]) for x in xs]
    want = [
        ad.stack(column)
        for column in zip(*(each(*row) for row in zip(*stacks, strict=True)), strict=True)
    ]
    close(vmap(each)(*stacks), tuple(want))
    close(
        vmap(each, in_dims=(0, None, None))(stacks[0], *xs[1:])[1][1], each(2 * xs[0], *xs[1:])[1]
    )


def dropped(p: float) -> Callable[..., Any]:
    def fn(q: Any, k: Any) -> Any:
        eye = ad.eye(KEYS, dtype=q.dtype).expand(*k.shape[:-1], KEYS)
        return sdpa(q, k, eye, dropout_p=p)  # the weights themselves

    return fn


@pytest.mark.parametrize("p", [0.25, 0.6, 1.0])
def test_dropout_is_the_same_backward_and_by_blocks(p: float, blocks: None) -> None:
    q, k, _ = operands()
    q.requires_grad_()
    ad.manual_seed(3)
    out = dropped(p)(q, k)
    full = sdpa(q, k, ad.eye(KEYS, dtype=q.dtype).expand(2, 4, KEYS, KEYS))
    kept = (out != 0).to(q.dtype)
    close(out, full * kept / (1 - p) if p < 1 else full * 0)
    if p < 1:
        assert abs(kept.mean().item() - (1 - p)) < 0.1
        close(
            ad.autograd.grad(total(lambda: out), q)[0],
            ad.autograd.grad(total(lambda: full * kept / (1 - p)), q)[0],
        )

    def step(q: Any, k: Any) -> Any:
        out = dropped(p)(q, k)
        return out, ad.autograd.grad(total(lambda: out), q)[0]

    ad.manual_seed(3)
    want, after = step(q, k), ad.rand(2)
    recorded = capture(step)
    for _ in range(2):
        ad.manual_seed(3)
        close(recorded(q, k), want)
        assert ad.rand(2).equal(after)
    assert p == 1 or not recorded(q, k)[0].equal(want[0])


@pytest.mark.parametrize("keys", [8, 9])
def test_a_draw_whose_place_is_a_tensor_is_the_same_draw(keys: int) -> None:
    """As on a GPU: the words of the stream by operations on integers."""
    q, k, v = tensor(2, 1, LENGTH, 3), tensor(2, 4, keys, 3), tensor(2, 4, keys, 2)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    how = {"scale": 0.5, "causal": True, "safe": False, "masked": False, "dropout": 0.3}
    results = []
    for placed in (False, True):
        place = [(1 << 63) + 5, (1 << 64) - 3]
        more = [place_tensor(*place, q.device)] if placed else place
        out = ATTENTION(*leaves, *more, **how, drawn=False, placed=placed)[0]
        results.append([out, *ad.autograd.grad((out * out).sum(), leaves)])
    ad.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_a_row_of_weights_is_drawn_from_the_beginning_of_a_block() -> None:
    """So what is drawn for a key hangs on how many blocks a row takes, not on how many keys."""
    q, k, _ = operands()
    more = ad.cat([k, k[..., :3, :]], -2)
    kept = []
    for keys in (more[..., :9, :], more[..., :12, :], more[..., :8, :]):
        eye = ad.eye(keys.shape[-2], dtype=q.dtype).expand(*keys.shape[:-1], keys.shape[-2])
        ad.manual_seed(5)
        kept.append(sdpa(q, keys, eye, dropout_p=0.4) != 0)
    nine, twelve, eight = kept
    assert ad.equal(nine, twelve[..., :9])
    assert not ad.equal(eight, nine[..., :8])


def test_draws_at_other_places_are_the_same_program() -> None:
    """Where a draw begins is given to a program, not a part of it."""
    x = ad.randn(2, 2, 32, 16, requires_grad=True)  # large enough for a fragment
    known = []
    for _ in range(4):
        sdpa(x, x, x, dropout_p=0.2).sum().backward()
        known.append(sum("attention" in name_of(kind[0]) for kind in FRAGMENTS.by_kind))
    assert known[0] == known[-1] > 0, known


def test_dropout_of_each_element_of_a_batch() -> None:
    q, k, v = operands()
    xs = ad.stack([q, q])
    out = vmap(lambda q: sdpa(q, k, v, dropout_p=0.5), randomness="different")(xs)
    assert not out[0].equal(out[1])
    out = vmap(lambda q: sdpa(q, k, v, dropout_p=0.5), randomness="same")(xs)
    assert out[0].equal(out[1])
    found = vmap(grad(lambda q: sdpa(q, k, v, dropout_p=0.5).sum()), randomness="different")(xs)
    assert found.shape == xs.shape
    assert not found[0].equal(found[1])


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_halves_are_computed_in_float32(dtype: Any) -> None:
    xs = [x.to(dtype) for x in operands()]
    narrow = slopes(sdpa, xs)
    wide = slopes(sdpa, [x.float() for x in xs])
    eps = ad.finfo(dtype).eps
    for a, b in zip(narrow, wide, strict=True):
        assert a.dtype is dtype
        ad.testing.assert_close(a.float(), b, rtol=2 * eps, atol=2 * eps)


def saved(fn: Callable[[], Any]) -> list[int]:
    """The numbers of elements of what an expression saves for backward."""
    found: dict[int, Any] = {}

    def pack(x: Any) -> Any:
        found[x._storage.identity] = x
        return x

    with ad.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    return sorted(x.numel() for x in found.values())


def test_attention_saves_nothing_quadratic() -> None:
    q, k, v = (ad.randn(1, 2, 64, 4, requires_grad=True) for _ in range(3))
    kept = [2 * 64] + 4 * [2 * 64 * 4]
    assert saved(lambda: sdpa(q, k, v, is_causal=True)) == kept
    assert saved(lambda: sdpa(q, k, v, dropout_p=0.5)) == kept


def test_cross_entropy_saves_rows() -> None:
    x, y = ad.randn(8, 50, requires_grad=True), ad.arange(8)
    assert saved(lambda: F.cross_entropy(x, y)) == [8, 8, 8, 400]


def test_a_solve_saves_its_result_for_the_matrix_alone() -> None:
    matrix, right = ad.eye(3) * 2, ad.ones(3, 1)
    assert saved(lambda: ad.linalg.solve(matrix, right.clone().requires_grad_())) == [9]
    assert saved(lambda: ad.linalg.solve(matrix.clone().requires_grad_(), right)) == [3, 9]


def test_shared_work_is_done_once() -> None:
    def step(a: Any, b: Any) -> Any:
        return ad.autograd.grad(ad.linalg.solve(a, b).sum(), (a, b))

    a, b = (ad.eye(3) * 2).requires_grad_(), ad.ones(3, 1, requires_grad=True)
    recorded = capture(step)
    recorded(a, b)
    assert [n.record.name for n in recorded.latest.graph.nodes].count("solve") == 2


def arena(length: int, backward: bool) -> int:
    xs = [ad.randn(1, 4, length, 8, requires_grad=backward) for _ in range(3)]

    def step(*xs: Any) -> Any:
        out = sdpa(*xs, is_causal=True)
        return ad.autograd.grad(out.sum(), xs) if backward else out

    compiled = ad.compile(step)
    got = compiled(*xs)
    for a, b in zip(*(x if backward else (x,) for x in (got, step(*xs))), strict=True):
        ad.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    size: int = compiled.latest.executable.image.arena
    return size


@pytest.mark.parametrize("backward", [False, True])
def test_memory_of_compiled_attention_grows_linearly(backward: bool) -> None:
    short, long = arena(1024, backward), arena(2048, backward)
    assert 1.8 * short < long < 2.2 * short
    assert long < 2048 * 2048 * 4  # one head's scores


@pytest.mark.slow
def test_memory_of_compiled_attention_over_eight_times_the_length() -> None:
    sizes = [arena(length, backward=True) for length in (512, 1024, 2048, 4096)]
    assert sizes[3] < 4.4 * sizes[1]
    assert sizes[3] < 8.8 * sizes[0]


@pytest.mark.parametrize("shapes", [
    ((2, 3, 96, 8), (2, 3, 96, 8), (2, 3, 96, 5)),
    ((3, 131, 4), (3, 131, 4), (3, 131, 4)),  # the last part is shorter
    ((2, 4, 100, 4), (4, 100, 4), (2, 1, 100, 6)),  # keys and values of fewer dimensions
])  # fmt: skip
def test_causal_parts_meet_the_keys_they_see(shapes: Any) -> None:
    """Recorded by parts, beside the formula on all keys."""
    xs = [tensor(*shape) for shape in shapes]

    def gradients(fn: Callable[..., Any]) -> list[Any]:
        leaves = [x.clone().requires_grad_() for x in xs]
        out = fn(*leaves)
        out.sin().sum().backward()
        return [out.detach(), *[x.grad for x in leaves]]

    def formula(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        n = scores.shape[-1]
        return scores.masked_fill(ad.ones(n, n, dtype=ad.bool).triu(1), -ad.inf).softmax(-1) @ v

    def causal(q: Any, k: Any, v: Any) -> Any:
        return sdpa(q, k, v, is_causal=True)

    compiled = ad.compile(causal)
    compiled(*xs)
    assert compiled.explain().count("matmul") >= 2 * attention_rows.PARTS
    for fn in (compiled, capture(causal)):
        for got, want in zip(gradients(fn), gradients(formula), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-11)


def test_no_keys_give_zeros() -> None:
    q, k, v = ad.randn(2, 3, 4, requires_grad=True), ad.randn(2, 0, 4), ad.randn(2, 0, 5)
    out = sdpa(q, k, v)
    assert out.equal(ad.zeros(2, 3, 5))
    assert ad.autograd.grad(out.sum(), q)[0].equal(ad.zeros(2, 3, 4))


def test_forward_over_reverse_of_cross_entropy() -> None:
    x, y = tensor(4, 5), ad.tensor([0, 4, 2, 1])

    def loss(x: Any) -> Any:
        return F.cross_entropy(x, y, label_smoothing=0.1)

    def plain(x: Any) -> Any:
        log_p = x - x.logsumexp(1, keepdim=True)
        return -(0.9 * log_p.gather(1, y.unsqueeze(1)).mean() + 0.1 * log_p.mean())

    close(loss(x), plain(x))
    close(jacfwd(grad(loss))(x), jacfwd(grad(plain))(x))
    close(
        grad(lambda x: (grad(loss)(x) ** 2).sum())(x),
        grad(lambda x: (grad(plain)(x) ** 2).sum())(x),
    )


BATCHES = [((2, 2), (2, 2), (2, 2)), ((2,), (3, 1), (3, 2)), ((3, 2), (), (1,))]


@pytest.mark.parametrize("broken", ["query", "key", "value", "cotangent"])
@pytest.mark.parametrize("batches", BATCHES)
def test_what_is_not_finite_reaches_the_same_rows_by_parts(
    broken: str, batches: tuple[tuple[int, ...], ...]
) -> None:
    length = attention_rows.PARTS * attention_rows.PART + 1
    sizes = [(*b, length, n) for b, n in zip(batches, (3, 3, 2), strict=True)]
    names = ("query", "key", "value")
    arrays = {name: rng.normal(size=size) for name, size in zip(names, sizes, strict=True)}
    whole = np.broadcast_shapes(*batches)
    arrays["cotangent"] = rng.normal(size=(*whole, length, 2))
    for place, number in ((length - 1, np.nan), (length // 2, np.inf), (0, np.nan)):
        given = {name: a.copy() for name, a in arrays.items()}
        given[broken][..., place, 1] = number
        cotangent = ad.tensor(given.pop("cotangent"))
        leaves = [ad.tensor(a, requires_grad=True) for a in given.values()]

        def step(*xs: Any, g: Any = cotangent) -> Any:
            out = sdpa(*xs, is_causal=True)
            return (out.detach(), *ad.autograd.grad(out, xs, g))

        with CONTEXT.having(reference=True):
            want = step(*leaves)
        for got, wanted in zip(ad.compile(step)(*leaves), want, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


def _heads(order: tuple[int, ...], **options: Any) -> ad.Tensor:
    """(2, 3, 5, 4), made in memory in another order of dimensions."""
    shape = (2, 3, 5, 4)
    made = ad.randn(*[shape[d] for d in order], **options)
    return made.permute([order.index(d) for d in range(4)])


@pytest.mark.parametrize(
    ("order", "options", "wanted"),
    [
        ((0, 1, 2, 3), {}, (60, 20, 4, 1)),
        ((0, 2, 1, 3), {}, (60, 4, 12, 1)),
        ((0, 2, 1, 3), {"is_causal": True}, (60, 4, 12, 1)),
        ((0, 2, 1, 3), {"attn_mask": ad.ones(5, 5, dtype=ad.bool)}, (60, 4, 12, 1)),
        ((0, 2, 1, 3), {"dropout_p": 0.5}, (60, 20, 4, 1)),
        ((2, 0, 1, 3), {}, (12, 4, 24, 1)),
        ((0, 1, 3, 2), {}, (60, 20, 4, 1)),
    ],
)
def test_results_lie_as_transposed_queries_do(
    order: tuple[int, ...], options: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    """So `out.transpose(1, 2).view(...)` works where PyTorch's does; with the same values."""
    q, k, v = (_heads(order).detach().requires_grad_() for _ in range(3))

    def attended(q: ad.Tensor, k: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **options)

    for fn in (attended, ad.compile(attended)):
        out = fn(q, k, v)
        assert out.stride() == wanted
        if order == (0, 2, 1, 3) and "dropout_p" not in options:
            assert out.transpose(1, 2).view(2, 5, 12).shape == (2, 5, 12)
            plain = attended(q.contiguous(), k.contiguous(), v.contiguous())
            assert ad.allclose(out, plain, atol=1e-6)
            out.sin().sum().backward()
            got, q.grad = q.grad, None
            plain.sin().sum().backward()
            assert ad.allclose(got, q.grad, atol=1e-6)
            q.grad = None


@pytest.mark.parametrize("length", [5, 70])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_lie_as_transposed_operands_do(length: int, causal: bool) -> None:
    """So that `transpose` and `reshape` before attention hand them on without copies."""

    def loss(x: ad.Tensor) -> tuple[ad.Tensor, list[ad.Tensor]]:
        parts = [t.view(2, length, 4, 24).transpose(1, 2) for t in x.chunk(3, -1)]
        out = F.scaled_dot_product_attention(*parts, is_causal=causal, scale=-0.3)
        return out.sin().sum(), parts

    x = ad.randn(2, length, 3 * 96, generator=ad.Generator().manual_seed(3), requires_grad=True)
    total, parts = loss(x)
    got = ad.autograd.grad(total, (x, *parts))
    for g in got[1:]:
        assert g.stride() == (length * 96, 24, 96, 1)
    wide = x.detach().double().requires_grad_()
    assert ad.allclose(got[0].double(), ad.autograd.grad(loss(wide)[0], wide)[0], atol=2e-5)
    compiled = ad.compile(lambda x: ad.autograd.grad(loss(x)[0], x)[0])
    assert ad.allclose(compiled(x), got[0], atol=2e-5)


def test_layout_of_attention_pins_no_length() -> None:
    """One program serves several lengths, with transposed queries cut from one product."""

    def block(x: ad.Tensor) -> ad.Tensor:
        q, k, v = (t.view(2, -1, 4, 8).transpose(1, 2) for t in x.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view(2, -1, 32)

    compiled = ad.compile(block, dynamic=True)
    for length in (6, 9, 13):
        x = ad.randn(2, length, 96)
        assert ad.allclose(compiled(x), block(x), atol=1e-6)
    assert compiled.traces == 2  # at fixed sizes, and for all
