"""Operations that are given positions, and windows of images, as fragments: the table's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import fragments, sightings
from adjoint.engine.graph.eager.fragments import FRAGMENTS, name_of

ROWS, COLUMNS, CHOSEN = 61, 53, 67


@pytest.fixture(autouse=True)
def few_sightings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    FRAGMENTS.forget()
    yield
    FRAGMENTS.forget()


def operands(dtype: Any, seed: int) -> dict[str, ad.Tensor]:
    """Of one dtype, with positions that meet each other."""
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> ad.Tensor:
        if dtype is ad.bool:
            return ad.from_numpy(rng.random(shape) < 0.5)
        x = ad.from_numpy(rng.standard_normal(shape) * 100)
        return x.to(dtype)

    rows = ad.from_numpy(rng.integers(-ROWS, ROWS, CHOSEN))
    return {
        "x": some(ROWS, COLUMNS),
        "y": some(CHOSEN, COLUMNS),
        "rows": rows,
        "columns": ad.from_numpy(rng.integers(0, COLUMNS, CHOSEN)),
        "at": ad.from_numpy(rng.integers(0, ROWS, (CHOSEN, COLUMNS))),
        "values": some(CHOSEN),
    }


GIVEN_POSITIONS: dict[str, Callable[..., ad.Tensor]] = {
    "rows": lambda x, rows, **_: x[rows],
    "pairs": lambda x, rows, columns, **_: x[rows, columns],
    "columns": lambda x, columns, **_: x[:, columns],
    "select": lambda x, columns, **_: x.index_select(1, columns),
    "gather": lambda x, at, **_: x.gather(0, at),
    "put": lambda x, y, rows, **_: x.index_put((rows,), y),
    "put pairs": lambda x, rows, columns, values, **_: x.index_put((rows, columns), values),
    "put and add": lambda x, y, rows, **_: x.index_put((rows,), y, accumulate=True),
    "add": lambda x, y, columns, **_: x.index_add(0, columns, y),
    "add columns": lambda x, y, columns, **_: x.t().index_add(0, columns, y[:, :1] + x[:, 0]),
    "scatter": lambda x, y, at, **_: x.scatter(0, at, y),
    "scatter and add": lambda x, y, at, **_: x.scatter_add(0, at, y),
    "largest": lambda x, y, at, **_: x.scatter_reduce(0, at, y, "amax"),
    "rolled": lambda x, **_: x.roll((1, -3), (0, 1)),
}


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "bfloat16",
        *[pytest.param(name, marks=pytest.mark.slow) for name in ("int64", "bool", "complex64")],
    ],
)
def test_positions_give_the_bits_of_the_table(dtype: str) -> None:
    given = operands(getattr(ad, dtype), len(dtype))
    for name, call in GIVEN_POSITIONS.items():
        try:
            with CONTEXT.having(reference=True):
                want = call(**given)
        except (RuntimeError, TypeError, NotImplementedError):  # no such function of these numbers
            continue
        for _ in range(sightings.WORTH + 1):
            got = call(**given)
            assert got.dtype is want.dtype, name
            assert ad.equal(got, want), name
    made = {name_of(key[0]) for key, fragment in FRAGMENTS.by_kind.items() if fragment is not None}
    # Few complex numbers are picked by the table, and many as words of eight bytes (`as_words`).
    assert ({"roll"} if dtype == "complex64" else {"index", "index_put", "scatter"}) <= made


def test_gradients_of_positions() -> None:
    given = operands(ad.float32, 3)
    for name, call in GIVEN_POSITIONS.items():
        x = given["x"].clone().requires_grad_()
        y = given["y"].clone().requires_grad_()
        found = []
        for reference in (True, False, False):
            with CONTEXT.having(reference=reference):
                out = call(**{**given, "x": x, "y": y})
                weights = ad.linspace(-1, 2, out.numel()).reshape(out.shape)
                grads = ad.autograd.grad((out * weights).sum(), (x, y), allow_unused=True)
                found.append([None if g is None else g.numpy() for g in grads])
        for one in found[1:]:
            for mine, right in zip(one, found[0], strict=True):
                assert (mine is None) == (right is None), name
                if mine is not None and right is not None:
                    np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-4, err_msg=name)


def test_positions_out_of_range_are_told_as_the_table_tells() -> None:
    x = ad.zeros(ROWS, COLUMNS)
    wrong = ad.full((CHOSEN,), ROWS)
    for _ in range(sightings.WORTH + 1):
        x[wrong - 1]
        with pytest.raises(IndexError, match="61"):
            x[wrong]


def test_ever_new_numbers_of_positions_are_left_to_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragments, "CHOSEN_SHAPES", 2)
    x = ad.zeros(ROWS, COLUMNS, requires_grad=True)
    for n in range(40, 46):
        x[ad.arange(n)].sum().backward()
    index = [key for key in FRAGMENTS.by_kind if name_of(key[0]) == "index"]
    assert len(index) <= 2


IMAGES: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "mean of windows": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(19, 8), mode="bicubic", align_corners=True),
    "antialiased": lambda x: F.interpolate(x, size=(7, 5), mode="bilinear", antialias=True),
    "nearest": lambda x: F.interpolate(x, size=(31, 8), mode="nearest"),
    "grid": lambda x: F.grid_sample(
        x, F.affine_grid(ad.tensor([[[0.7, 0.1, 0.2], [0.0, 1.2, 0.1]]]), (1, 3, 9, 11), False)
    ),
    "cross": lambda x: ad.cross(x, x.flip(2), dim=1),
    "distances": lambda x: F.pdist(x.reshape(-1, 29)),
    "margins": lambda x: F.multi_margin_loss(x.reshape(-1, 29), ad.arange(87) % 29),
    "soft margin": lambda x: F.soft_margin_loss(x, x.sign()),
}


@pytest.mark.parametrize("name", IMAGES)
def test_windows_and_losses_give_what_the_table_gives(name: str) -> None:
    x = ad.from_numpy(np.random.default_rng(len(name)).standard_normal((1, 3, 29, 29))).float()
    x = x.requires_grad_()
    found = []
    for reference in (True, False, False):
        with CONTEXT.having(reference=reference):
            out = IMAGES[name](x)
            weights = ad.linspace(-1, 2, out.numel()).reshape(out.shape)
            (grad,) = ad.autograd.grad((out * weights).sum(), x)
            found.append((out.detach().numpy(), grad.numpy()))
    for one in found[1:]:
        for mine, right in zip(one, found[0], strict=True):
            np.testing.assert_allclose(mine, right, rtol=2e-5, atol=2e-5)


def test_records_are_fragments_here() -> None:
    names = "index index_put scatter scatter_reduce roll resample resample_all grid_sampler cross"
    assert all(REGISTRY[name].large for name in names.split())


@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}], ids=str)
@pytest.mark.parametrize("shape", [(700,), (0,), (30, 31)])
def test_rows_of_a_table(dtype: Any, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(9)
    rows = rng.integers(-8, 8, (60, 41)).astype(float)  # exact in every dtype
    rows[1, 2], rows[2, 1] = np.nan, np.inf
    index = rng.integers(0, 60, shape)
    g = rng.integers(-2, 3, (*shape, 41)).astype(float)
    want = np.zeros((60, 41))
    counted = index.ravel() != options.get("padding_idx", -1)
    np.add.at(want, index.ravel()[counted], g.reshape(-1, 41)[counted])
    if options.get("scale_grad_by_freq"):
        want /= np.maximum(np.bincount(index.ravel(), minlength=60), 1)[:, None]
    for turned in (False, True):
        given = ad.tensor(rows.T.copy(), dtype=dtype).T if turned else ad.tensor(rows, dtype=dtype)
        table = given.requires_grad_()
        for _ in range(3):  # by the table, as a fragment, found natively
            out = F.embedding(ad.tensor(index), table, **options)
            np.testing.assert_array_equal(out.detach().float().numpy(), rows[index])
            assert out.is_contiguous()
        (got,) = ad.autograd.grad(out, table, ad.tensor(g, dtype=dtype))
        exact = ad.tensor(want).to(dtype).float().numpy()
        np.testing.assert_allclose(got.float().numpy(), exact, rtol=2 * ad.finfo(dtype).eps)
    for wrong in (60, -1):
        with pytest.raises((IndexError, RuntimeError)):
            F.embedding(ad.tensor(np.append(index, wrong)), table)


IN_ORDER: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(1, descending=True),
    "argsort": lambda x: x.argsort(0),
    "topk": lambda x: x.topk(5, 1),
    "kthvalue": lambda x: x.kthvalue(7, 1),
    "median": lambda x: x.median(1),
    "mode": lambda x: x.mode(1),
    "unique": lambda x: x.unique(),
    "neighbours": lambda x: x.unique_consecutive(),
    "count": lambda x: x.count_nonzero(1),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_equal_elements_of_few_are_ordered_as_the_table_orders_them(name: str) -> None:
    call = IN_ORDER[name]
    for dtype in (ad.int64, ad.uint8, ad.float32):
        for shape in ((32, 32), (7, 19)):
            rng = np.random.default_rng(len(name))
            x = ad.from_numpy(rng.integers(0, 9, shape)).to(dtype)
            with CONTEXT.having(reference=True):
                want = call(x)
            for _ in range(40):  # as it is, as a fragment, found by native code
                got = call(x)
            for mine, right in zip(
                *[[r] if isinstance(r, ad.Tensor) else r for r in (got, want)], strict=True
            ):
                assert mine.dtype is right.dtype
                np.testing.assert_array_equal(mine.numpy(), right.numpy())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.int16, np.int64, np.float32])
def test_distinct_values_alone(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for shape in ((), (0,), (1,), (40, 50)):
        array = rng.integers(-200, 200, shape).astype(dtype)
        x = ad.from_numpy(np.asarray(array))
        np.testing.assert_array_equal(x.unique().numpy(), np.unique(array))
        line = array.reshape(-1)
        apart = line[np.append(True, line[1:] != line[:-1])[: line.size]]
        np.testing.assert_array_equal(x.unique_consecutive().numpy(), apart)
