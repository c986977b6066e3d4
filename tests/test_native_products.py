"""Matrix products in native code: every edge of a tile, every layout, against float64."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.backends.llvm.templates.product import cutting as planned
from adjoint.engine.backends.llvm.templates.product import packing, tiled, tiles

LAYOUTS = ("nn", "nt", "tn", "tt", "ss")  # rows contiguous, columns contiguous, neither
TILE = tiles.outer_tile("f32")
FLAT = tiles.flat_tile("f32", 0).columns
EDGES = [
    *product((1, TILE.rows - 1, TILE.rows + 1, 23), (1, TILE.columns, 17, 31), (0, 1, 3, 4, 29)),
    *product((2, 9, 16), (2, 8, 9, FLAT - 1, FLAT, FLAT + 1), (2, 65)),
    *product((1,), (FLAT - 1, FLAT, FLAT + 1, FLAT * 3 // 2, FLAT // 2, 8, 40, 150), (5, 70)),
    *product((0, 3), (0, 5), (0, 2)),
]
LARGE = [
    (130, 70, 1100),  # several blocks of the depth
    (70, 130, 1100),
    (300, 33, 600),  # several pieces
    (33, 300, 600),
    (48, 100, 2080),  # sixteen parts of the depth
    (1, 700, 530),  # along the rows of a large matrix
    (1, 1021, 263),
    (1, 96, 530),
    (3, 1, 530),  # one row alone, along whole and parts of vectors
    (5, 1, 64),
    (61, 1, 65),
    (700, 1, 530),
    (5, 300, 530),
    (300, 7, 1030),
    (260, 260, 64),
    (65, 65, 32),  # a column or two beyond whole tiles
    (130, 34, 40),
    (288, 96, 530),  # nine parts of rows as ten
    (70, 520, 530),  # columns of a large matrix, which are packed for all pieces
    *((67, columns, 37) for columns in range(2, 9)),  # thin: each count of columns
]
DTYPES = {"float32": ad.float32, "float64": ad.float64}


def operand(random: Any, shape: tuple[int, ...], layout: str, dtype: str) -> Any:
    """A random array of a shape, and what of a tensor of it in memory is asked for."""
    *batch, rows, columns = shape
    if layout == "n":
        return random.standard_normal(shape).astype(dtype), lambda x: x
    if layout == "t":
        array = random.standard_normal((*batch, columns, rows)).astype(dtype)
        return array, lambda x: x.mT
    array = random.standard_normal((*batch, rows * 2, columns * 3)).astype(dtype)
    return array, lambda x: x[..., ::2, ::3]


def pairs(shapes: Any, layout: str, dtype: str) -> tuple[list[Any], Any]:
    """Operands of products of these shapes, and the function that multiplies them all."""
    random = np.random.default_rng(0)
    arrays, views = [], []
    for m, n, k in shapes:
        for shape, how in zip(((m, k), (k, n)), layout, strict=True):
            array, view = operand(random, shape, how, dtype)
            arrays.append(array)
            views.append(view)

    def run(*tensors: Any) -> tuple[Any, ...]:
        seen = [view(x) for view, x in zip(views, tensors, strict=True)]
        return tuple(a @ b for a, b in zip(seen[::2], seen[1::2], strict=True))

    return arrays, run


def check(shapes: Any, layout: str, dtype: str) -> None:
    """Compiled products against those of float64."""
    arrays, run = pairs(shapes, layout, dtype)
    got = compile(run, backend="native")(*map(ad.tensor, arrays))
    want = run(*[Seen(x.astype(np.float64)) for x in arrays])
    for shape, a, b in zip(shapes, got, want, strict=True):
        a, b = a.numpy(), np.asarray(b)
        assert a.shape == b.shape, shape
        bound = (2 * shape[2] + 8) * np.finfo(dtype).eps
        np.testing.assert_allclose(a, b, atol=bound, rtol=0, err_msg=str(shape))


class Seen(np.ndarray):  # type: ignore[type-arg]
    """An array that has a tensor's `mT`."""

    def __new__(cls, array: Any) -> Any:
        return np.asarray(array).view(cls)

    @property
    def mT(self) -> Any:
        return self.swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_of_tiles(layout: str, dtype: str) -> None:
    check(EDGES, layout, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_blocks_and_pieces(layout: str, dtype: str) -> None:
    check(LARGE, layout, dtype)


def at_the_end(array: Any) -> Any:
    """The same numbers, right before memory that cannot be read."""
    size = -(-max(array.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    room = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), mmap.PAGESIZE, 0) != 0:
        pytest.skip("memory cannot be protected here")
    found = np.frombuffer(room, array.dtype, array.size, size - array.nbytes)
    found = found.reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="no mprotect")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_nothing_beyond_the_operands_is_read(layout: str, dtype: str) -> None:
    """Results are right either way; reading too far ends the process."""
    shapes = [shape for shape in [*EDGES, *LARGE] if all(shape)]
    arrays, run = pairs(shapes, layout, dtype)
    tensors = [ad.from_numpy(at_the_end(x)) for x in arrays]
    got = compile(run, backend="native")(*tensors)
    assert all(np.isfinite(x.numpy()).all() for x in got)


