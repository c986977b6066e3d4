"""Products whose last write does more: random programs against the interpreter and eager execution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.compiler.loops import epilogues


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(epilogues, "LARGE", 0)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))  # no plans of others


UNARY: list[Any] = [
    F.relu,
    F.gelu,
    ad.tanh,
    ad.sigmoid,
    lambda h: h * 0.5,
    lambda h: -h + 3,
    lambda h: ad.where(h > 0.25, h, 0.5),
    lambda h: h.to(ad.float16).to(ad.float32),
]
SIZES = [1, 2, 7, 8, 15, 16, 17, 33, 64, 100]
DEPTHS = [1, 3, 16, 40, 600, 1100]  # the last two in more than one block


class Program:
    """A product and what follows it, all chosen by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.batch = [(), (), (3,), (2, 3), (5, 1)][rng.integers(5)]
        m, n = (int(rng.choice(SIZES)) for _ in "mn")
        k = int(rng.choice(DEPTHS))
        self.shape = (*self.batch, m, n)
        dtype = [ad.float32, ad.float64][int(rng.random() < 0.2)]
        right = self.batch if rng.random() < 0.5 else ()
        self.args = [
            self.draw((*self.batch, m, k), dtype, k**-0.5),
            self.draw((*right, k, n), dtype, 1.0),
        ]
        self.dtype = dtype
        self.actions = [self.action() for _ in range(rng.integers(1, 5))]
        self.returns_product = rng.random() < 0.3
        self.returns_all = rng.random() < 0.3
        self.returns_test = rng.random() < 0.2

    def draw(self, shape: tuple[int, ...], dtype: Any, scale: float = 1.0) -> Any:
        values = self.rng.normal(size=shape) * scale
        if len(shape) > 1 and self.rng.random() < 0.3:
            values = np.swapaxes(np.ascontiguousarray(np.swapaxes(values, -1, -2)), -1, -2)
        return ad.from_numpy(values).to(dtype)

    def action(self) -> Any:
        choice = self.rng.integers(6)
        if choice < 3:
            fn = UNARY[self.rng.integers(len(UNARY))]
            return lambda h, args: fn(h)
        *_, m, n = self.shape
        shape = [(n,), (m, 1), self.shape, (1, n), (1,)][self.rng.integers(5)]
        self.args.append(self.draw(shape, self.dtype))
        at, sign = len(self.args) - 1, self.rng.integers(2)
        return lambda h, args: h + args[at] if sign else args[at] * h

    def __call__(self, *args: Any) -> Any:
        product = args[0] @ args[1]
        made, h = [product] if self.returns_product else [], product
        for action in self.actions:
            h = action(h, args)
            if self.returns_all:
                made.append(h)
        return [*made, h, h > 0] if self.returns_test else [*made, h]


def check(program: Program) -> str:
    compiled = ad.compile(lambda *args: program(*args), validate=True)
    found, wanted = compiled(*program.args), program(*program.args)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype is y.dtype
        if x.dtype is not ad.bool:  # `validate` knows how far tests may differ
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3)
    return str(compiled.explain())


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    check(Program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1600))
def test_many_random_programs(seed: int) -> None:
    check(Program(seed))


CASES: dict[str, Any] = {
    "bias": lambda x, w, b, r: x @ w + b,
    "bias and activation": lambda x, w, b, r: F.relu(x @ w + b),
    "residual": lambda x, w, b, r: r + (x @ w + b),
    "cast": lambda x, w, b, r: (x @ w + b).to(ad.bfloat16),
}


@pytest.mark.parametrize("depth", [40, 1100])
@pytest.mark.parametrize("name", CASES)
def test_what_follows_a_product_is_part_of_it(name: str, depth: int) -> None:
    ad.manual_seed(0)
    args = ad.randn(64, depth), ad.randn(depth, 48) / depth**0.5, ad.randn(48), ad.randn(64, 48)
    compiled = ad.compile(CASES[name], validate=True)
    tolerance = 1e-2 if name == "cast" else 1e-4
    found, wanted = (f(*args).float().numpy() for f in (compiled, CASES[name]))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert " 0 launches of fused kernels" in str(compiled.explain())


def test_what_cannot_be_part_of_it_follows_it() -> None:
    """Another order of elements, a sum, a random mask."""
    ad.manual_seed(0)
    x, w = ad.randn(64, 40), ad.randn(40, 48)
    for fn in (
        lambda x, w: (x @ w).t().contiguous() + 1,
        lambda x, w: (x @ w).sum(0),
        lambda x, w: (x @ w).softmax(-1),
        lambda x, w: (x @ w) * ad.arange(48.0),
    ):
        np.testing.assert_allclose(
            ad.compile(fn, validate=True)(x, w), fn(x, w), rtol=1e-4, atol=1e-4
        )


def test_small_results_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    compiled = ad.compile(lambda x, w: F.relu(x @ w))
    compiled(ad.randn(8, 8), ad.randn(8, 8))
    assert " 1 launches of fused kernels" in str(compiled.explain())


BEGINNINGS: dict[str, Any] = {
    "row": lambda x, w, row, full, wide: x @ w + row,
    "row first": lambda x, w, row, full, wide: row + x @ w,
    "matrix": lambda x, w, row, full, wide: x @ w + full,
    "rows apart": lambda x, w, row, full, wide: wide[:, 1 : w.shape[1] + 1] + x @ w,
    "in place": lambda x, w, row, full, wide: full.add_(x @ w),
    "linear": lambda x, w, row, full, wide: F.linear(x, w.t(), row),
}


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("sizes", [(64, 33, 40), (49, 95, 7), (61, 70, 1101), (160, 32, 520)])
@pytest.mark.parametrize("name", BEGINNINGS)
@pytest.mark.usefixtures("anew")
def test_sums_begin_with_what_is_added(
    name: str, sizes: tuple[int, int, int], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small results too, where registers are wide: one launch for all, besides those that order."""
    monkeypatch.setattr(epilogues, "LARGE", 1 << 30)
    m, n, k = sizes
    rng = np.random.default_rng(0)
    shapes = (m, k), (k, n), (n,), (m, n), (m, n + 3)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    given = [ad.tensor(a, dtype=dtype) for a in arrays]
    x, w, row, full, wide = (t.numpy().astype(np.float64) for t in given)
    wanted = x @ w + (row if "row" in name.split() or name == "linear" else full)
    if name == "rows apart":
        wanted = x @ w + wide[:, 1 : n + 1]
    compiled = ad.compile(BEGINNINGS[name], validate=name != "in place")
    tolerance = 1e-6 if dtype is ad.float32 else 1e-15
    np.testing.assert_allclose(
        compiled(*given).numpy(), wanted, rtol=0, atol=tolerance * (8 + 2 * k**0.5) * 4
    )
    if has_wide_registers() and name != "in place":
        assert " 0 launches of fused kernels" in str(compiled.explain())


def test_a_training_step() -> None:
    def train(wrap: Any) -> list[float]:
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(40, 64), ad.nn.GELU(), ad.nn.Linear(64, 10))
        optimizer = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x, y = ad.randn(32, 40), ad.randint(0, 10, (32,))

        def step() -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        return [step().item() for _ in range(5)]

    eager = train(lambda fn: fn)
    np.testing.assert_allclose(train(lambda fn: ad.compile(fn, validate=True)), eager, rtol=1e-4)
