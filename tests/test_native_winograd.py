"""Convolutions by Winograd's points, against float64 and against the direct way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.templates.convolution.winograd import images as winograd
from adjoint.engine.backends.llvm.templates.product import tiles
from tests.compiling_anew import compiled_anew
from tests.test_native_convolution import Case, agree, operands, step

SUITED = [
    Case(2, 16, 24, (9, 9), (3, 3), padding=1),
    Case(3, 12, 20, (14, 14), (3, 3), padding=1),
    Case(2, 40, 33, (7, 11), (3, 3)),
    Case(5, 17, 19, (13, 6), (3, 3), padding=2),
    Case(2, 32, 48, (10, 9), (3, 3), padding=1, groups=2),
]
BLOCKS = Case(1, 270, 130, (8, 7), (3, 3), padding=1)  # several blocks of channels and of rows


@contextmanager
def chosen(always: bool) -> Iterator[None]:
    """Programs compiled anew, all of whose convolutions by 3 x 3 go one way."""
    with compiled_anew(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "LEAST", 4 if always else 1 << 40)
        if always:
            patch.setattr(winograd, "direct_cycles", lambda *sizes: float("inf"))
        yield


def computed(case: Case, always: bool, of: Any = None, transposed: bool = False) -> list[Any]:
    """Results in float32, one way or the other."""
    with chosen(always):
        run = compile(step(case, transposed), backend="native")
        got = [x.detach() for x in run(*(of or operands(case, ad.float32, transposed)))]
    assert ("winograd" in run.explain()) is always
    return got


def test_it_is_chosen_by_itself() -> None:
    case = Case(4, 32, 32, (16, 16), (3, 3), padding=1)
    run = compile(step(case), backend="native")
    run(*operands(case, ad.float32))
    text = run.explain()
    assert text.count("template winograd ") == 2, "forward and by the input"
    assert text.count("template winograd_weight ") == 1


@pytest.mark.parametrize("case", SUITED, ids=str)
def test_errors_are_about_those_of_the_direct_way(case: Case) -> None:
    wanted = [x.detach().numpy() for x in step(case)(*operands(case, ad.float64))]
    ways = computed(case, always=True), computed(case, always=False)
    for mine, direct, want in zip(*ways, wanted, strict=True):
        error, usual = (np.sqrt(np.mean((x.numpy() - want) ** 2)) for x in (mine, direct))
        assert error <= 4 * usual


def test_sums_over_many_channels_of_one_sign_do_not_drift() -> None:
    case = Case(1, 256, 256, (4, 4), (3, 3), padding=1)

    def given_operands(dtype: Any) -> Any:
        x, w, _ = operands(case, dtype)
        return *(y.detach().abs().requires_grad_() for y in (x, w)), ad.ones((), dtype=dtype)

    got = computed(case, True, given_operands(ad.float32))
    for mine, want in zip(got, step(case)(*given_operands(ad.float64)), strict=True):
        exact = want.detach().numpy()
        assert np.sqrt(np.mean((mine.numpy() / exact - 1) ** 2)) < 1.5e-7


def test_a_large_element_does_not_blur_its_neighbours() -> None:
    """Errors are relative to a result's own window, whatever else is in the tile."""
    case = SUITED[1]

    def given_operands(dtype: Any) -> Any:
        x, w, scale = operands(case, dtype)
        with ad.no_grad():
            x[:, :, 3, 4] *= 1e7
        return x, w, scale

    got = computed(case, True, given_operands(ad.float32))[0].numpy()
    want = step(case)(*given_operands(ad.float64))[0].detach().numpy()
    far = np.ones(want.shape[2:], bool)
    far[2:5, 3:6] = False
    np.testing.assert_allclose(got[:, :, far], want[:, :, far], atol=1e-4)


def test_blocks_of_channels_and_rows() -> None:
    got = computed(BLOCKS, always=True)
    agree(got, step(BLOCKS)(*operands(BLOCKS, ad.float64)), ad.float32)


@pytest.mark.parametrize("case", SUITED[:3], ids=str)
def test_transposed(case: Case) -> None:
    got = computed(case, always=True, transposed=True)
    agree(got, step(case, transposed=True)(*operands(case, ad.float64, True)), ad.float32)


@st.composite
def geometries(draw: Any) -> Case:
    groups = draw(st.sampled_from([1, 1, 2]))
    padding = tuple(draw(st.integers(0, 3)) for _ in range(2))
    sizes = tuple(max(3 - 2 * p, 1) + draw(st.integers(0, 11)) for p in padding)
    inside, outside = (groups * draw(st.integers(4, 21)) for _ in range(2))
    return Case(
        draw(st.integers(1, 5)), inside, outside, sizes, (3, 3), padding=padding, groups=groups
    )


