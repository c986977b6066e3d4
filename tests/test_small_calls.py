"""Calls on few elements as programs: the same bits, views, tape, errors and settings as ever."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.listing import every
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stand_ins import StraightLater
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.eager import enlisted, small_calls
from adjoint.nn import functional as F
from tests.more_small_calls import MORE

Call = Callable[..., Any]
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, 3e38, -1.0)

ROWS, COLUMNS = ad.tensor([0, 1, 0]), ad.tensor([1, 0, -1])
WHOLE = (ad.int64, ad.int32, ad.int16, ad.int8, ad.uint8, ad.bool)


def places(x: ad.Tensor) -> ad.Tensor:
    """Indices of the shape of a matrix, some of them twice."""
    return ad.arange(x.numel()).reshape(x.shape) % 3


# Of two matrices of one shape.
NEW: dict[str, Call] = {
    "zeros": lambda x, y: ad.zeros(2, 3),
    "zeros of a list": lambda x, y: ad.zeros([2, 3], dtype=ad.int64),
    "full": lambda x, y: ad.full((3,), 1),
    "full of a float": lambda x, y: ad.full((3,), 1.0),
    "arange": lambda x, y: ad.arange(5),
    "eye": lambda x, y: ad.eye(3),
    "zeros_like": lambda x, y: ad.zeros_like(x),
    "exp": lambda x, y: x.exp(),
    "floor": lambda x, y: x.floor(),
    "round": lambda x, y: x.round(),
    "add": lambda x, y: x + y,
    "add of 1": lambda x, y: x + 1,
    "add of 1.0": lambda x, y: x + 1.0,
    "add of True": lambda x, y: x + True,
    "times zero": lambda x, y: x * 0.0,
    "times minus zero": lambda x, y: x * -0.0,
    "itself": lambda x, y: x * x,
    "compared": lambda x, y: x >= y,
    "negated": lambda x, y: -x,
    "product": lambda x, y: x @ y.transpose(-1, -2),
    "dot": lambda x, y: x[0] @ y[0],
    "where": lambda x, y: ad.where(x > y, x, y),
    "nan_to_num": lambda x, y: ad.nan_to_num(x),
    "sum": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: x.sum(-1, keepdim=True),
    "sum of truths": lambda x, y: (x > 0).sum(),
    "count": lambda x, y: x.count_nonzero(),
    "any": lambda x, y: (x > 0).any(1),
    "all": lambda x, y: (x > 0).all(),
    "prod": lambda x, y: x.prod(1),
    "trace": lambda x, y: (x @ y.transpose(-1, -2)).trace(),
    "argmax": lambda x, y: x.argmax(),
    "argmax of rows": lambda x, y: x.argmax(1),
    "argmin of columns": lambda x, y: x.argmin(0, keepdim=True),
    "max": lambda x, y: x.max(1),
    "max alone": lambda x, y: x.max(),
    "min": lambda x, y: x.min(0),
    "median": lambda x, y: x.median(1),
    "median alone": lambda x, y: x.median(),
    "kthvalue": lambda x, y: x.kthvalue(2, 1),
    "sort": lambda x, y: x.sort(),
    "sort of columns": lambda x, y: x.sort(0, descending=True),
    "stable sort": lambda x, y: x.sort(1, stable=True),
    "argsort": lambda x, y: x.argsort(1, descending=True),
    "topk": lambda x, y: x.topk(2),
    "topk of columns": lambda x, y: x.topk(1, 0, largest=False),
    "cumsum": lambda x, y: x.cumsum(0),
    "cumsum of rows": lambda x, y: x.cumsum(-1),
    "cumprod": lambda x, y: x.cumprod(1),
    "logcumsumexp": lambda x, y: x.logcumsumexp(1),
    "cummax": lambda x, y: x.cummax(1),
    "cat": lambda x, y: ad.cat([x, y]),
    "cat of a tuple": lambda x, y: ad.cat((x, y), 1),
    "cat of three": lambda x, y: ad.cat([x, y, x], -1),
    "stack": lambda x, y: ad.stack([x, y], dim=-1),
    "flip": lambda x, y: x.flip(0),
    "flip of a number": lambda x, y: x.reshape(-1)[0].flip(0),
    "roll": lambda x, y: x.roll(1, 0),
    "roll back": lambda x, y: x.roll(-1, 1),
    "tril": lambda x, y: x.tril(),
    "triu": lambda x, y: x.triu(1),
    "as int64": lambda x, y: (x > 0).long(),
    "as bool": lambda x, y: x.bool(),
    "as double": lambda x, y: x.double(),
    "repeated": lambda x, y: x.repeat(2, 1),
    "softmax": lambda x, y: x.softmax(-1),
    "layer norm": lambda x, y: F.layer_norm(x, (x.shape[-1],)),
    "mse": lambda x, y: F.mse_loss(x, y),
    "std": lambda x, y: x.std(),
    "var of columns": lambda x, y: x.var(0, correction=0),
    "gelu": lambda x, y: F.gelu(x),
    "linear": lambda x, y: F.linear(x, y),
    "einsum": lambda x, y: ad.einsum("ij,kj->ik", x, y),
    "fft": lambda x, y: ad.fft.fft(x),
    "qr": lambda x, y: ad.linalg.qr(x[:, :2]),
    "padded": lambda x, y: F.pad(x, (1, 2), value=0.5),
    "addcmul": lambda x, y: ad.addcmul(x, x, y, value=0.5),
    "addcmul of rows": lambda x, y: ad.addcmul(x[:1], x, y),
    "addcdiv": lambda x, y: ad.addcdiv(y, x, y, value=2),
    "xlogy": lambda x, y: ad.xlogy(x, y),
    "remainder": lambda x, y: x % 3,
    "fmod": lambda x, y: ad.fmod(x, -2),
    "cummin": lambda x, y: x.cummin(0),
    "scattered": lambda x, y: x.scatter(1, places(x), y),
    "added at": lambda x, y: x.scatter_add(0, places(x) % 2, y),
    "one_hot": lambda x, y: F.one_hot(places(x), 5),
    "nll": lambda x, y: F.nll_loss(x, places(x)[:, 0]),
    "cross entropy": lambda x, y: F.cross_entropy(x, places(x)[:, 0], label_smoothing=0.1),
    "cross entropy of a class that is not": lambda x, y: F.cross_entropy(x, places(x)[:, 0] + 3),
    "binary cross entropy": lambda x, y: F.binary_cross_entropy(x.sigmoid(), (y > 0).to(x.dtype)),
    "binary cross entropy of no probability": lambda x, y: F.binary_cross_entropy(x, y),
    "kl_div": lambda x, y: F.kl_div(x, y.abs(), reduction="sum"),
    "group_norm": lambda x, y: F.group_norm(x, 1),
    "transposed qr": lambda x, y: ad.linalg.qr(x.T[:2]),
    "cholesky": lambda x, y: ad.linalg.cholesky(x @ x.transpose(0, 1) + ad.eye(x.shape[0])),
    "cholesky of what is not positive": lambda x, y: ad.linalg.cholesky(x @ y.transpose(0, 1)),
    "inv": lambda x, y: ad.linalg.inv(x @ y.transpose(0, 1)),
    "solve": lambda x, y: ad.linalg.solve(x @ y.transpose(0, 1), y),
    "solve of a vector": lambda x, y: ad.linalg.solve(x @ y.transpose(0, 1), y[:, 0]),
    "det": lambda x, y: ad.linalg.det(x @ y.transpose(0, 1)),
    "slogdet": lambda x, y: ad.linalg.slogdet(x @ y.transpose(0, 1)),
    "eigh": lambda x, y: ad.linalg.eigh(x @ x.transpose(0, 1)),
    "svd": lambda x, y: ad.linalg.svd(x, full_matrices=False),
    "svdvals": lambda x, y: ad.linalg.svdvals(x),
    "svd of a stack": lambda x, y: ad.linalg.svd(ad.stack([x, y])),
    "ifft": lambda x, y: ad.fft.ifft(ad.complex(x, y), dim=0, norm="ortho"),
    "fft of columns": lambda x, y: ad.fft.fft(x, 7, 0, "forward"),
    "fft2": lambda x, y: ad.fft.fft2(ad.complex(x, y)),
    "rfft": lambda x, y: ad.fft.rfft(x, norm="ortho"),
    "irfft": lambda x, y: ad.fft.irfft(ad.complex(x, y)),
    "irfft of columns": lambda x, y: ad.fft.irfft(ad.complex(x, y), 5, 0, "forward"),
    "searchsorted": lambda x, y: ad.searchsorted(x[0].sort().values, y),
    "searched for one": lambda x, y: (
        ad.searchsorted(x[0].sort().values, y[0, 0]),
        ad.bucketize(x[1, 1], x[0].sort().values, right=True),
    ),
    "searched after equals": lambda x, y: ad.searchsorted(x[0].sort().values, x, right=True),
    "bucketize": lambda x, y: ad.bucketize(y, x[1].sort().values, out_int32=True),
    "histc": lambda x, y: ad.histc(x, 4),
    "histc of a range": lambda x, y: x.histc(5, -1, 1),
    "masked": lambda x, y: x[x > y],
    "masked rows": lambda x, y: x[y[:, 0] > 0],
    "masked columns": lambda x, y: x[:, y[0] > 0],
    "masked by nothing": lambda x, y: x[ad.zeros(x.shape, dtype=ad.bool)],
    "masked by too much": lambda x, y: x[ad.ones(9, 9, dtype=ad.bool)],
    "masked_select": lambda x, y: x.masked_select(x > y),
    "masked_select of rows": lambda x, y: x.masked_select(y[0] > 0),
    "columns by index": lambda x, y: x[:, places(x)[0]],
    "columns by another": lambda x, y: x[:, places(x)[0] - 9],
    "nonzero": lambda x, y: (x > y).nonzero(),
    "nonzero of a row": lambda x, y: (x > y)[0].nonzero(),
    "unique": lambda x, y: x.unique(return_inverse=True, return_counts=True),
    "unique rows": lambda x, y: ad.cat([x, x]).unique(dim=0, return_counts=True),
    "consecutive": lambda x, y: x.round().unique_consecutive(return_inverse=True, return_counts=True),
    "bincount": lambda x, y: places(x)[0].bincount(minlength=3),
    "bincount of less than 0": lambda x, y: (places(x)[0] - 2).bincount(),
    "equal": lambda x, y: ad.tensor([ad.equal(x, y), ad.equal(x, x.clone()), ad.equal(x, x[:1])]),
    "zero diagonal": lambda x, y: x.clone().fill_diagonal_(0.0),
    "diagonal of a stack": lambda x, y: ad.stack([x[:2, :2], y[:2, :2]]).fill_diagonal_(3),
    "diagonal of a view": lambda x, y: y.clone().T.fill_diagonal_(2),
    "as itself": lambda x, y: (x.float(), x.double(), x.contiguous(), x.long()),
    "as whole numbers": lambda x, y: [x.to(d) for d in WHOLE],
    "whole ones as others": lambda x, y: [(places(x) * 100 - 150).to(d) for d in WHOLE],
    "bytes as others": lambda x, y: [places(x).byte().to(d) for d in (*WHOLE, ad.float32)],
    "large ones as whole numbers": lambda x, y: [(x * 3e9).to(d) for d in WHOLE],
    "truths as others": lambda x, y: [(x > y).to(d) for d in (*WHOLE, ad.float64)],
    "histc of many bins": lambda x, y: (x.histc(), y.histc(7), x.histc(3, -3, 3e38)),
    "by two indices": lambda x, y: (x[ROWS, COLUMNS], x[COLUMNS[:, None] % 2, ROWS], x[ROWS, ROWS - 2]),
    "by lists": lambda x, y: (x[[0, 1]], x[[1, -1], [0, 1]], x[:, [1, 0, 1]], x[[0]]),
    "by an index and a number": lambda x, y: (x[0, ROWS], x[ROWS, -1], x[None][:, 1, ROWS]),
    "by slices between": lambda x, y: (x[None][0, :, ROWS], x[None][ROWS - ROWS, :, 1], x[1:, ROWS]),
    "by too large ones": lambda x, y: x[ROWS, COLUMNS + 7],
    "by a large one in a list": lambda x, y: x[[0, 9]],
    "by truths in a list": lambda x, y: x[[True] + [False] * (len(x) - 1)],
    "by a nested list": lambda x, y: (x[[[0, 1], [1, 0]]], x[[]]),
    "by indices of other kinds": lambda x, y: (x[ROWS.int(), COLUMNS], x[ROWS[0], COLUMNS]),
    "argwhere": lambda x, y: (ad.argwhere(x > y), (x > y)[:, 0].argwhere(), x[0, 0].argwhere()),
    "equal of others": lambda x, y: ad.tensor(
        [ad.equal(x, y.to(x.dtype)), ad.equal(x, x.double()), ad.equal(-x * 0, x * 0)]
    ),
    "batch norm": lambda x, y: batch_normed(x, y),
    **MORE,
}  # fmt: skip


def batch_normed(x: ad.Tensor, y: ad.Tensor) -> tuple[ad.Tensor, ...]:
    """A result, and running statistics that were moved."""
    mean, variance = y[0].clone(), y[1].abs().contiguous()
    return F.batch_norm(x, mean, variance, training=True), mean, variance


# Of a matrix of probabilities.
DRAWS: dict[str, Call] = {
    "rand": lambda p: ad.rand(3, 2),
    "rand in double": lambda p: ad.rand(5, dtype=ad.float64),
    "rand that needs a gradient": lambda p: ad.rand(5, requires_grad=True),
    "randn": lambda p: ad.randn((3,)),
    "randn of complex numbers": lambda p: ad.randn(3, dtype=ad.complex64),
    "randint": lambda p: ad.randint(2, 9, (4,)),
    "rand_like": lambda p: ad.rand_like(p),
    "randn_like": lambda p: ad.randn_like(p, dtype=ad.float64),
    "randint_like": lambda p: ad.randint_like(p, 0, 7),
    "randperm": lambda p: ad.randperm(6),
    "bernoulli": lambda p: ad.bernoulli(p),
    "bernoulli of a number": lambda p: ad.bernoulli(p, 0.25),
    "bernoulli of no probability": lambda p: ad.bernoulli(p - 1),
    "normal": lambda p: ad.normal(p, p + 1),
    "multinomial": lambda p: ad.multinomial(p.abs(), 2),
    "two draws": lambda p: ad.rand(2) + ad.randn(2),
}
# Of one matrix.
VIEWS: dict[str, Call] = {
    "reshape": lambda x: x.reshape(-1),
    "view": lambda x: x.view(1, *x.shape),
    "flatten": lambda x: x.flatten(),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(2, *x.shape),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(0, -1),
    "movedim": lambda x: x.movedim(0, 1),
    "diagonal": lambda x: x.diagonal(),
    "chunk": lambda x: x.chunk(2, 1),
    "split": lambda x: x.split(1),
    "unbind": lambda x: x.unbind(0),
    "adjoint": lambda x: x.adjoint(),
    "hsplit": lambda x: x.hsplit(2),
    "vsplit": lambda x: ad.vsplit(x, [1]),
    "split_with_sizes": lambda x: x.split([1, 3], 1),
    "ravel": lambda x: x.ravel(),
    "turned and flat": lambda x: x.T.flatten(0, 0),
    "twice": lambda x: x.unflatten(1, (2, 2)),
    "view_as": lambda x: x.view_as(ad.ones(2, 6)),
    "expand_as": lambda x: x.expand_as(ad.ones(2, 3, 4)),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are made at the first call."""
    programs = StraightLater.loaded()
    programs.forget()
    small_calls.PROGRAMS.forget()
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    monkeypatch.setattr(small_calls, "LOADED", 0)
    monkeypatch.setattr("adjoint.engine.core.operations.small_calls.EVERY", 1)
    monkeypatch.setattr(public.OVERRIDES, "active", False)  # other tests have classes that override
    with CONTEXT.having(device=None):
        yield
    programs.forget()
    small_calls.PROGRAMS.forget()