@pytest.mark.parametrize("registers", [(128, 16, False), (256, 16, False), (512, 32, False)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_of_other_processors(
    layout: str, registers: Any, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code runs here too, vectors that are too wide in halves."""
    monkeypatch.setattr(tiles, "registers", lambda: registers)
    check([*EDGES[::3], *LARGE], layout, "float32")


@pytest.fixture
def threads() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_do_not_depend_on_the_number_of_workers(layout: str, threads: None) -> None:
    arrays, run = pairs([*LARGE, (64, 64, 32)], layout, "float32")
    compiled = compile(run, backend="native")
    found = []
    for count in (1, 2, 3):
        ad.set_num_threads(count)
        found.append([x.numpy() for x in compiled(*map(ad.tensor, arrays))])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_no_less_accurate_than_numpy(layout: str) -> None:
    """Root mean squares of errors: of sums of 2000 products, and of positive ones."""
    arrays, run = pairs([(70, 90, 2000), (90, 70, 700), (200, 3, 2000)], layout, "float32")
    for given_ in (arrays, [np.abs(x) for x in arrays]):
        got = compile(run, backend="native")(*map(ad.tensor, given_))
        theirs = run(*map(Seen, given_))
        want = run(*[Seen(x.astype(np.float64)) for x in given_])
        for a, b, exact in zip(got, theirs, want, strict=True):
            error, bound = (np.sqrt(np.mean((np.asarray(x) - exact) ** 2)) for x in (a.numpy(), b))
            assert error <= 1.2 * bound


def test_errors_of_thin_products_do_not_grow_with_the_depth() -> None:
    """Sums along 70,000 products, and along positive ones: root mean squares of relative errors."""
    arrays, run = pairs([(40, 4, 70001), (40, 1, 70001), (3, 40, 70001)], "nt", "float32")
    for given_, bound in ((arrays, 1e-6), ([np.abs(x) for x in arrays], 3e-7)):
        got = compile(run, backend="native")(*map(ad.tensor, given_))
        want = run(*[Seen(x.astype(np.float64)) for x in given_])
        for a, exact in zip(got, want, strict=True):
            assert np.linalg.norm(a.numpy() - exact) <= bound * np.linalg.norm(exact)


@pytest.mark.parametrize(("m", "n", "k"), [(5, 17, 3), (40, 40, 600), (30, 1, 9), (1, 80, 9)])
def test_infinities_and_nans(m: int, n: int, k: int) -> None:
    """Zeros are multiplied too: zero times infinity is NaN, in its row and column only."""
    a, b = np.zeros((m, k), "float32"), np.ones((k, n), "float32")
    b[k - 1, n - 1] = np.inf
    a[m - 1, 0] = np.nan
    with np.errstate(invalid="ignore"):
        want = a @ b
    got = compile(lambda a, b: a @ b, backend="native")(ad.tensor(a), ad.tensor(b))
    np.testing.assert_array_equal(got.numpy(), want)


STEPS = st.sampled_from([1, 2, -1])


@st.composite
def matrices(draw: Any) -> Any:
    """Two batches of matrices that can be multiplied, as views of larger arrays."""
    m, n, k = (draw(st.integers(1, 21)) for _ in range(3))
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    found = []
    for rows, columns in ((m, k), (k, n)):
        mine = batch[draw(st.integers(0, len(batch))) :]
        shape = (*(1 if draw(st.booleans()) else size for size in mine), rows, columns)
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(STEPS) for _ in shape]
        found.append((shape, order, steps))
    return found


@settings(deadline=None, max_examples=60)
@given(matrices(), st.sampled_from(sorted(DTYPES)))
def test_strides_and_batches(given_: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    arrays = []
    for shape, order, steps in given_:
        large = random.standard_normal([shape[d] * abs(steps[d]) for d in order]).astype(dtype)
        arrays.append(large)

    def view(x: Any, shape: Any, order: Any, steps: Any) -> Any:
        back = [list(order).index(d) for d in range(len(shape))]
        x = x.permute(*back) if isinstance(x, ad.Tensor) else x.transpose(back)
        x = x[tuple(slice(None, None, abs(s)) for s in steps)]
        dims = [d for d, s in enumerate(steps) if s < 0]
        return (x.flip(dims) if isinstance(x, ad.Tensor) else np.flip(x, dims)) if dims else x

    def run(*tensors: Any) -> Any:
        a, b = (view(x, *how) for x, how in zip(tensors, given_, strict=True))
        return a @ b

    got = compile(run, backend="native")(*map(ad.tensor, arrays)).numpy()
    want = run(*[x.astype(np.float64) for x in arrays])
    np.testing.assert_allclose(got, want, atol=100 * np.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_of_many_matrices(layout: str) -> None:
    """So many members that each is one piece, with an edge in every direction."""
    random = np.random.default_rng(0)
    for m, n, k in ((65, 33, 21), (65, 65, 9)):
        shapes = (66, m, k), (66, k, n)
        (a, see_a), (b, see_b) = (
            operand(random, shape, how, "float32")
            for shape, how in zip(shapes, layout, strict=True)
        )
        fn = compile(lambda x, y, see_a=see_a, see_b=see_b: see_a(x) @ see_b(y), backend="native")
        got = fn(ad.tensor(a), ad.tensor(b)).numpy()
        want = see_a(Seen(a.astype("float64"))) @ see_b(Seen(b.astype("float64")))
        np.testing.assert_allclose(got, want, atol=1e-5, rtol=0)


def test_a_batch_of_rows_is_one_product() -> None:
    """A matrix that a batch shares is multiplied once, by the rows of all members."""
    x, w = ad.ones(6, 1, 40), ad.ones(30, 40)
    fn = compile(lambda x, w: x @ w.mT, backend="native")
    np.testing.assert_array_equal(fn(x, w).numpy(), np.full((6, 1, 30), 40.0))
    assert "matmul 6x30x40" in fn.explain()


def test_dynamic_sizes() -> None:
    """One plan for many sizes, tiles' edges among them."""
    random = np.random.default_rng(0)
    fn = compile(lambda x, w: (x @ w, x.mT @ x, w.mT @ x.mT), backend="native", dynamic=True)
    for m, k in ((33, 20), (34, 20), (35, 67), (64, 64), (100, 31), (47, 20), (2, 3)):
        x, w = random.standard_normal((m, k)), random.standard_normal((k, 24))
        got = fn(ad.tensor(x), ad.tensor(w))
        for a, b in zip(got, (x @ w, x.T @ x, w.T @ x.T), strict=True):
            np.testing.assert_allclose(a.numpy(), b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_products_with_vectors(seed: int) -> None:
    """Products of a column and a row, which their derivatives are: closed forms, and no products."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 90, 2).tolist()
    a, u, v = rng.standard_normal((m, n)), rng.standard_normal(m), rng.standard_normal(n)
    g = rng.standard_normal((2, m, 1))

    def gradients(a: ad.Tensor, u: ad.Tensor, v: ad.Tensor, g: ad.Tensor) -> list[ad.Tensor]:
        a, u, v = (x.detach().requires_grad_() for x in (a, u, v))
        loss = u @ (a @ v) + ad.dot(v, v) + ((a @ v.unsqueeze(1)) * g).sum()
        return list(ad.autograd.grad(loss, (a, u, v)))

    both = u + g.sum((0, 2))
    wanted = [np.outer(both, v), a @ v, a.T @ both + 2 * v]
    given = [ad.from_numpy(x) for x in (a, u, v, g)]
    compiled: Any = compile(gradients, backend="native")
    for got in (gradients(*given), compiled(*given)):
        for mine, right in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), right, rtol=1e-10, atol=1e-10)


def test_wide_products_are_cut_evenly() -> None:
    """Rows are cut too only where the busiest worker then has a fifth less; parts are groups."""
    rng = np.random.default_rng(5)
    cut = 0
    for _ in range(300):
        m, n = (int(x) for x in rng.integers(1, 700, 2))
        group, columns = (8, 32) if rng.random() < 0.5 else (16, 16)
        piece = min(-(-m // group) * group, 128), -(-n // 16 // columns) * columns
        rows, wide = planned.cut_both(m, n, piece, group, columns)
        assert rows % group == 0
        assert wide % columns == 0
        assert rows <= piece[0]
        before, after = (planned.busiest(m, n, *p) for p in (piece, (rows, wide)))
        assert (rows, wide) == piece or after <= 0.8 * before
        cut += (rows, wide) != piece
    assert cut


# Rows where they lie, in panels that pieces make and that a launch makes; lower tiles, tiles of one
# vector, several blocks of an odd depth, few rows; rows a power of two apart.
TALL = [
    (72, 40, 300), (97, 101, 33), (25, 130, 512), (31, 401, 519), (130, 430, 263), (12, 16, 7),
    (16, 17, 64), (23, 75, 600), (10, 40, 33), (2, 150, 70), (3, 65, 513), (7, 99, 30), (8, 48, 5), (150, 90, 1024),
    (140, 200, 70), (133, 90, 1030), (5, 48, 33), (29, 100, 16),
]  # fmt: skip


def test_quick_products_of_few_rows_share_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles have room for all rows, in no more tiles, and are of few heights."""
    monkeypatch.setattr(tiles, "registers", lambda: (512, 32, False))
    made = {}
    for rows in range(2, 49):
        exact, quick = (tiles.few_tile("f32", rows, quick=quick) for quick in (False, True))
        assert -(-rows // quick.rows) == -(-rows // exact.rows)
        assert (quick.vectors, quick.lanes) == (exact.vectors, exact.lanes)
        made[rows] = exact.rows, quick.rows
    heights, shared = ({pair[k] for pair in made.values()} for k in (0, 1))
    assert len(shared) < len(heights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", [*product((False, True), repeat=2)])
def test_tall_tiles(
    turned: tuple[bool, bool], dtype: str, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of Note [tall tiles] beside those in double precision; nothing beyond is read."""
    monkeypatch.setattr(tiles, "registers", lambda: (512, 32, False))
    monkeypatch.setattr(tiles, "has_masks", lambda: True)
    rng = np.random.default_rng(5)
    made = [
        [rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n))] for m, n, k in TALL
    ]
    given_ = [
        ad.from_numpy(at_the_end(x.T)).mT if t else ad.from_numpy(at_the_end(x))
        for pair in made
        for x, t in zip(pair, turned, strict=True)
    ]

    def run(*xs: Any) -> list[Any]:
        products = [a @ b for a, b in zip(xs[::2], xs[1::2], strict=True)]
        return products + [(x + 1).relu() for x in products]

    got = compile(run, backend="native")(*given_)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    for (a, b), x, ended in zip(made, got[: len(made)], got[len(made) :], strict=True):
        want = a.astype("f8") @ b.astype("f8")
        np.testing.assert_allclose(x.numpy(), want, rtol=tolerance, atol=tolerance)
        above = np.maximum(want + 1, 0)
        np.testing.assert_allclose(ended.numpy(), above, rtol=tolerance, atol=tolerance)


def test_tall_tiles_beside_rows_that_repeat(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of B that are read where they lie may be one row, and those of A too."""
    monkeypatch.setattr(tiles, "registers", lambda: (512, 32, False))
    monkeypatch.setattr(tiles, "has_masks", lambda: True)
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((70, 29)), rng.standard_normal((1, 75))
    fn = compile(lambda a, b: (a @ b.expand(29, 75), a[:1].expand(61, 29) @ b.expand(29, 75)))
    for got, left in zip(fn(ad.tensor(a), ad.tensor(b)), (a, a[:1].repeat(61, 0)), strict=True):
        np.testing.assert_allclose(got.numpy(), left @ b.repeat(29, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(sys.platform == "win32", reason="no mprotect")
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("wide_registers", [False, True])
def test_panels_beside_numpy(
    kind: str, wide_registers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `move` says it does: every width, rest and order; neither end is gone beyond."""
    monkeypatch.setattr(packing, "has_wide_registers", lambda: wide_registers)
    lanes = 512 // int(kind[1:])
    dtype, rng = np.dtype(kind.replace("f32", "f4").replace("f64", "f8")), np.random.default_rng(7)
    for wide in (12, lanes, 2 * lanes, 3 * lanes, 4 * lanes) if wide_registers else (16, 4, 8):
        w = CodeWriter()
        packing.move(w, kind, wide, *w.words(packing.NUMBERS))
        text, needed = w.finish("moved")
        code = jit.link(jit.assemble("\n".join(sorted(needed)) + "\n" + text))
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            code.address("moved")
        )
        for p, q, pad in product((1, 7, wide - 1, wide, 2 * wide, 4 * wide + 5), (1, 5), (1, wide)):
            stop = -(-p // pad) * pad
            panels, jump = -(-stop // wide), wide * q
            for turned in (False, True):
                source = at_the_end(rng.standard_normal((p, q) if turned else (q, p)).astype(dtype))
                held = (panels - 1) * jump + (q - 1) * wide + (stop - 1) % wide + 1
                target = at_the_end(np.full(held, 9, dtype))
                along = (q, 1) if turned else (1, p)
                numbers = (source.ctypes.data, target.ctypes.data, *along, wide, jump, p, stop, q)
                words = np.array(numbers, np.int64)
                run(words.ctypes.data, 0, 1)
                want = np.full(panels * jump, 9, dtype)
                for i, j in product(range(stop), range(q)):
                    x = 0 if i >= p else source[i, j] if turned else source[j, i]
                    want[i // wide * jump + i % wide + j * wide] = x
                np.testing.assert_array_equal(target, want[: target.size])


def test_tiles_of_wide_registers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on processors with registers of 512 bits, whose panels and groups are other ones."""
    monkeypatch.setattr(tiles, "registers", lambda: (512, 32, False))
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    rng = np.random.default_rng(3)
    for m, n, k in ((72, 40, 300), (97, 101, 33)):
        for turned in product((False, True), repeat=2):
            a, b = (
                rng.standard_normal((m, k)).astype("f4"),
                rng.standard_normal((k, n)).astype("f4"),
            )
            x, y = (
                ad.from_numpy(z.T.copy()).mT if t else ad.from_numpy(z)
                for z, t in zip((a, b), turned, strict=True)
            )
            run = compile(lambda x, y: x @ y)
            want = a.astype("f8") @ b.astype("f8")
            np.testing.assert_allclose(run(x, y).numpy(), want, rtol=1e-4, atol=1e-4)
            executable: Any = run.latest.executable  # type: ignore[attr-defined]
            names = [name for segment in executable.image.segments for name, *_ in segment]
            # Behind a kernel's own name is that of the module that writes it.
            assert any(name.startswith("product_f32_32x512_12x32") for name in names)


@pytest.mark.parametrize(
    ("apart", "block", "pace"),
    [(512, 128, 48), (1536, 192, 96), (1536, 32, 1536), (4096, 8, 4096)],
    ids=["neighbours", "gaps", "heads", "short"],
)
def test_next_rows_are_asked_for_within_a_tile(apart: int, block: int, pace: int) -> None:
    """All twelve while the tile before goes through a block's depth; of short rows one line each."""
    assert tiled.pace_of_rows(apart, tiles.TALL, block, 4) == pace
    assert pace * block >= tiles.TALL * apart or block < tiles.TALL


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS[:4])
@pytest.mark.parametrize("sizes", [(49, 70, 331), (50, 33, 600), (97, 128, 509)])
def test_blocks_of_a_depth_one_after_another(
    sizes: tuple[int, int, int], layout: str, dtype: str, anew: None, monkeypatch: Any
) -> None:
    """Each begins with the result of those before, the first with what is added, if anything is."""
    m, n, k = sizes
    monkeypatch.setattr(tiled, "NEAR", max(2 * m * n * np.dtype(dtype).itemsize, k * n))
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (n,)))
    x = ad.from_numpy(a if layout[0] == "n" else np.ascontiguousarray(a.T))
    y = ad.from_numpy(b if layout[1] == "n" else np.ascontiguousarray(b.T))

    def fn(x: Any, y: Any, c: Any) -> Any:
        return (x if layout[0] == "n" else x.t()) @ (y if layout[1] == "n" else y.t()) + c

    compiled = compile(fn, backend="native")
    got = compiled(x, y, ad.from_numpy(c)).numpy()
    wanted = a.astype(np.longdouble) @ b.astype(np.longdouble) + c
    bound = np.finfo(dtype).eps * np.abs(a) @ np.abs(b) * 4
    assert (np.abs(got - wanted) <= bound + np.finfo(dtype).eps * 8).all()
    if tiles.has_wide_registers():
        assert str(compiled.latest.executable.image.report).count("matmul") > 1
