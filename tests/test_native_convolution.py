"""Convolutions in native code, against float64 and at several thread counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.templates.convolution import narrow, template
from adjoint.engine.backends.llvm.templates.product import tiles
from adjoint.engine.graph.eager.fragments import FRAGMENTS

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@dataclass(frozen=True)
class Case:
    """Examples, channels in and out, sizes, kernel and the rest of a convolution's geometry."""

    n: int
    channels: int
    outputs: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1


CASES = [
    Case(2, 3, 5, (7, 7), (3, 3)),
    Case(2, 1, 32, (12, 12), (3, 3), padding=1),  # a first layer
    Case(2, 16, 24, (9, 9), (3, 3), padding=1),
    Case(2, 16, 24, (9, 10), (3, 3), stride=2, padding=1),
    Case(3, 8, 12, (11, 11), (3, 3), padding=2, dilation=2),
    Case(3, 16, 9, (11, 11), (1, 1)),
    Case(3, 16, 24, (11, 11), (1, 1), stride=2),  # most phases of its gradient have no taps
    Case(2, 16, 24, (11, 11), (5, 5), stride=3, padding=2, groups=4),
    Case(1, 70, 66, (5, 5), (3, 3), padding=1),  # several blocks of k, rows split
    Case(3, 12, 12, (8, 8), (3, 3), padding=1, groups=12),  # depthwise
    Case(3, 12, 24, (8, 9), (3, 3), stride=2, padding=1, groups=12),
    Case(2, 4, 6, (33,), (5,), stride=2, padding=1),
    Case(2, 3, 4, (300,), (280,)),
    Case(2, 4, 6, (5, 6, 7), (3, 2, 3), stride=(1, 2, 1), padding=1),
    Case(2, 4, 6, (6, 6), (3, 3), padding=5),
    Case(5, 2, 3, (1, 1), (1, 1)),
    Case(1, 2, 3, (9, 8), (2, 3), stride=(4, 1)),  # a stride larger than the kernel
    Case(3, 7, 40, (13, 11), (5, 3), stride=2, padding=1),  # three vectors of channels, not full
    Case(1, 5, 260, (6, 7), (3, 3), padding=(1, 0)),  # many weights for few positions
    Case(2, 32, 26, (9, 9), (1, 1), groups=2),  # products of matrices
    Case(3, 10, 28, (1, 1), (4, 3), groups=2),  # transposed, a product with all taps
    Case(2, 12, 30, (5, 4), (4, 5), stride=(2, 3), padding=1, groups=2),  # blocks of taps turned
]


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Several numbers of workers."""
    before = ad.get_num_threads()
    ad.set_num_threads(request.param)
    yield request.param
    ad.set_num_threads(before)


def step(case: Case, transposed: bool = False) -> Any:
    """The convolution and its two gradients."""
    rank = len(case.sizes)

    def run(x: Any, w: Any, scale: Any) -> Any:
        if transposed:
            y = TRANSPOSED[rank](
                x, w, None, case.stride, case.padding, 0, case.groups, case.dilation
            )
        else:
            y = CONV[rank](x, w, None, case.stride, case.padding, case.dilation, case.groups)
        return y, *ad.autograd.grad(y, (x, w), y * scale)

    return run


def operands(case: Case, dtype: Any, transposed: bool = False) -> Any:
    """An input, weights and a number, fresh random."""
    rng = np.random.default_rng(0)
    inner = (case.channels // case.groups, case.outputs)
    if transposed:
        shape: tuple[int, ...] = (case.channels, case.outputs // case.groups, *case.kernel)
    else:
        shape = (inner[1], inner[0], *case.kernel)
    x = rng.standard_normal((case.n, case.channels, *case.sizes))
    w = rng.standard_normal(shape)
    return (
        ad.tensor(x, dtype=dtype, requires_grad=True),
        ad.tensor(w, dtype=dtype, requires_grad=True),
        ad.tensor(rng.standard_normal(()), dtype=dtype),
    )


def agree(got: Any, want: Any, dtype: Any) -> None:
    tolerance = 3e-6 if dtype is ad.float32 else 1e-13
    for a, b in zip(got, want, strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=tolerance * max(np.abs(b).max(), 1), rtol=0)


def fits(case: Case) -> bool:
    """Whether windows fit into the images."""
    return case.sizes != (1, 1) or set(case.kernel) == {1}


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("case", [c for c in CASES if fits(c)], ids=str)
def test_values_and_gradients(case: Case, dtype: Any) -> None:
    got = compile(step(case), backend="native")(*operands(case, dtype))
    agree(got, step(case)(*operands(case, ad.float64)), dtype)


@pytest.mark.parametrize("case", [c for c in CASES if c.padding != 5], ids=str)
def test_transposed(case: Case) -> None:
    run = step(case, transposed=True)
    got = compile(run, backend="native")(*operands(case, ad.float32, True))
    agree(got, run(*operands(case, ad.float64, True)), ad.float32)


@pytest.mark.parametrize("case", CASES[:12:3] + CASES[-5:-2], ids=str)
def test_any_number_of_threads_gives_the_same_bits(case: Case, threads: int) -> None:
    before = ad.get_num_threads()
    got = compile(step(case), backend="native")(*operands(case, ad.float32))
    ad.set_num_threads(1)
    want = compile(step(case), backend="native")(*operands(case, ad.float32))
    ad.set_num_threads(before)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("registers", [(128, 16, False), (256, 16, False), (512, 32, False)])
@pytest.mark.parametrize("case", CASES[1:12], ids=str)
@pytest.mark.usefixtures("anew")
def test_tiles_of_other_processors(
    case: Case, registers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code runs here too, vectors that are too wide in halves."""
    monkeypatch.setattr(tiles, "registers", lambda: registers)
    got = compile(step(case), backend="native")(*operands(case, ad.float32))
    agree(got, step(case)(*operands(case, ad.float64)), ad.float32)