def has_programs(name: str) -> bool:
    """Whether native code finds some program of a function."""
    return any(isinstance(o, SmallCalls) and o.name == name and o.small for o in enlisted._owners)


needs_native = pytest.mark.skipif(
    loops.native() is None or loops.native().meet_call is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)


def matrices() -> list[tuple[ad.Tensor, ad.Tensor]]:
    """Pairs that differ in values, shapes, dtypes and layouts."""
    rng = np.random.default_rng(5)
    pairs = []
    for shape in ((3, 4), (2, 5), (4, 4)):
        one, other = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        special = rng.choice(SPECIAL, shape).astype(np.float32)
        whole = rng.integers(-2, 3, shape)
        x, y = ad.from_numpy(one), ad.from_numpy(other)
        pairs += [(x, y), (y, x), (x.double(), y.double())]
        pairs += [(ad.from_numpy(special), y), (y, ad.from_numpy(special))]
        pairs.append((ad.from_numpy(whole), ad.from_numpy(whole[::-1].copy())))
        pairs.append((ad.from_numpy(one.T.copy()).T, y))
        wide = rng.standard_normal((shape[0], 2 * shape[1])).astype(np.float32)
        pairs.append((ad.from_numpy(wide)[:, ::2], x))
    return pairs


SHAPE = 8  # pairs of one shape


