"""Functions on lists of tensors, against PyTorch's: every one, in every form it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

from adjoint.engine.backends.array.lists.foreach import BINARY, SCALED, UNARY  # noqa: E402
from tests.compare.bridge import ours, theirs  # noqa: E402

NAMES = sorted(n for n in dir(torch) if n.startswith("_foreach_"))


def lists(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = [(3,), (2, 2), (), (4, 1), (40_000,)]
    kinds = [np.float32, np.float32, np.float32, np.float64, np.float32]
    made = [
        torch.tensor(rng.uniform(0.1, 0.9, s).astype(k)) for s, k in zip(shapes, kinds, strict=True)
    ]
    return [*made, made[1].t().contiguous().t()[:, :1]]


def forms(name: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """The further arguments, in each form."""
    op = name.removeprefix("_foreach_").removesuffix("_")
    others, more = lists(1), lists(2)
    if op in UNARY or op in ("max", "zero", "clone"):
        return [([], {})]
    if op in SCALED:
        factors = [0.1 * i for i in range(len(others))]
        return [
            ([others, more], {}),
            ([others, more, 0.3], {}),
            ([others, more], {"value": 0.3}),
            ([others, more, factors], {}),
            ([others, more, torch.tensor(factors)], {}),
        ]
    if op in ("norm", "powsum"):
        return [([], {}), ([1], {}), ([], {"ord": 2, "dtype": torch.float64})]
    if op == "copy":
        return [([others], {})]
    if op == "lerp":
        return [([others, 0.3], {}), ([others, more], {}), ([others, [0.1] * len(others)], {})]
    assert op in BINARY
    found: list[tuple[list[Any], dict[str, Any]]] = [
        ([0.5], {}),
        ([others], {}),
        ([[0.3] * len(others)], {}),
    ]
    if op in ("add", "sub"):
        found.append(([others], {"alpha": 0.3}))
    if op in ("add", "mul", "div"):
        found.append(([torch.tensor(0.7)], {}))
    return found


@pytest.mark.parametrize("name", [n for n in NAMES if n != "_foreach_mm"])
@pytest.mark.parametrize("grad", [False, True])
def test_foreach(name: str, grad: bool) -> None:
    for args, kwargs in forms(name):
        values = lists(0)
        mine = [ours(t) for t in values]
        with torch.set_grad_enabled(grad), ad.set_grad_enabled(grad):
            want = getattr(torch, name)(values, *args, **kwargs)
            got = getattr(ad, name)(
                mine, *[ours(a) for a in args], **{k: ours(v) for k, v in kwargs.items()}
            )
        assert type(got) is type(want) or name.endswith("_"), (type(got), type(want))
        if not name.endswith("_"):
            values, mine = want, got
        for g, w in zip(mine, values, strict=True):
            torch.testing.assert_close(theirs(g), w.contiguous(), rtol=1e-5, atol=1e-6)


def test_products_and_powers() -> None:
    a, b = [torch.ones(2, 3), torch.ones(1, 2)], [torch.ones(3, 2), torch.ones(2, 2)]
    for g, w in zip(ad._foreach_mm(ours(a), ours(b)), torch._foreach_mm(a, b), strict=True):
        torch.testing.assert_close(theirs(g), w)
    for g, w in zip(ad._foreach_pow(2.0, ours(b)), torch._foreach_pow(2.0, b), strict=True):
        torch.testing.assert_close(theirs(g), w)


@pytest.mark.parametrize(
    ("args", "error"),
    [(([],), RuntimeError), (([1.0],), TypeError), ((["t"], ["t", "t"]), RuntimeError)],
)
def test_refusals(args: Any, error: Any) -> None:
    for lib in (torch, ad):
        given = [[lib.ones(1) if x == "t" else x for x in a] for a in args]
        with pytest.raises(error):
            lib._foreach_add(*given, *([1] if len(given) == 1 else []))