@settings(max_examples=15, deadline=None)
@given(geometries())
def test_any_geometry(case: Case) -> None:
    agree(computed(case, always=True), step(case)(*operands(case, ad.float64)), ad.float32)


@pytest.mark.slow
@pytest.mark.parametrize("registers", [(128, 16, False), (256, 16, False), (512, 32, False)])
@pytest.mark.parametrize("case", [SUITED[0], SUITED[3]], ids=str)
def test_tiles_of_other_processors(
    case: Case, registers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code runs here too, vectors that are too wide in halves."""
    monkeypatch.setattr(tiles, "registers", lambda: registers)
    agree(computed(case, always=True), step(case)(*operands(case, ad.float64)), ad.float32)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    case, before = SUITED[1], ad.get_num_threads()
    try:
        ad.set_num_threads(1)
        want = computed(case, always=True)
        ad.set_num_threads(threads)
        got = computed(case, always=True)
    finally:
        ad.set_num_threads(before)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


FEW = (1, 4, slice(2, 5), slice(3, 6))


@pytest.mark.parametrize(
    ("which", "place", "strange"),
    [
        *((0, (1, 4, 3, 5), x) for x in (np.nan, np.inf, -np.inf)),
        *((1, (6, 2, 1, 2), x) for x in (np.nan, np.inf, -np.inf)),
        (0, FEW, np.inf),
        (0, FEW, 3e38),  # sums of two overflow, and results do not
    ],
)
def test_what_is_not_finite_stays_where_it_belongs(which: int, place: Any, strange: float) -> None:
    """Sums over tiles would make NaN of infinities; nor may they overflow by themselves."""
    case = Case(2, 9, 10, (7, 8), (3, 3), padding=1)

    def given_operands() -> Any:
        x, w, scale = operands(case, ad.float32)
        with ad.no_grad():
            x, w = x.abs() * 1e-2 + 1e-2, w.abs() * 1e-2 + 1e-2
            (x, w)[which][place] = strange
        return x.requires_grad_(), w.requires_grad_(), scale.abs() * 1e-2

    got, wanted = (computed(case, always, given_operands()) for always in (True, False))
    for a, b in zip(got, wanted, strict=True):
        a, b = a.numpy(), b.numpy()
        assert np.array_equal(np.isnan(a), np.isnan(b))
        assert np.array_equal(np.isinf(a), np.isinf(b))
        finite = np.isfinite(b)
        np.testing.assert_allclose(a[finite], b[finite], rtol=1e-4)


def test_operands_lie_anyhow() -> None:
    """Channels last, transposed images and weights, a gradient that is one number."""
    rng = np.random.default_rng(1)
    x = ad.tensor(rng.standard_normal((2, 10, 8, 12)), dtype=ad.float32)
    w = ad.tensor(rng.standard_normal((3, 3, 12, 16)), dtype=ad.float32)

    def run(x: Any, w: Any) -> Any:
        x, w = x.requires_grad_(), w.requires_grad_()
        images, filters = x.permute(0, 3, 2, 1), w.permute(3, 2, 1, 0)
        y = F.conv2d(images, filters, padding=1)
        inner = F.conv2d(images, filters)
        return y, inner, *ad.autograd.grad(y.sum() + inner.mean(), (x, w))

    with chosen(always=True):
        native_run = compile(run, backend="native")
        got = native_run(x, w)
    assert "winograd" in native_run.explain()
    agree(got, run(x.double(), w.double()), ad.float32)


def test_float64_is_not_computed_so() -> None:
    with chosen(always=True):
        run = compile(step(SUITED[0]), backend="native")
        run(*operands(SUITED[0], ad.float64))
    assert "winograd" not in run.explain()


SIZES = (
    (3, 12, 16, 8, 6), (2, 9, 16, 7, 9), (5, 12, 17, 12, 5), (4, 13, 5, 3, 16), (3, 3, 16, 8, 6),
    (2, 2, 9, 6, 6),
)  # fmt: skip


def test_sizes_that_are_not_known_yet() -> None:
    """Images of several sizes, batches of several lengths; then too few channels for it."""

    def run(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w, padding=1)
        return y, *ad.autograd.grad(y, (x, w), y * 0.5)

    with chosen(always=True):
        native_run = compile(run, backend="native", dynamic=True)
        for n, channels, rows, height, width in SIZES:
            rng = np.random.default_rng(n)
            x = ad.tensor(rng.standard_normal((n, channels, height, width)), dtype=ad.float32)
            w = ad.tensor(rng.standard_normal((rows, channels, 3, 3)), dtype=ad.float32)
            got = native_run(x.requires_grad_(), w.requires_grad_())
            wanted = run(x.detach().double().requires_grad_(), w.detach().double().requires_grad_())
            agree(got, wanted, ad.float32)
            assert "winograd" in native_run.explain() or channels < 4