def described(out: Any) -> Any:
    """All that can be told of results, or the error."""
    leaves, structure = flatten(out)
    return structure, type(out), [
        (t.dtype, tuple(t.shape), t.stride(), t.detach().numpy().tobytes(), t.requires_grad) for t in leaves
    ]  # fmt: skip


def outcome(call: Call, *given: Any) -> Any:
    try:
        return described(call(*given))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NEW)
def test_results_are_the_same_to_the_bit(name: str) -> None:
    """Also those of other operands, which native code meets after it knows all the others."""
    call, pairs = NEW[name], matrices()[:SHAPE] if name in MORE else matrices()
    with CONTEXT.having(reference=True):
        want = [outcome(call, *pair) for pair in pairs]
    for _ in range(3):
        for pair, wanted in zip(pairs, want, strict=True):
            assert outcome(call, *pair) == wanted


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_the_same_to_the_bit(name: str) -> None:
    """So is what the generator gives after them, also after an error."""
    call, given = DRAWS[name], [x.abs() / 8 for x, _ in matrices() if x.dtype is ad.float32]
    given = [p for p in given if bool(p.isfinite().all())]

    def drawn() -> list[Any]:
        ad.manual_seed(3)
        return [
            (outcome(call, p), ad.get_rng_state().numpy().tobytes())
            for p in given
            for _ in range(4)
        ]

    with CONTEXT.having(reference=True):
        want = drawn()
    assert drawn() == want
    assert drawn() == want


