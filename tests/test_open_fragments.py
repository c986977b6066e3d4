"""Eager operations on the CPU that meet ever new sizes (Note [open kinds], Note [sized plans]).

Programs filled in for a size give the bits, and lay results out, as one planned for it alone does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.llvm.program import sized, sized_plan
from adjoint.engine.backends.llvm.program.sized import SizedPlans
from adjoint.engine.core.operations import small_calls as names
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import sightings, small_calls
from adjoint.engine.graph.eager.fragments import FRAGMENTS, name_of
from adjoint.engine.graph.eager.many_sizes import open_kinds

Found = list[tuple[Any, tuple[int, ...]]]
NEVER = 1 << 30


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


def heads(x: Any) -> Any:
    return x.reshape(2, -1, 2, 3).transpose(1, 2)


def long(x: Any) -> Any:
    """Many rows: sums down and along them come in blocks (Note [blocks])."""
    return ad.cat([x] * 8, 1).reshape(-1, 6)


def image(x: Any, n: int) -> Any:
    return x.reshape(2, n, 6, 1).permute(0, 2, 1, 3).expand(2, 6, n, 5)


def wide(x: Any) -> Any:
    """Rows that are multiplied in tall tiles and by blocks of their depth, to which one is added."""
    weight = drawn(768, 256)
    return F.linear(ad.cat([x] * 43, 2)[..., :256], weight, weight[:, 0])


# What is done with sequences x (2, n, 6), a square weight of 6 and a vector of 6.
ALONG: dict[str, Callable[[Any, Any, Any, int], list[Any]]] = {
    "linear": lambda x, w, b, n: [F.gelu(F.linear(x, w, b)), x.reshape(-1, 6) @ w],
    "wide": lambda x, w, b, n: [wide(x), wide(x[:1])],
    "norms": lambda x, w, b, n: [
        F.layer_norm(x, (6,), b, b), F.batch_norm(x.transpose(1, 2), None, None, b, b, True),
        F.group_norm(x.transpose(1, 2).contiguous(), 3, b, b),
    ],
    "softmax": lambda x, w, b, n: [x.softmax(1), x.transpose(1, 2).contiguous().log_softmax(-1)],
    "attention": lambda x, w, b, n: [
        F.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
        (heads(x) @ heads(x).transpose(2, 3)).softmax(-1) @ heads(x),
    ],
    "sums": lambda x, w, b, n: [x.mean(1) + x.var(1) * x.mean(), x.transpose(1, 2).amax(-1)],
    "long sums": lambda x, w, b, n: [
        long(x).amax(0), (long(x) * b).exp().mean(0), F.linear(long(x), w, b),
        (long(x) * long(x)).reshape(-1).sum(), x.max(1).values, long(x) / (1 + long(x)[:, :1] ** 2),
    ],
    "windows": lambda x, w, b, n: [
        F.max_pool1d(x.transpose(1, 2), 3, 2), F.conv1d(x.transpose(1, 2), w.unsqueeze(2), b),
        F.conv2d(image(x, n), w.reshape(4, 1, 3, 3).expand(4, 6, 3, 3), padding=1),
        F.interpolate(image(x, n), scale_factor=2, mode="bilinear"),
        F.conv2d(image(x, n).transpose(2, 3), w.reshape(6, 1, 3, 2), groups=6),
    ],
    "joins": lambda x, w, b, n: [
        ad.cat([x, x * b], 1).transpose(0, 1).contiguous(), x[:, ad.arange(n - 1)],
        F.cross_entropy(x.reshape(-1, 6), ad.arange(2 * n) % 6), F.pad(x, (1, 2, 0, 3)),
        ad.zeros(7, 6).index_add(0, ad.arange(2 * n) % 7, x.reshape(-1, 6)),
    ],
}  # fmt: skip


def over(name: str, n: int) -> Found:
    """Results of operations on sequences of a length and their gradients: bytes and strides."""
    rng = np.random.default_rng(n)
    x, w, b = (
        ad.tensor(rng.standard_normal(shape).astype(np.float32)).requires_grad_()
        for shape in ((2, n, 6), (6, 6), (6,))
    )
    results = ALONG[name](x, w, b, n)
    total = sum([(r * r).sum() for r in results]) + (x.sum() + w.sum()) * b.sum()
    found = [*results, *ad.autograd.grad(total, (x, w, b))]
    return [(np.array(r.detach()), tuple(r.stride())) for r in found]


def as_met(name: str, lengths: Sequence[int], met: int) -> list[Found]:
    with pytest.MonkeyPatch.context() as patch:
        FRAGMENTS.forget()
        patch.setattr(open_kinds, "OFTEN_MET", met)
        return [over(name, n) for n in lengths]


@pytest.mark.parametrize("name", ALONG)
def test_many_sizes_are_as_each_by_itself(name: str) -> None:
    drawn = np.random.default_rng(len(name)).integers(16, 90, 3)
    lengths = [*map(int, drawn), 3, 64, 150, 17]
    got = as_met(name, lengths, 3)
    families = FRAGMENTS.open.families.values()
    assert any(r.plans for f in families for r in f.recordings), "nothing was for many sizes"
    want = as_met(name, lengths, NEVER)
    with CONTEXT.having(reference=True):
        table = [over(name, n) for n in lengths]
    for n, mine, theirs, plain in zip(lengths, got, want, table, strict=True):
        for k, ((a, lies), (b, lay), (c, _)) in enumerate(zip(mine, theirs, plain, strict=True)):
            assert lies == lay, (n, k)
            assert a.tobytes() == b.tobytes(), (n, k, np.abs(a - b).max())
            np.testing.assert_allclose(a, c, 2e-4, 2e-4 * np.abs(c).max(), True, f"{n} {k}")


def test_parts_of_causal_attention_are_as_each_length_by_itself() -> None:
    """They meet only the keys up to their last, from 96 queries on: one recording is for all."""
    lengths = [*map(int, np.random.default_rng(3).integers(97, 300, 6)), 96, 193, 101]
    got = as_met("attention", lengths, 3)
    families = [
        f for key, f in FRAGMENTS.open.families.items()
        if name_of(key) == "scaled_dot_product_attention"
    ]  # fmt: skip
    assert any(
        isinstance(shared, SizedPlans) and shared.plans
        for f in families for r in f.recordings for shared in r.plans.values()
    ), "no plan was for many lengths"  # fmt: skip
    want = as_met("attention", lengths, NEVER)
    for n, mine, theirs in zip(lengths, got, want, strict=True):
        for k, ((a, lies), (b, lay)) in enumerate(zip(mine, theirs, strict=True)):
            assert lies == lay, (n, k)
            assert a.tobytes() == b.tobytes(), (n, k)


def test_families_of_narrow_plans_are_planned_size_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan with extents takes as long as some without: they are made as far as they pay."""
    monkeypatch.setattr(open_kinds, "OFTEN_MET", 3)
    made: list[Any] = []
    plain = sized.sized_plan

    def noted(*given: Any) -> Any:
        made.append(given[2])
        return plain(*given)

    monkeypatch.setattr(sized, "sized_plan", noted)
    monkeypatch.setattr(sized_plan, "near", lambda sizes, reference: sizes == reference)
    weight = drawn(6, 6)
    for n in range(101, 161):
        F.linear(drawn(n, 6), weight)
    cost = sized.WITH_EXTENTS + 1
    assert 2 <= len(made) <= (sized.AT_FIRST + 60) // cost, "every size had a plan for many"


