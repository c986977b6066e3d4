"""Eager calls on a GPU that are kernels of their own: they give what the CPU gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def uniform(*shape: int) -> Any:
    return RNG.random(shape).astype(np.float32)


def product_of_factors(x: Any, **how: bool) -> Any:
    u, s, vh = ad.linalg.svd(x, **how)
    return (u * s.unsqueeze(-2)) @ vh


def labels(classes: int, *shape: int) -> Any:
    return RNG.integers(1, classes, shape)


def ended(classes: int, *shape: int) -> Any:
    """Targets of several labels, each row ended by -1."""
    found = labels(classes, *shape)
    found[:, 3:] = -1
    return found


def sequence(make: Callable[[Any], Any]) -> Any:
    """A call that makes numbers of nothing, on the device of its operand."""
    return lambda x: make(x.device), (normal(1),)


def shifted(x: Any) -> Any:
    """What lies in memory that is read and written at once."""
    x = x.clone()
    x[:4000].copy_(x[1000:5000])
    return x


def again(name: str, *more: Any) -> Callable[[Any], Any]:
    """A method that is called so often that its calls become a program; all of its results."""

    def run(x: Any) -> Any:
        for _ in range(40):
            out = getattr(x, name)(*more)
        return (
            ad.cat([part.double().flatten() for part in out]) if type(out) is not type(x) else out
        )

    return run


def gradient_of_nothing(x: Any) -> Any:
    """By a matrix without elements: a program that launches nothing."""
    x = x.clone().requires_grad_()
    return ad.autograd.grad(product_of_factors(x).sum(), x)[0]


Call = tuple[Callable[..., Any], tuple[Any, ...]]
# Draws, and sums whose terms come in one order: the CPU's bits.
EXACT: dict[str, Call] = {
    "poisson": (lambda u: ad.poisson(u * 30), (uniform(60, 70),)),
    "poisson of nothing": (lambda u: ad.poisson(u * 0), (uniform(7),)),
    "binomial": (lambda u: ad.binomial(ad.floor(u * 90), 1 - u), (uniform(60, 70),)),
    "gamma": (lambda u: ad.distributions.Gamma(u * 4 + 0.01, 1.0).sample(), (uniform(60, 70),)),
    "beta": (lambda u: ad.distributions.Beta(u + 0.1, u + 0.3).sample(), (uniform(60, 7),)),
    "bernoulli": (ad.bernoulli, (uniform(60, 70),)),
    "randperm": sequence(lambda d: ad.randperm(5000, device=d)),
    "randperm of many": sequence(lambda d: ad.randperm(300_000, device=d)),
    "normal_": (lambda x: x.clone().normal_(1, 2), (normal(60, 70),)),
    "copied": (lambda x, y: x.clone().copy_(y), (normal(60, 70), normal(60, 70))),
    "copied onto itself": (shifted, (normal(6000),)),
    **{
        f"{name} again and again": (again(name, *more), (normal(50, 70),))
        for name, more in (
            ("sort", (1,)), ("argsort", (0, True)), ("median", (0,)), ("nanmedian", (1,)),
            ("mode", (1,)), ("quantile", (0.3, 1)), ("nanquantile", (0.3, 0)), ("topk", (5,)),
            ("kthvalue", (3, 0)),
        )
    },
    "normal": (lambda u: ad.normal(u, u + 1), (uniform(60, 70),)),
    "digamma at its poles": (
        lambda n: ad.stack([n.digamma().isnan(), n.digamma().isinf()]), (np.arange(-4, 5),)
    ),
    "logic of complex numbers": (
        lambda x, y: ad.stack([ad.logical_xor(x, y), ad.logical_and(x, y), ad.logical_not(x)]),
        (np.array([0, 1j, 0, 2]), np.array([0, 0, 1 + 1j, 1j])),
    ),
    "gradients of factors of nothing": (gradient_of_nothing, (normal(0, 0),)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), (normal(2, 3, 17, 19),)),
    "avg_pool of halves": (lambda x: F.avg_pool2d(x.half(), 3, 2, 1), (normal(2, 3, 17, 19),)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (5, 7)), (normal(2, 3, 17, 19),)),
    "bicubic": (lambda x: F.interpolate(x, (9, 31), mode="bicubic"), (normal(2, 3, 17, 19),)),
    "smooth": (
        lambda x: F.interpolate(x, (9, 8), mode="bilinear", antialias=True), (normal(2, 3, 17, 19),)
    ),
    "reflected": (lambda x: F.pad(x, (3, 4, 2, 1), "reflect"), (normal(2, 3, 17, 19),)),
    "channels last": (
        lambda x: F.avg_pool2d(x.to(memory_format=ad.channels_last), 3, 2), (normal(2, 3, 17, 19),)
    ),
    "triangles": (
        lambda x: ad.cat([
            ad.tril_indices(5, 7, 1, device=x.device), ad.triu_indices(6, 4, -2, device=x.device)
        ], 1),
        (normal(1),),
    ),
    "combinations": (ad.combinations, (normal(50),)),
    "large triangles": (
        lambda x: ad.cat([
            ad.tril_indices(300, 200, -7, device=x.device), ad.triu_indices(90, 400, 5, device=x.device)
        ], 1),
        (normal(1),),
    ),
    "no triangles": (lambda x: ad.tril_indices(3, 4, -3, device=x.device), (normal(1),)),
    "nonzero": (lambda x: (x > 1).nonzero(), (normal(70, 90, 3),)),
    "nonzero of floats": (lambda x: (x.relu() - 0.0 * x).nonzero(), (normal(9000),)),
    "nonzero of nothing": (lambda x: (x > 99).nonzero(), (normal(7, 5),)),
    "nonzero of halves": (lambda x: x.relu().bfloat16().t().nonzero(), (normal(60, 70),)),
    "nonzero of columns": (lambda x: x.t()[::2].gt(0).nonzero(), (normal(60, 70),)),
    "masked_select": (lambda x: x.masked_select(x > 0.3), (normal(100, 90),)),
    "unique": (lambda x: x.unique(), (RNG.integers(0, 900, (80, 90)),)),
    "unique of floats": (lambda x: (x * 4).round().unique(), (normal(80, 90),)),
    "unique of halves": (lambda x: (x * 4).bfloat16().unique(), (normal(80, 90),)),
    "unique of masks": (lambda x: (x > 0).unique(), (normal(80, 90),)),
    "unique of NaN": (lambda x: ad.cat([x, x * float("nan")]).unique(), (normal(20),)),
    "unique, inverse": (lambda x: x.unique(return_inverse=True)[1], (RNG.integers(0, 900, (80, 90)),)),
    "unique, counts": (lambda x: x.unique(return_counts=True)[1], (RNG.integers(0, 900, (80, 90)),)),
    "sort of many": (lambda x: x.sort()[1], (RNG.integers(0, 1 << 40, 17_000_000),)),
    "largest of many rows": (
        lambda x, i: ad.zeros(40, 256, device=x.device).scatter_reduce(0, i, x, "amax"),
        (normal(66_000, 256), np.repeat(RNG.integers(0, 40, (66_000, 1)), 256, 1)),
    ),
}  # fmt: skip
CLOSE: dict[str, Call] = {
    "ctc": (
        lambda x, y: F.ctc_loss(x.log_softmax(-1), y, ad.tensor([30, 25, 30]), ad.tensor([9, 5, 0])),
        (normal(30, 3, 12), labels(12, 3, 9)),
    ),
    "ctc of too many": (
        lambda x, y: F.ctc_loss(
            x.log_softmax(-1), y, ad.tensor([10, 10]), ad.tensor([9, 9]), zero_infinity=True
        ),
        (normal(10, 2, 4), labels(2, 2, 9)),
    ),
    "ctc, one by one": (
        lambda x, y: F.ctc_loss(
            x.log_softmax(-1), y, ad.tensor([30, 25, 0]), ad.tensor([9, 5, 0]), 3, "none"
        ),
        (normal(30, 3, 12), labels(12, 3, 9)),
    ),
    "ctc of long targets": (
        lambda x, y: F.ctc_loss(
            x.double().log_softmax(-1), y, ad.tensor([1100]), ad.tensor([520]), reduction="sum"
        ).float(),
        (normal(1100, 1, 7), labels(7, 1, 520)),
    ),
    "ctc of halves": (
        lambda x, y: F.ctc_loss(
            x.bfloat16().log_softmax(-1), y, ad.tensor([30, 25, 30]), ad.tensor([9, 5, 0])
        ),
        (normal(30, 3, 12), labels(12, 3, 9)),
    ),
    "ctc in another order": (
        lambda x, y: F.ctc_loss(
            x.transpose(0, 1).log_softmax(-1), y, ad.tensor([30, 25, 30]), ad.tensor([9, 5, 0])
        ),
        (normal(3, 30, 12), labels(12, 3, 9)),
    ),
    "triangular": (
        lambda a, b: ad.linalg.solve_triangular(a.tril() + 9 * ad.eye(40, device=a.device), b, upper=False),
        (normal(6, 40, 40), normal(6, 40, 5)),
    ),
    "triangular from the right": (
        lambda a, b: ad.linalg.solve_triangular(
            a.triu() / 9, b, upper=True, left=False, unitriangular=True
        ),
        (normal(2, 3, 12, 12), normal(2, 3, 7, 12)),
    ),
    "cholesky_solve": (
        lambda a, b: ad.cholesky_solve(b, ad.linalg.cholesky(a @ a.mT + 40 * ad.eye(20, device=a.device))),
        (normal(5, 20, 20), normal(5, 20, 3)),
    ),
    "matrix_exp": (ad.linalg.matrix_exp, (normal(5, 9, 9) / 3,)),
    "matrix_exp of large ones": (lambda x: ad.linalg.matrix_exp(x) / 1e4, (normal(3, 4, 4) * 3,)),
    "lstsq": (lambda a, b: ad.linalg.lstsq(a, b).solution, (normal(5, 20, 8), normal(5, 20, 3))),
    "lstsq of few rows": (lambda a, b: ad.linalg.lstsq(a, b).solution, (normal(5, 6, 15), normal(5, 6, 3))),
    "singular values": (ad.linalg.svdvals, (normal(5, 40, 30),)),
    "singular values of wide ones": (ad.linalg.svdvals, (normal(2, 3, 20, 61),)),
    "factors": (lambda x: product_of_factors(x, full_matrices=False), (normal(3, 33, 20),)),
    "double factors": (lambda x: product_of_factors(x.double()).float(), (normal(65, 65),)),
    "grid_sample at the border": (
        lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=True),
        (normal(2, 3, 9, 8), normal(2, 5, 6, 2)),
    ),
    "grid_sample bicubic": (
        lambda x, g: F.grid_sample(x, g, "bicubic", "border", align_corners=False),
        (normal(1, 2, 9, 8), normal(1, 5, 6, 2)),
    ),
    "grid_sample of volumes": (
        lambda x, g: F.grid_sample(x, g, align_corners=False), (normal(1, 2, 4, 5, 6), normal(1, 2, 3, 4, 3))
    ),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False), (normal(2, 3, 9, 8), normal(2, 5, 6, 2))
    ),
    "pdist": (F.pdist, (normal(60, 7),)),
    "multi_margin": (lambda x, y: F.multi_margin_loss(x, y), (normal(30, 12), labels(12, 30))),
    "attention of many heads": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (normal(70_000, 3, 16),)
    ),
}  # fmt: skip

EXACT |= {
    "replicated": (lambda x: F.pad(x, (3, 4, 2, 1), "replicate"), (normal(2, 3, 17, 19),)),
    "around": (lambda x: F.pad(x, (3, 4, 2, 1), "circular"), (normal(2, 3, 17, 19),)),
    "volumes": (lambda x: F.avg_pool3d(x, 3, 2, 1), (normal(1, 2, 9, 8, 7),)),
    "dropout": (lambda x: F.dropout(x, 0.3), (normal(60, 70),)),
    "dropout again and again": (
        lambda x: ad.stack([F.dropout(x, 0.3) for _ in range(12)]), (normal(6, 7),)
    ),
    "dropout of channels": (lambda x: F.dropout2d(x, 0.3), (normal(6, 7, 5, 4),)),
    "dropout in place": (lambda x: F.dropout(x.clone(), 0.3, inplace=True), (normal(60, 70),)),
    "arange": sequence(lambda d: ad.arange(-5, 900, 7, device=d)),
    "arange of bytes": sequence(lambda d: ad.arange(0, 250, 3, dtype=ad.uint8, device=d)),
    "arange of floats": sequence(lambda d: ad.arange(0.1, 77.7, 0.3, device=d)),
    "arange of doubles": sequence(lambda d: ad.arange(0.1, 7, 0.3, dtype=ad.float64, device=d)),
    "arange of halves": sequence(lambda d: ad.arange(0.1, 7, 0.3, dtype=ad.float16, device=d)),
    "linspace": sequence(lambda d: ad.linspace(-1, 1.7, 1001, device=d)),
    "linspace of one": sequence(lambda d: ad.linspace(3, 5, 1, device=d)),
    "linspace of doubles": sequence(
        lambda d: ad.linspace(-1, 1.7, 1000, dtype=ad.float64, device=d)
    ),
    "linspace of halves": sequence(lambda d: ad.linspace(-1, 1.7, 90, dtype=ad.half, device=d)),
    "linspace of integers": sequence(lambda d: ad.linspace(-9, 77, 31, dtype=ad.int64, device=d)),
    "one_hot": (lambda y: F.one_hot(y, 12), (labels(12, 40),)),
}  # fmt: skip
CLOSE |= {
    "multi_margin of squares, weighted": (
        lambda x, y, w: F.multi_margin_loss(x, y, 2, 0.7, w.abs(), reduction="none"),
        (normal(30, 12), labels(12, 30), normal(12)),
    ),
    "cross": (ad.linalg.cross, (normal(4, 5, 3), normal(4, 5, 3))),
    "running statistics": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v.abs() + 0.5, w, b),
        (normal(4, 6, 5, 3), *(normal(6) for _ in range(4))),
    ),
    "bags": (
        lambda w, i: F.embedding_bag(i, w, ad.tensor([0, 3, 3, 9], device=i.device)),
        (normal(30, 8), labels(30, 14)),
    ),
    "multilabel_margin": (F.multilabel_margin_loss, (normal(9, 12), ended(12, 9, 12))),
    "affine_grid": (
        lambda x: F.affine_grid(x, (3, 1, 5, 4), align_corners=False), (normal(3, 2, 3),)
    ),
    "dropout": (lambda x: F.dropout(x, 0.3), (normal(60, 70),)),
    "dropout again and again": (
        lambda x: ad.stack([F.dropout(x, 0.3) for _ in range(12)]), (normal(6, 7),)
    ),
}  # fmt: skip


def results(call: Call, device: str, gradients: bool) -> list[Any]:
    """A call's result and, where it has some, gradients."""
    fn, given = call
    ad.manual_seed(11)
    leaves = [ad.tensor(x).to(device) for x in given]
    inexact = [x.requires_grad_() for x in leaves if x.dtype.is_floating_point and gradients]
    out = fn(*leaves)
    found = [out.detach().cpu()]
    if inexact:
        weights = (ad.arange(out.numel(), device=device) % 5 + 1.0).reshape(out.shape)
        found += [g.cpu() for g in ad.autograd.grad((out * weights).sum(), inexact)]
    return found