def test_unwritten_elements_have_their_layout() -> None:
    x = ad.ones(3, 4).T
    for _ in range(4):
        for out in (ad.empty_like(x), x.new_empty(4, 3), ad.empty(4, 3, dtype=ad.int32)):
            assert out.shape == (4, 3)
            out.fill_(2)
            assert out.sum().item() == 24
        assert ad.empty_like(x).stride() == (1, 4)
        for strides in ((1, 4), (9, 2), (0, 1)):
            assert ad.empty_strided((4, 3), strides).stride() == strides
        assert ad.empty(2, requires_grad=True).requires_grad


@needs_native
def test_programs_are_met() -> None:
    x, y = matrices()[0]
    few = "digamma block_diag pdist diff hann_window index_fill".split()
    new = [call for name, call in NEW.items() if name not in MORE or name in few]
    for call in (*new, *[lambda x, y, view=view: view(x) for view in VIEWS.values()]):
        for _ in range(3):
            outcome(call, x, y)
    for call in DRAWS.values():
        for _ in range(3):
            outcome(call, x.abs() / 8)
    names = (
        "zeros add exp matmul cat stack topk sort max cumsum tril softmax reshape T chunk fft ifft "
        "rfft irfft addcmul addcdiv cummin scatter cross_entropy nll_loss kl_div qr cholesky inv "
        "solve det eigh svd digamma block_diag pdist diff hann_window index_fill rand randn rand_like randint bernoulli normal"
    )
    assert [name for name in names.split() if not has_programs(name)] == []


