"""Large fills and copies by all workers, against NumPy's on one thread."""

from array import array
from collections.abc import Iterator

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.memory import filling, joining
from adjoint.engine.backends.llvm.program.moves import copy_memory, fill_memory, join_memory

GUARD = 128  # bytes before and after, which must stay as they are


@pytest.fixture(params=[1, 2, 5])
def workers(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads there may be."""
    before = ad.get_num_threads()
    ad.set_num_threads(request.param)
    yield request.param
    ad.set_num_threads(before)


def test_every_byte_and_no_other_is_written(workers: int) -> None:
    rng = np.random.default_rng(7)
    for width in (1, 2, 4, 8, 16):
        for count in (0, 1, 3, 67, (1 << 19) // width, (1 << 19) // width + 5):
            element, size, first = rng.bytes(width), width * count, int(rng.integers(GUARD))
            if count % 2:
                element = element[:1] * width  # written as bytes
            memory = rng.integers(0, 256, size + 2 * GUARD, dtype=np.uint8)
            wanted = memory.copy()
            wanted[first : first + size] = np.frombuffer(element * count, np.uint8)
            fill_memory(memory.ctypes.data + first, size, element)
            assert np.array_equal(memory, wanted), (width, count)
            source = rng.integers(0, 256, size + GUARD, dtype=np.uint8)
            shift = int(rng.integers(GUARD))
            wanted[first : first + size] = source[shift : shift + size]
            copy_memory(memory.ctypes.data + first, source.ctypes.data + shift, size)
            assert np.array_equal(memory, wanted), (width, count)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.transpose(0, 1),
    "other order": lambda x: x.reshape(16, -1, 32).permute(2, 0, 1),
    "not from the start": lambda x: x[3:],
    "apart": lambda x: x[:, 1:],
    "every second": lambda x: x[::2],
    "repeated": lambda x: x[:1].expand(512, x.shape[1]),
}
DTYPES = {
    ad.float32: 2.5, ad.float64: -0.0, ad.bfloat16: 0, ad.float16: 1.5, ad.int64: -(1 << 62),
    ad.int8: -7, ad.uint8: 200, ad.bool: True, ad.complex64: 3, ad.complex128: 0,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_tensors_are_overwritten_where_they_lie(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a view does not show keeps its elements, whoever has loaded a compiler before."""
    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    window = LAYOUTS[layout]
    numbers = np.arange(512 * 288).reshape(512, 288)
    places = window(ad.from_numpy(numbers)).numpy()
    for dtype, value in DTYPES.items():
        whole, other = ad.empty(512, 288, dtype=dtype), ad.empty(512, 288, dtype=dtype)
        array, source = whole.numpy(), other.numpy()
        source[...] = numbers % 7
        new = {"fill_": np.array(value).astype(array.dtype), "zero_": np.zeros((), array.dtype)}
        for write in ("fill_", "zero_", "copy_"):
            if write == "copy_" and layout == "repeated":
                continue  # which only one value may do
            array[...] = numbers % 99
            wanted = array.copy()
            wanted.reshape(-1)[places] = new.get(write, source.reshape(-1)[places])
            given = {"fill_": (value,), "zero_": (), "copy_": (window(other),)}[write]
            getattr(window(whole), write)(*given)
            assert array.tobytes() == wanted.tobytes(), (dtype, write)
        made = ad.full((1 << 17,), value, dtype=dtype).numpy()
        assert made.tobytes() == new["fill_"].tobytes() * len(made)


TURNS = {
    "rows": lambda x: x,
    "turned": lambda x: x.swapaxes(-1, -2),
    "part": lambda x: x[..., 1:],
    "every second row": lambda x: x[..., ::2, :],
    "every second column": lambda x: x[..., ::2],
    "every second matrix": lambda x: x[::2],
    "first dimension last": lambda x: x.swapaxes(0, -1),
}


@pytest.mark.parametrize("turn", TURNS)
def test_parts_of_rows_are_written_where_they_lie(
    turn: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows apart, and what lies beyond a diagonal of matrices, against NumPy's."""
    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    monkeypatch.setattr(filling, "ROWS", 0)
    monkeypatch.setattr(filling, "TRIANGLE", 0)
    rng, done = np.random.default_rng(11), 0
    for kind in ("f4", "f8", "u2", "u1", "c16", "?"):
        for outer in ((), (3,), (2, 3), (2, 3, 2)):
            height, width = rng.integers(1, 90, 2).tolist()
            whole = rng.integers(1, 100, (*outer, height, width)).astype(kind)
            target = TURNS[turn](whole)
            lower, diagonal = bool(rng.integers(2)), int(rng.integers(-99, 99))
            wanted = whole.copy()
            shown = TURNS[turn](wanted)
            shown[...] = (np.tril if lower else np.triu)(shown, diagonal)
            if filling.zero_triangle(target, diagonal, lower):
                done += 1
                assert np.array_equal(whole, wanted), (kind, whole.shape, diagonal, lower)
            one = np.array(rng.integers(1, 100)).astype(kind)
            if filling.fill_rows(target, one):
                done += 1
                TURNS[turn](wanted)[...] = one
                assert np.array_equal(TURNS[turn](whole), TURNS[turn](wanted))
            assert np.array_equal(whole.shape, wanted.shape)
    assert done >= (4 if turn != "every second column" else 0)


def test_triangles_in_place_are_those_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    for name in ("tril", "triu"):
        for given in ({}, {"diagonal": -40}, {"diagonal": 1 << 62}):
            x = ad.randn(300, 301)
            wanted, version = getattr(x, name)(**given), x._version
            assert getattr(x, name + "_")(**given) is x
            assert x.equal(wanted)
            assert x._version == version + 1
        with pytest.raises(TypeError):
            getattr(x, name + "_")(offset=1)
        for size in (3, 300):
            ones, none = ad.ones(size, size), ad.zeros(size, size)
            lowest = getattr(ones, name)(-(1 << 63))
            assert lowest.equal(none if name == "tril" else ones)
            with pytest.raises(ValueError, match="int64"):
                getattr(ones, name + "_")(1 << 70)


def test_copies_that_overlap_are_those_of_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    x = ad.arange(1 << 17)
    wanted = x[:-9].clone()
    x[9:].copy_(x[:-9])
    assert x[9:].equal(wanted)


def test_arrays_that_may_not_be_written_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    array = np.arange(1 << 17)
    array.setflags(write=False)
    for write in (filling.fill, filling.copy):
        with pytest.raises(ValueError, match="read-only"):
            write(array, 1 if write is filling.fill else np.ones_like(array))
    assert np.array_equal(array, np.arange(1 << 17))


def test_one_thread_moves_what_workers_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise RuntimeError("no threads here")

    monkeypatch.setattr(filling, "_moved", filling.LOADED)
    monkeypatch.setattr(filling, "_alone", False)
    for name in ("fill_memory", "copy_memory"):
        monkeypatch.setattr(filling.HOOKS, name, fail)
    x, y = ad.empty(1 << 17), ad.ones(1 << 17)
    assert x.fill_(2.5).eq(2.5).all()
    assert x.copy_(y).eq(1).all()
    assert filling._alone


def test_pieces_are_joined_byte_by_byte(workers: int) -> None:
    rng = np.random.default_rng(9)
    for rows in (1, 2, 7, 100):
        widths = rng.integers(0, 70, int(rng.integers(1, 12))).tolist()
        pieces = [rng.integers(0, 256, (rows, w + 5), dtype=np.uint8)[:, :w] for w in widths]
        told, width = array("q"), 0
        for piece, w in zip(pieces, widths, strict=True):
            told.extend((piece.ctypes.data, piece.strides[0], w, width))
            width += w
        memory = rng.integers(0, 256, rows * width + 2 * GUARD, dtype=np.uint8)
        wanted = memory.copy()
        wanted[GUARD : GUARD + rows * width] = np.concatenate(pieces, 1).reshape(-1)
        join_memory(memory.ctypes.data + GUARD, width, rows, told)
        assert np.array_equal(memory, wanted), (rows, widths)


def test_many_tensors_are_joined_as_numpy_joins_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, whole ones, some without elements; what does not fit is refused in words."""
    monkeypatch.setattr(joining, "LARGE", 1)
    monkeypatch.setattr(joining, "is_shared", lambda size: True)
    rng = np.random.default_rng(4)
    x = ad.tensor(rng.standard_normal((6, 40, 3)))
    for dtype in (ad.float32, ad.bfloat16, ad.int64, ad.bool):
        for pieces, dim in (
            (x[0].to(dtype).split(3, 1) * 4, 1),
            (x[:, :, 0].to(dtype).split([3, 0, 5, 8, 11, 13], 1)[::-1], -1),
            (x[:, :, 0].to(dtype).t().split(3, 1), 1),
            (x.to(dtype).split(7, 1), 1),
            ([part.clone() for part in x.to(dtype).split(7, 1)], 1),
            (x.to(dtype).split(1, 0), 0),
        ):
            got = ad.cat(pieces, dim)
            want = np.concatenate([p.double().numpy() for p in pieces], dim)
            assert got.dtype is dtype
            assert got.is_contiguous()
            np.testing.assert_array_equal(got.double().numpy(), want)
    tracked = x.clone().requires_grad_()
    (ad.cat(tracked.split(7, 1), 1) ** 2).sum().backward()
    np.testing.assert_array_equal(tracked.grad.numpy(), 2 * x.numpy())
    with pytest.raises(RuntimeError, match="sizes of tensors must match"):
        ad.cat([x[0], x[1], x[2], x[3], x[4], x[5, :9]], 1)
    with pytest.raises(RuntimeError, match="sizes of tensors must match"):
        ad.cat([*x[:5], x[5, :, :2]], 0)
    with pytest.raises(IndexError):
        ad.cat([x[0]] * 6, 2)