@pytest.mark.parametrize("name", EXACT)
def test_the_cpu_s_bits(name: str) -> None:
    got, want = (results(EXACT[name], device, gradients=False) for device in ("cuda", "cpu"))
    ad.testing.assert_close(got, want, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("name", CLOSE)
def test_results_and_gradients(name: str) -> None:
    got, want = (results(CLOSE[name], device, gradients=True) for device in ("cuda", "cpu"))
    for one, other in zip(got, want, strict=True):
        # Sums whose terms cancel are as far from float64 as their terms' rounding, on both sides.
        terms = float(other.abs().max()) if other.numel() else 0.0
        ad.testing.assert_close(one, other, rtol=2e-4, atol=2e-5 + 2e-6 * terms)


def with_gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call's result, and the gradient of its sum by the first operand."""

    def both(x: Any, *others: Any) -> Any:
        x = x.detach().requires_grad_()
        out = call(x, *others)
        return out, ad.autograd.grad(out.sum(), x)[0]

    return both


@pytest.mark.parametrize("name", [name for name in CLOSE if name.startswith("ctc")])
def test_ctc_in_programs_is_a_call_of_its_kernel(name: str) -> None:
    call, given = CLOSE[name]
    both = with_gradient(call)
    compiled = ad.compile(both)
    there = [ad.tensor(x).cuda() for x in given]
    for _ in range(2):
        ad.testing.assert_close(compiled(*there), both(*there), rtol=2e-4, atol=2e-5)
    told = str(compiled.explain())
    assert "ctc_loss_small" in told
    assert "ctc_loss_gradient" in told
    assert "scan" not in told


def test_ctc_in_programs_tells_of_labels_that_are_none() -> None:
    x, lengths = ad.randn(9, 2, 5, device="cuda"), (ad.tensor([9, 9]), ad.tensor([3, 3]))
    wrong = ad.tensor([[1, 2, 3], [1, 77, 3]]).cuda()
    compiled = ad.compile(lambda x, y: F.ctc_loss(x.log_softmax(-1), y, *lengths))
    with pytest.raises(RuntimeError, match="77"):
        compiled(x, wrong).item()


BAD_VALUES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "classes": (lambda x: F.multi_margin_loss(x, ad.tensor([0, 5, 1], device="cuda")), "range"),
    "labels": (lambda x: F.multilabel_margin_loss(x, x.long() - 7), "range"),
    "one_hot": (lambda x: F.one_hot(x.long() + 9, 4), "smaller than num_classes"),
    "probabilities": (lambda x: F.binary_cross_entropy(x + 2, x.abs()), "between 0 and 1"),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_values_that_are_wrong_are_told_when_somebody_waits(name: str) -> None:
    call, message = BAD_VALUES[name]
    out = call(ad.ones(3, 4, device="cuda"))  # which waits for nothing
    with pytest.raises(RuntimeError, match=message):
        out.cpu()
    ad.cuda.synchronize()  # told once


def test_ctc_under_autocast_is_of_float32_in_programs_too() -> None:
    lengths = ad.tensor([9, 8]), ad.tensor([3, 2])

    def loss(x: Any, y: Any) -> Any:
        with ad.autocast("cuda", dtype=ad.bfloat16):
            return F.ctc_loss(x.log_softmax(-1).bfloat16(), y, *lengths)

    x, y = ad.randn(9, 2, 5, device="cuda"), ad.randint(1, 5, (2, 3), device="cuda")
    got, want = ad.compile(loss)(x, y), loss(x, y)
    assert got.dtype is want.dtype is ad.float32
    ad.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_second_derivatives_of_ctc_in_programs() -> None:
    lengths = ad.tensor([6, 5]), ad.tensor([2, 1])

    def twice(x: Any, y: Any) -> Any:
        x = x.detach().requires_grad_()
        loss = F.ctc_loss(x.log_softmax(-1), y, *lengths)
        (g,) = ad.autograd.grad(loss, x, create_graph=True)
        return ad.autograd.grad((g**2).sum(), x)[0]

    x, y = ad.randn(6, 2, 4, dtype=ad.float64), ad.tensor([[1, 2], [3, 0]])
    got = ad.compile(twice)(x.cuda(), y.cuda())
    ad.testing.assert_close(got.cpu(), twice(x, y), rtol=1e-7, atol=1e-9)


def test_ctc_tells_of_labels_that_are_none() -> None:
    x, lengths = ad.randn(9, 2, 5).log_softmax(-1), (ad.tensor([9, 9]), ad.tensor([3, 3]))
    wrong = ad.tensor([[1, 2, 3], [1, 77, 3]])
    with pytest.raises(RuntimeError) as here:
        F.ctc_loss(x, wrong, *lengths)
    with pytest.raises(RuntimeError) as there:
        F.ctc_loss(x.cuda(), wrong.cuda(), *lengths).item()
    assert str(here.value) == str(there.value)
    assert "77" in str(there.value)


def test_ctc_repeats_to_the_bit_and_of_what_cannot_be_aligned() -> None:
    x = ad.randn(60, 4, 9, device="cuda").log_softmax(-1).requires_grad_()
    y = ad.randint(1, 4, (4, 20), device="cuda")
    lengths = ad.tensor([60, 50, 20, 60]), ad.tensor([20, 10, 20, 0])
    first, *others = (
        ad.autograd.grad(F.ctc_loss(x, y, *lengths, reduction="sum"), x)[0] for _ in range(3)
    )
    assert first[:, 2][:20].isnan().all()
    assert first[:, [0, 1, 3]].isfinite().all()
    ad.testing.assert_close(others, [first, first], rtol=0, atol=0, equal_nan=True)


def test_second_derivatives_through_kernels_of_their_own() -> None:
    def twice(device: str) -> Any:
        x = (
            ad.tensor(np.random.default_rng(5).standard_normal((6, 2, 4)))
            .to(device)
            .requires_grad_()
        )
        y = ad.tensor([[1, 2], [3, 0]]).to(device)
        loss = F.ctc_loss(x.log_softmax(-1), y, ad.tensor([6, 5]), ad.tensor([2, 1]))
        (g,) = ad.autograd.grad(loss, x, create_graph=True)
        return ad.autograd.grad((g**2).sum(), x)[0].cpu()

    ad.testing.assert_close(twice("cuda"), twice("cpu"), rtol=1e-7, atol=1e-9)


def test_least_squares_in_doubt_are_those_of_the_cpu() -> None:
    a, b = ad.tensor(normal(4, 9, 6)), ad.tensor(normal(4, 9, 2))
    a[1, :, 2] = a[1, :, 3]  # of rank five
    here, there = ad.linalg.lstsq(a, b), ad.linalg.lstsq(a.cuda(), b.cuda())
    assert there.rank.tolist() == here.rank.tolist() == [6, 5, 6, 6]
    ad.testing.assert_close(there.solution.cpu(), here.solution, rtol=1e-3, atol=1e-3)


def leaf(*shape: int) -> Any:
    return ad.tensor(normal(*shape)).cuda().requires_grad_()


@pytest.mark.parametrize("autocast", [False, True])
def test_what_is_written_on_the_tape_is_held_once(autocast: bool) -> None:
    x = leaf(1 << 20)
    for _ in range(2):  # the first makes fragments
        with ad.autocast("cuda", dtype=ad.bfloat16, enabled=autocast):
            y = x * 2
            ad.cuda.synchronize()
            before = ad.cuda.memory_allocated()
            F.relu(y, inplace=True)
        assert ad.cuda.memory_allocated() == before
        (g,) = ad.autograd.grad(y.sum(), x)
        ad.testing.assert_close(g, 2.0 * (x > 0), rtol=0, atol=0)


def test_who_sees_a_tensor_sees_what_is_written_to_it() -> None:
    for look in (lambda y: y[3:9], lambda y: y.detach(), lambda y: y.view(2, -1), lambda y: y.t()):
        y = leaf(6, 4) * 2
        seen = look(y)
        F.relu(y, inplace=True)
        assert (seen >= 0).all()
        assert seen.data_ptr() - y.data_ptr() in (0, 48)
    y = leaf(6) * 2
    F.relu(y, inplace=True)  # whose derivative is of its result
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x = leaf(6)
    y = x.exp()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        F.relu(y, inplace=True).sum().backward()


def test_counters_and_scalars_are_written_in_place() -> None:
    n, x = ad.tensor(3, device="cuda"), ad.tensor(normal(4, 5)).cuda()
    want, where = x.cpu(), (n.data_ptr(), x.data_ptr())
    for k in range(3):
        n.add_(1)
        x.mul_(1.5)
        x.sub_(x.t().contiguous().t())  # of memory of its own
        x.add_(x)
        want = want * 1.5
        want = (want - want) * 2
        assert n.item() == 4 + k
        ad.testing.assert_close(x.cpu(), want, rtol=0, atol=0)
        x.copy_(ad.tensor(normal(4, 5)).cuda())
        want = x.cpu()
    assert where == (n.data_ptr(), x.data_ptr())
    columns = ad.tensor(normal(2, 3, 4, 5)).cuda().to(memory_format=ad.channels_last)
    want = columns.cpu() + 1.0
    columns.add_(1.0)
    ad.testing.assert_close(columns.cpu(), want, rtol=0, atol=0)
    columns.add_(1.0)
    ad.testing.assert_close(columns.cpu(), want + 1.0, rtol=0, atol=0)
    assert columns.is_contiguous(memory_format=ad.channels_last)


def test_cross_entropy_under_autocast_makes_no_copies_of_logits() -> None:
    """Neither in float32 nor for their gradient: one of halves, and the loss is float32."""
    x = ad.randn(4096, 4096, device="cuda").bfloat16().requires_grad_()
    y = ad.randint(0, 4096, (4096,), device="cuda")
    size = x.numel() * 2
    for _ in range(2):  # the first tries how results lie
        x.grad = None
        ad.cuda.synchronize()
        ad.cuda.reset_peak_memory_stats()
        before = ad.cuda.memory_allocated()
        with ad.autocast("cuda", dtype=ad.bfloat16):
            loss = F.cross_entropy(x, y)
        loss.backward()
    assert loss.dtype is ad.float32
    assert ad.cuda.max_memory_allocated() - before < 1.5 * size
    want = x.detach().float().requires_grad_()
    plain = F.cross_entropy(want, y)
    plain.backward()
    ad.testing.assert_close(loss, plain, rtol=1e-6, atol=1e-6)
    ad.testing.assert_close(x.grad.float(), want.grad, rtol=1e-2, atol=1e-8)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_is_kept_and_converted_as_on_the_cpu(name: str) -> None:
    dtype = getattr(ad, name)
    codes = ad.tensor(np.arange(256, dtype=np.uint8)).view(dtype)
    there = codes.to("cuda")
    assert (there.dtype, there.device.type) == (dtype, "cuda")
    assert there.cpu().view(ad.uint8).equal(codes.view(ad.uint8))
    ad.testing.assert_close(there.float().cpu(), codes.float(), rtol=0, atol=0, equal_nan=True)
    edges = [0.0, -0.0, 464.0, 464.1, -480.0, 61439.0, 61440.0, 1e38, np.inf, -np.inf, np.nan]
    x = np.concatenate([RNG.standard_normal(4000) * 10.0 ** RNG.integers(-9, 6, 4000), edges])
    for source in (ad.float32, ad.bfloat16, ad.float64):
        here = ad.tensor(x).to(source)
        want, got = here.to(dtype), here.to("cuda").to(dtype).cpu()
        ad.testing.assert_close(got.float(), want.float(), rtol=0, atol=0, equal_nan=True)
    part = there.reshape(16, 16)[1:, ::2].t().clone()
    ad.testing.assert_close(
        part.to(ad.bfloat16).cpu(), codes.reshape(16, 16)[1:, ::2].t().to(ad.bfloat16),
        rtol=0, atol=0, equal_nan=True,
    )  # fmt: skip
    assert ad.zeros(3, dtype=dtype, device="cuda").float().tolist() == [0.0] * 3
    assert ad.full((2,), 1.5, dtype=dtype, device="cuda").float().tolist() == [1.5] * 2
    with pytest.raises(NotImplementedError, match=f"not implemented for {name}"):
        _ = there + there