@pytest.mark.skipif(not tiles.has_wide_registers(), reason="registers of 512 bits, with masks")
def test_wide_registers_have_kernels_of_their_own() -> None:
    """Output channels along the lanes, products where there is one tap, lines that are short."""
    for case, wanted in (
        (Case(1, 3, 24, (9, 9), (3, 3), stride=2), "strip_sums_"),
        (Case(1, 24, 24, (9, 9), (1, 1)), "product_"),
        (Case(1, 8, 8, (7, 7), (3, 3), groups=8), "planes_"),
        (Case(1, 8, 8, (7, 37), (3, 9), groups=8), "lines_"),
    ):
        x, w, _ = operands(case, ad.float32)
        run = compile(lambda x, w, c=case: F.conv2d(x, w, None, c.stride, groups=c.groups))
        with ad.no_grad():
            run(x, w)
        names = run.latest.executable.sources()
        assert any(name.startswith(wanted) for name in names), (case, list(names))
    x, w, _ = operands(CASES[-1], ad.float32, transposed=True)
    spread = compile(lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2))
    with ad.no_grad():
        spread(x, w)
    assert any(name.startswith("turn_blocks_") for name in spread.latest.executable.sources())


def test_filters_laid_down_at_single_pixels_are_a_product() -> None:
    """Wherever channels and weights lie; not where there is padding, or taps lie apart."""
    rng = np.random.default_rng(2)
    x, w = (
        ad.tensor(rng.standard_normal((3, 8, 1, 1))),
        ad.tensor(rng.standard_normal((8, 5, 4, 3))),
    )
    last = w.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)

    def run(x: Any, w: Any, last: Any) -> Any:
        spread = F.conv_transpose2d
        return [
            spread(x, w), spread(x[::2], last), spread(x[:, ::2], w[1::2, 1:]),
            spread(x, w, padding=(1, 0)), spread(x, w, output_padding=1, stride=2),
            spread(x, w, dilation=2), spread(x, w[:, :, 1:, 1:]),
        ]  # fmt: skip

    agree(compile(run, backend="native")(x, w, last), run(x, w, last), ad.float64)
    product = compile(F.conv_transpose2d)
    product(x, w)
    assert not any("sums" in name for name in product.latest.executable.sources())