def test_places_in_memory_are_counted_from_where_it_begins() -> None:
    """Rows that lie alike show the same elements, so what one shows is no other's."""
    rows = ad.arange(12.0).view(3, 4)
    for row in [*rows] * 4:
        assert row.as_strided((2,), (1,), 1).tolist() == [1.0, 2.0]
        assert row.as_strided((2,), (1,)).tolist() == row[:2].tolist()


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_stay_views(name: str, tracked: bool) -> None:
    call = VIEWS[name]
    for _ in range(3):
        x = ad.arange(12.0).reshape(3, 4).clone().requires_grad_(tracked)
        leaves, _ = flatten(call(x * 1 if tracked else x))
        with CONTEXT.having(reference=True):
            source = x * 1 if tracked else x
            want, _ = flatten(call(source))
        for view, wanted in zip(leaves, want, strict=True):
            assert described(view) == described(wanted)
            assert view.storage_offset() == wanted.storage_offset()
            assert type(view.grad_fn) is type(wanted.grad_fn)
            assert str(view.grad_fn).split(" at ")[0] == str(wanted.grad_fn).split(" at ")[0]
            assert view._is_view()
            assert tracked or view.data_ptr() == wanted.data_ptr()
        if not tracked:
            with ad.no_grad():
                for view in leaves:
                    view.fill_(7.0) if name != "expand" else view[0].fill_(7.0)
            assert (x == 7).any()