def drawn(*shape: int) -> Any:
    return ad.from_numpy(np.random.default_rng(7).standard_normal(shape).astype(np.float32))


def made(*shape: int) -> Any:
    """What was computed: leaves with gradients are parameters, whose sizes stay."""
    return drawn(*shape).requires_grad_() * 2


def attended(n: int) -> Any:
    q = made(2, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
    mask = ad.from_numpy(np.arange(n) < n - 3).expand(2, 1, 1, n)
    return F.scaled_dot_product_attention(*q, attn_mask=mask)


WEIGHT = drawn(6, 6).requires_grad_()
WIDE, BIAS = drawn(768, 256).requires_grad_(), drawn(768).requires_grad_()
# What is done at a size, and the sizes it is done at: other ones than came before.
FILLED: dict[str, tuple[Callable[[int], Any], Sequence[int]]] = {
    "linear": (lambda n: F.linear(made(n, 6), WEIGHT), range(121, 139)),
    "bias": (lambda n: F.linear(drawn(1, n, 256), WIDE, BIAS).detach(), range(17, 24)),
    "bias, by turns": (lambda n: F.linear(drawn(1, n, 256), WIDE, BIAS).detach(), range(51, 69, 2)),
    "column sums": (lambda n: F.linear(drawn(n, 6), WEIGHT, WEIGHT[0]), range(571, 589)),
    "long sums": (lambda n: made(n).sum(), range(9000, 9400, 37)),
    "batch norm": (
        lambda n: F.batch_norm(
            made(2, 6, n, 32), None, None, WEIGHT[0], WEIGHT[1], True
        ),
        range(36, 64, 2),
    ),
    "depthwise": (
        lambda n: F.conv2d(made(2, 6, 5, n), drawn(6, 1, 3, 2), groups=6), range(21, 39)
    ),
    "padding": (lambda n: F.pad(made(2, n, 3), (1, 2, 3, 0)), range(21, 39)),
    "attention": (attended, range(301, 335, 3)),
    "draws": (lambda n: ad.rand(n, 6), range(121, 139)),
    "largest": (lambda n: drawn(n, 33).max(1).values, range(121, 139)),
    "by a column": (
        lambda n: made(n, 6) / drawn(n)[:, None], range(121, 139)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLED)
def test_new_sizes_are_filled_in_rather_than_planned(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_kinds, "OFTEN_MET", 3)
    work, sizes = FILLED[name]
    planned: list[str] = []
    plain = FRAGMENTS.make

    def noted(key: Any, tensors: Any, *rest: Any) -> Any:
        fragment = plain(key, tensors, *rest)
        if fragment is not None and not (len(tensors) == 1 and open_kinds.is_parameter(tensors[0])):
            planned.append(name_of(key))
        return fragment

    def run(n: int) -> Any:
        out = work(n)
        if out.requires_grad:
            (out * out).sum().backward()
        return out

    for n in (*sizes[::2], *sizes[1::2]):
        run(n)
    monkeypatch.setattr(FRAGMENTS, "make", noted)
    for n in sizes[:5]:
        run(n + 200)
    assert not planned


def test_draws_at_many_sizes_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(met: int) -> list[bytes]:
        FRAGMENTS.forget()
        monkeypatch.setattr(open_kinds, "OFTEN_MET", met)
        ad.manual_seed(4)
        found = []
        for n in (31, 40, 57, 77, 130, 64, 21):
            found += [ad.randn(n, 6), F.dropout(ad.ones(n, 5), 0.3), ad.randint(0, 9, (n,))]
        return [np.array(x).tobytes() for x in found]

    assert numbers(3) == numbers(NEVER)