LINES = [
    Case(2, 5, 5, (9, 37), (3, 3), padding=1, groups=5),
    Case(1, 3, 6, (14, 75), (3, 5), stride=(1, 2), padding=2, groups=3),
    Case(1, 4, 4, (203,), (7,), dilation=2, groups=4),
    Case(3, 4, 2, (2, 5, 33), (2, 3, 3), stride=(1, 2, 2)),
]
PLANES = [  # images read where they lie, with zeros around them
    Case(1, 6, 12, (13, 50), (5, 3), stride=(2, 1), padding=(4, 3), dilation=(1, 2), groups=6),
    Case(2, 3, 3, (1, 18), (3, 3), padding=1, groups=3),
    Case(1, 4, 4, (40, 37), (5, 5), stride=2, padding=2, groups=4),
    Case(2, 4, 4, (9, 1), (1, 1), padding=3, groups=4),
]
SHORT = [  # shorter than a vector of any kind where registers are wide
    Case(2, 5, 5, (9, 5), (3, 3), padding=1, groups=5),
    Case(1, 4, 4, (6, 13), (3, 5), stride=2, padding=2, groups=4),
]
SHORT_SPREAD = [Case(1, 6, 6, (3, 5), (3, 5), stride=(1, 3), groups=6)]
SPREAD = [  # transposed: results of a phase lie apart
    Case(1, 5, 5, (9, 33), (3, 3), padding=1, groups=5),  # but here, where taps go backwards
    Case(2, 5, 3, (4, 21), (4, 4), stride=2, padding=1),
    Case(1, 6, 6, (3, 35), (3, 5), stride=(1, 3), groups=6),
]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("registers", [None, (128, 16, False), (256, 16, False), (512, 32, False)])
@pytest.mark.usefixtures("anew")
def test_sums_along_lines_are_those_of_positions(
    registers: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes [lines] and [planes], to the bit: what the kernel of positions gives, of any width."""
    if registers:
        monkeypatch.setattr(tiles, "registers", lambda: registers)
    wide = tiles.has_wide_registers()
    lines, apart = LINES + PLANES[:3] + (SHORT + PLANES[3:]) * wide, SPREAD + SHORT_SPREAD * wide
    inputs = [operands(case, dtype) for case in lines]
    inputs += [operands(case, dtype, transposed=True) for case in apart]

    def run(inputs: Any) -> Any:
        given = [(x, w) for x, w, _ in inputs]
        plain, spread = given[: len(lines)], given[len(lines) :]
        return [
            CONV[len(c.sizes)](x, w, None, c.stride, c.padding, c.dilation, c.groups)
            for c, (x, w) in zip(lines, plain, strict=True)
        ] + [
            TRANSPOSED[len(c.sizes)](x, w, None, c.stride, c.padding, 0, c.groups)
            for c, (x, w) in zip(apart, spread, strict=True)
        ]

    def made(kernel: str, but: str) -> list[Any]:
        compiled = compile(run, backend="native")
        results = compiled(inputs)
        names = compiled.latest.executable.sources()
        assert any(name.startswith(kernel) for name in names)
        assert not any(name.startswith(but) for name in names)
        return [x.detach().numpy() for x in results]

    found = [made("planes_", "narrow_")] if wide else []
    monkeypatch.setattr(template, "is_by_planes", lambda *given: False)
    found.append(made("lines_", "narrow_"))
    monkeypatch.setattr(narrow, "goes_along_lines", lambda kind, walk: False)
    wanted = made("narrow_", "lines_")
    for results in found:
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


INNERMOST = [
    Case(2, 13, 13, (14, 15), (3, 3), padding=1, groups=13),  # depthwise: a vector and one more
    Case(1, 40, 40, (11, 9), (5, 5), stride=2, padding=2, groups=40),
    Case(2, 24, 24, (9, 16), (3, 2), stride=(1, 3), dilation=(2, 1), groups=24),
    Case(4, 24, 48, (7, 7), (3, 3), padding=1, groups=24),  # two filters for each channel
    Case(2, 19, 21, (14, 11), (3, 3), padding=1),  # by Winograd's points, tiles at edges
    Case(2, 32, 24, (9, 8), (3, 3)),
    Case(2, 24, 10, (12, 13), (3, 3), stride=2, padding=1),
    Case(2, 20, 3, (9, 13), (4, 4), stride=2, padding=1),  # few channels of the result
    Case(2, 3, 70, (20, 21), (5, 5), stride=2, padding=2),  # few of the input
    Case(1, 66, 34, (9, 8), (1, 1), stride=2),
    Case(1, 12, 10, (4, 8, 9), (3, 3, 3), padding=1),
    Case(1, 12, 12, (4, 8, 9), (3, 3, 3), padding=1, groups=12),
]


def by_memory(case: Case, dtype: Any) -> Any:
    """The same operands with channels innermost."""
    *given, scale = operands(case, dtype)
    turned = [x.detach().contiguous(memory_format=last_of(case)) for x in given]
    return *[x.requires_grad_() for x in turned], scale


def last_of(case: Case) -> Any:
    return ad.channels_last if len(case.sizes) == 2 else ad.channels_last_3d


@pytest.mark.parametrize(
    ("registers", "dtype", "cases"),
    [
        (None, ad.float32, INNERMOST), (None, ad.float64, INNERMOST[::2]),
        ((256, 16, False), ad.float64, INNERMOST[1::2]),
        ((512, 32, False), ad.float32, INNERMOST[1::3]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("anew")
def test_channels_innermost_give_the_bits_of_rows(
    registers: Any, dtype: Any, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eager convolutions and their gradients: of one order of sums, wherever channels lie."""
    if registers:
        monkeypatch.setattr(tiles, "registers", lambda: registers)
    FRAGMENTS.forget()
    for case in cases:
        got, want = step(case)(*by_memory(case, dtype)), step(case)(*operands(case, dtype))
        for a, b in zip(got, want, strict=True):
            assert a.is_contiguous(memory_format=last_of(case)), case
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), str(case))
        agree(got, step(case)(*operands(case, ad.float64)), dtype)
    made = [fragment for fragment in FRAGMENTS.by_kind.values() if fragment is not None]
    names = {name for fragment in made for name in fragment.executable.sources()}
    assert any(name.startswith("channel_sums_") for name in names)
    FRAGMENTS.forget()


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_filters_of_one_tap_are_products_where_channels_lie_innermost(dtype: Any) -> None:
    for case in (Case(3, 17, 33, (9, 10), (1, 1)), Case(1, 30, 5, (3, 7, 9), (1, 1, 1))):
        got = step(case)(*by_memory(case, dtype))
        agree(got, step(case)(*operands(case, ad.float64)), dtype)
        assert all(a.is_contiguous(memory_format=last_of(case)) for a in got)
    FRAGMENTS.forget()