def test_gradients_go_through() -> None:
    """A tensor that needs a gradient meets no program that would lose it."""
    x = ad.randn(2, 4)
    weight = ad.nn.Parameter(ad.randn(3, 4))
    for _ in range(4):
        F.linear(x, x).softmax(-1).cumsum(0)
        out = F.linear(x, weight).softmax(-1).cumsum(0)
        assert out.requires_grad
        weight.grad = None
        out.square().sum().backward()
        assert weight.grad is not None
        y = x.clone().requires_grad_()
        view = y[:1]
        assert (view.exp() + y.T[:, :1].sum()).requires_grad
        z = x.clone()
        part = z[0]  # a view of what becomes part of the tape later
        z.mul_(weight[:1].sum())
        assert part.exp().requires_grad
        assert (part + part).requires_grad
        with ad.no_grad():
            assert not F.linear(x, weight).requires_grad


def test_literals_are_told_apart_though_they_change() -> None:
    sizes = [2, 3]
    for _ in range(4):
        assert ad.zeros(sizes).shape == (2, 3)
    sizes[1] = 4
    assert ad.zeros(sizes).shape == (2, 4)
    x = ad.arange(4)
    for _ in range(3):
        assert (x + 1).dtype is ad.int64
        assert (x + 1.0).dtype is ad.float32
        assert (x * True).dtype is ad.int64
        assert ad.full((2,), 1).dtype is ad.int64
        assert ad.full((2,), 1.0).dtype is ad.float32
        assert ad.full((2,), True).dtype is ad.bool
        assert str((ad.zeros(1) * -0.0).item()) == "-0.0"
        assert str((ad.zeros(1) * 0.0).item()) == "0.0"


@needs_native
def test_equal_literals_of_other_classes_have_programs_of_their_own() -> None:
    """Else the program of one would be listed again at each call of the other."""
    x = ad.ones(2, 4)
    for _ in range(6):
        for size in ((3, 2, 4), [3, 2, 4], ad.Size((3, 2, 4))):
            assert x.expand(size).shape == (3, 2, 4)
    (calls,) = [o for o in enlisted._owners if isinstance(o, SmallCalls) and o.name == "expand"]
    literals = [entry[2][1] for entry in every(calls.small)]
    assert sorted(type(x).__name__ for x in literals) == ["Size", "list", "tuple"]


def test_settings_are_heeded() -> None:
    x = ad.ones(2, 2)
    for _ in range(4):
        ad.zeros(2), ad.ones(2), x @ x
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.zeros(2).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert ad.zeros(2).dtype is ad.float32
    for _ in range(4):
        ad.empty(2), ad.empty_like(x.T), ad.empty_strided((2, 3), (1, 2))
    ad.use_deterministic_algorithms(True)  # which fills memory that nobody has written
    try:
        assert ad.empty(2).isnan().all()
        assert ad.empty_like(x.T).isnan().all()
        assert ad.empty_strided((2, 3), (1, 2)).isnan().all()
    finally:
        ad.use_deterministic_algorithms(False)
    with ad.device("meta"):
        assert ad.zeros(2).is_meta
    with ad.device("cpu"):
        assert not ad.zeros(2).is_meta
    with ad.autocast("cpu", dtype=ad.bfloat16):
        assert (x @ x).dtype is ad.bfloat16
    with ad.inference_mode():
        assert ad.zeros(2).is_inference()
    assert ad.func.vmap(lambda row: row.exp() + row)(x).shape == (2, 2)
    assert ad.zeros(2, requires_grad=True).is_leaf
    assert ad.zeros(2, requires_grad=True).requires_grad
    assert not ad.zeros(2).requires_grad