def test_operands_lie_anyhow() -> None:
    """Channels last, expanded, transposed: strides are words of the kernels."""
    rng = np.random.default_rng(1)
    x = ad.tensor(rng.standard_normal((2, 6, 9, 8)))
    w = ad.tensor(rng.standard_normal((3, 3, 8, 10)))

    def run(x: Any, w: Any) -> Any:
        image = x.permute(0, 2, 1, 3)  # (2, 9, 6, 8)
        last = x.permute(0, 3, 1, 2)  # (2, 8, 6, 9)
        kernel = w.permute(3, 2, 0, 1)  # (10, 8, 3, 3)
        wide = image[:, :1].expand(2, 8, 6, 8)
        return F.conv2d(last, kernel, padding=1), F.conv2d(wide, kernel), F.conv2d(last, kernel)

    agree(compile(run, backend="native")(x, w), run(x, w), ad.float64)


def test_values_that_are_not_numbers_stay_where_they_belong() -> None:
    """Padding and unused lanes are zeros, not memory's remains: NaN reaches its windows alone."""
    x = ad.zeros(1, 2, 7, 7)
    x[0, 0, 0, 0] = float("nan")
    x[0, 1, 6, 6] = float("inf")
    w = ad.ones(3, 2, 3, 3)
    run = step(Case(1, 2, 3, (7, 7), (3, 3), padding=1))
    arguments = (x.requires_grad_(), w.requires_grad_(), ad.tensor(1.0))
    got = compile(run, backend="native")(*arguments)
    want = run(*arguments)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True)


def test_no_part_runs_in_python() -> None:
    case = CASES[2]
    run = compile(step(case), backend="native")
    run(*operands(case, ad.float32))
    assert ", 0 calls of the eager table" in run.explain()


@st.composite
def geometries(draw: Any) -> Case:
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    small = st.integers(1, 3)
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    stride = tuple(draw(small) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    padding = tuple(draw(st.integers(0, 3)) for _ in range(rank))
    sizes = tuple(
        max(d * (k - 1) + 1 - 2 * p, 1) + draw(st.integers(0, 9))
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    )
    return Case(
        draw(small), groups * draw(st.integers(1, 5)), groups * draw(st.integers(1, 9)),
        sizes, kernel, stride, padding, dilation, groups,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(geometries())
def test_any_geometry(case: Case) -> None:
    got = compile(step(case), backend="native")(*operands(case, ad.float32))
    agree(got, step(case)(*operands(case, ad.float64)), ad.float32)