def test_results_are_apart() -> None:
    """What is written to one result is not in the next, nor in what it was made of."""
    x = ad.arange(4.0)
    for _ in range(4):
        first, second = ad.zeros(3), x.exp()
        assert first.tolist() == [0.0, 0.0, 0.0]
        first.fill_(9.0), second.fill_(9.0)
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    x[0] = 5.0
    assert x.neg().tolist() == [-5.0, -1.0, -2.0, -3.0]


WRITERS: dict[str, tuple[Call, Call]] = {
    "elu": (lambda x: F.elu(x, 1.0, True), lambda v: np.where(v > 0, v, np.expm1(v))),
    "elu by name": (lambda x: F.elu(x, inplace=True), lambda v: np.where(v > 0, v, np.expm1(v))),
    "silu": (lambda x: F.silu(x, inplace=True), lambda v: v / (1 + np.exp(-v))),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.5, True), lambda v: np.where(v > 0, v, 0.5 * v)),
    "add": (lambda x: ad.add(x, 1.0, out=x), lambda v: v + 1),
}


@pytest.mark.parametrize("name", WRITERS)
def test_functions_that_write_do_so_once(name: str) -> None:
    """To try a program is to call the function once more."""
    call, reference = WRITERS[name]
    x = ad.linspace(-2, 2, 8)
    wanted = x.numpy().astype(np.float64)
    for _ in range(20):
        call(x)
        wanted = reference(wanted)
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_warnings_and_errors_come_each_time() -> None:
    x = ad.ones(2, 4)
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            F.softmax(x)
        assert caught
        with pytest.raises(RuntimeError):
            ad.cat([x, ad.ones(3)])
        with pytest.raises(IndexError):
            x.sum(5)
        F.gaussian_nll_loss(x, x, x)
        with pytest.raises(ValueError, match="negative"):
            F.gaussian_nll_loss(x, x, -x)
        F.one_hot(ad.tensor([0, 2]), 3)
        with pytest.raises(RuntimeError):
            F.one_hot(ad.tensor([0, 3]), 3)
        x.gather(1, ad.tensor([[0, 3]]))
        with pytest.raises((IndexError, RuntimeError)):
            x.gather(1, ad.tensor([[0, 4]]))


def test_named_results_have_their_names() -> None:
    x = ad.tensor([[3.0, 1.0, 2.0]])
    for _ in range(3):
        assert x.sort().indices.tolist() == [[1, 2, 0]]
        assert x.max(1).values.tolist() == [3.0]
        assert x.max().item() == 3.0
        assert type(x.topk(2)).__name__ == "topk"
        assert x.sort(descending=True).values.tolist() == [[3.0, 2.0, 1.0]]


def test_operations_are_seen_by_profiler_and_compiler() -> None:
    x = ad.ones(2, 3)

    def call(x: ad.Tensor) -> ad.Tensor:
        return x.exp().cumsum(1) + x

    for _ in range(4):
        want = call(x)
    with ad.profiler.profile() as profile:
        call(x)
    assert any("exp" in event.key for event in profile.key_averages())
    np.testing.assert_allclose(ad.compile(call)(x).numpy(), want.numpy(), rtol=1e-6)


def test_created_leaves_ask_for_a_gradient() -> None:
    for _ in range(4):
        ad.ones(3), ad.full((2,), 1.5)
        for leaf in (ad.ones(3, requires_grad=True), ad.full((2,), 1.5, requires_grad=True)):
            assert leaf.requires_grad
            assert leaf.is_leaf
        assert not ad.ones(3, requires_grad=False).requires_grad
        with pytest.raises(RuntimeError, match="floating point and complex"):
            ad.ones(3, dtype=ad.int64, requires_grad=True)
        with ad.no_grad():
            assert ad.zeros(2, requires_grad=True).requires_grad
