"""Indexing against NumPy: any mixture of entries, reading, writing and their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.graph import capture

SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def keys(draw: Any, shape: tuple[int, ...], *, masks: bool = True) -> tuple[Any, ...]:
    """A tuple of entries: ints, slices, None, `...`, bools, index arrays (of one rank) and masks."""
    rank = draw(st.integers(0, 2))
    block = tuple(draw(st.integers(0, 3)) for _ in range(rank))
    entries: list[Any] = []
    dim = 0
    ellipsis_free = True
    while dim < len(shape):
        size = shape[dim]
        kinds = ["slice", "slice", "none", "stop"]
        kinds += ["int", "array", "list", "scalar"] if size else []
        kinds += ["mask"] if masks and dim < len(shape) else []
        kinds += ["ellipsis"] if ellipsis_free else []
        match draw(st.sampled_from(kinds)):
            case "slice":
                bound = st.none() | st.integers(-size - 2, size + 2)
                step = draw(st.none() | st.integers(1, 3))
                entries.append(slice(draw(bound), draw(bound), step))
            case "none":
                entries.append(None)
                continue
            case "int":
                entries.append(draw(st.integers(-size, size - 1)))
            case "scalar":
                entries.append(np.array(draw(st.integers(-size, size - 1))))
            case "array":
                # Each axis of the block may be 1: indices broadcast together.
                own = tuple(draw(st.sampled_from([n, 1])) for n in block)
                count = int(np.prod(own))
                values = draw(
                    st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)
                )
                entries.append(np.array(values, dtype=np.int64).reshape(own))
            case "list":
                if len(block) != 1 or not block[0]:
                    continue
                own_list = st.lists(
                    st.integers(-size, size - 1), min_size=block[0], max_size=block[0]
                )
                entries.append(draw(own_list))
            case "mask":
                covers = draw(st.integers(1, len(shape) - dim))
                part = shape[dim : dim + covers]
                bits = draw(
                    st.lists(
                        st.booleans(), min_size=int(np.prod(part)), max_size=int(np.prod(part))
                    )
                )
                entries.append(np.array(bits, dtype=bool).reshape(part))
                masks = False  # a second one would have to hold as often to broadcast
                dim += covers - 1
            case "ellipsis":
                entries.append(Ellipsis)
                ellipsis_free = False
                dim += draw(st.integers(0, len(shape) - dim))
                continue
            case _:
                break
        dim += 1
    return tuple(entries)


def steps(shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[Any, Any]:
    """The key as a basic index and then index arrays: ints are basic, unlike NumPy's."""
    consumed = sum(
        k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else 1
        for k in key
        if k is not None and k is not Ellipsis
    )
    spread: list[Any] = []
    for k in key:
        spread += [slice(None)] * (len(shape) - consumed) if k is Ellipsis else [k]
    if Ellipsis not in [k for k in key if not isinstance(k, np.ndarray)]:
        spread += [slice(None)] * (len(shape) - consumed)
    basic: list[Any] = []
    arrays: list[Any] = []
    for k in spread:
        if isinstance(k, np.ndarray) and k.ndim == 0:
            k = int(k)
        if isinstance(k, (np.ndarray, list)):
            a = np.asarray(k)
            basic += [slice(None)] * (a.ndim if a.dtype == bool else 1)
            arrays.append(a)
        else:
            basic.append(k)
            if not isinstance(k, int):
                arrays.append(slice(None))
    return tuple(basic), tuple(arrays)


def ours(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(ad.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def selects(shape: tuple[int, ...], key: tuple[Any, ...]) -> np.ndarray[Any, Any] | None:
    """The flat positions a key selects, or None where it does not fit."""
    basic, arrays = steps(shape, key)
    try:
        view = np.arange(int(np.prod(shape))).reshape(shape)[basic]
        dim = 0
        for a in arrays:  # NumPy lets some empty masks pass that are not of the right shape
            covers = a.ndim if isinstance(a, np.ndarray) and a.dtype == bool else 0
            if covers and view.shape[dim : dim + covers] != a.shape:
                return None
            dim += covers or 1
        return np.asarray(view[arrays])
    except IndexError:  # after an ellipsis an entry may meet another dimension than its own
        return None


@st.composite
def cases(draw: Any, *, masks: bool = True) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    shape = draw(SHAPES)
    return shape, draw(keys(shape, masks=masks))


def filled(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(1.0, int(np.prod(shape)) + 1).reshape(shape)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_get(case: Any) -> None:
    shape, key = case
    want = selects(shape, key)
    x = ad.tensor(filled(shape))
    if want is None:
        with pytest.raises(IndexError):
            x[ours(key)]
        return
    got = x[ours(key)]
    np.testing.assert_array_equal(got.numpy(), want + 1.0)
    # As in PyTorch, views and copies alike carry gradients back to where they were read.
    leaf = ad.tensor(filled(shape), requires_grad=True)
    (grad,) = ad.autograd.grad(leaf[ours(key)].sum(), leaf)
    count = np.bincount(want.reshape(-1), minlength=int(np.prod(shape))).reshape(shape)
    np.testing.assert_array_equal(grad.numpy(), count)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(cases())
def test_get_at_length(case: Any) -> None:
    test_get.hypothesis.inner_test(case)  # type: ignore[attr-defined]


@settings(max_examples=150, deadline=None)
@given(cases(), st.data())
def test_set(case: Any, data: Any) -> None:
    shape, key = case
    positions = selects(shape, key)
    if positions is None or len(np.unique(positions)) != positions.size:
        return  # which of several values a place keeps is not stated
    own = tuple(data.draw(st.sampled_from([n, n, 1])) for n in positions.shape)
    own = own[data.draw(st.integers(0, len(own))) :]
    values = np.asarray(-filled(own))
    want = filled(shape)
    want.reshape(-1)[positions] = np.broadcast_to(values, positions.shape)

    x = ad.tensor(filled(shape))
    x[ours(key)] = ad.tensor(values)
    np.testing.assert_array_equal(x.numpy(), want)

    # The same on the tape: what was overwritten loses its gradient, the values gain theirs.
    leaf = ad.tensor(filled(shape), requires_grad=True)
    source = ad.tensor(values, requires_grad=True)
    y = leaf * 1
    y[ours(key)] = source
    np.testing.assert_array_equal(y.detach().numpy(), want)
    grads = ad.autograd.grad(y.sum(), (leaf, source), materialize_grads=True)
    kept = np.ones(int(np.prod(shape)))
    kept[positions] = 0
    np.testing.assert_array_equal(grads[0].numpy(), kept.reshape(shape))
    repeats = positions.size // max(values.size, 1)
    np.testing.assert_array_equal(grads[1].numpy(), np.full(own, float(repeats)))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(cases(), st.data())
def test_set_at_length(case: Any, data: Any) -> None:
    test_set.hypothesis.inner_test(case, data)  # type: ignore[attr-defined]


@settings(max_examples=200, deadline=None)
@given(cases(), st.sampled_from([True, 3, -2.5]))
def test_set_number(case: Any, number: Any) -> None:
    shape, key = case
    positions = selects(shape, key)
    if positions is None:
        return
    for dtype in (np.float64, np.int64):
        want = filled(shape).astype(dtype)
        want.reshape(-1)[positions] = number
        x = ad.tensor(filled(shape).astype(dtype))
        x[ours(key)] = number
        np.testing.assert_array_equal(x.numpy(), want)


@settings(max_examples=40, deadline=None)
@given(cases(masks=False))
def test_vmap_and_capture(case: Any) -> None:
    """A batch of tensors and of index tensors equals a loop; a capture equals eager."""
    shape, key = case
    if selects(shape, key) is None:
        return
    x = ad.tensor(np.stack([filled(shape), -filled(shape)]))
    tensors = [k for k in ours(key) if isinstance(k, ad.Tensor)]
    pairs = [ad.stack([t, t.new_zeros(t.shape)]) for t in tensors]

    def read(row: Any, *parts: Any) -> Any:
        rest = iter(parts)
        return row[tuple(next(rest) if isinstance(k, np.ndarray) else k for k in key)]

    def write(row: Any, *parts: Any) -> Any:
        rest = iter(parts)
        row = row.clone()
        row[tuple(next(rest) if isinstance(k, np.ndarray) else k for k in key)] = 7.0
        return row

    for fn in (read, write):
        got = ad.func.vmap(fn)(x, *pairs)
        for i in range(2):
            np.testing.assert_array_equal(got[i].numpy(), fn(x[i], *[p[i] for p in pairs]).numpy())
        captured = capture(fn)
        np.testing.assert_array_equal(captured(x[0], *tensors).numpy(), fn(x[0], *tensors).numpy())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(cases(masks=False))
def test_vmap_and_capture_at_length(case: Any) -> None:
    test_vmap_and_capture.hypothesis.inner_test(case)  # type: ignore[attr-defined]


# -- what NumPy does not tell -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (np.int64(-1), 2),
        ((slice(None), np.int32(1)), (slice(None), 1)),
        ((ad.tensor(2), 1), (2, 1)),
        ((ad.tensor(2), slice(1, None)), (2, slice(1, None))),
        ([True, False, True], [0, 2]),
        ((slice(None), [False, True, True, False]), (slice(None), [1, 2])),
        (np.array([2, 0]), [2, 0]),
        ((np.array([2, 0]), np.int64(3)), ([2, 0], 3)),
        ((..., np.array([False, True, True, False])), (slice(None), [1, 2])),
    ],
    ids=repr,
)
def test_other_numbers_and_lists_mean_what_plain_ones_do(key: Any, same: Any) -> None:
    x, y = ad.arange(12.0).reshape(3, 4), ad.arange(12.0).reshape(3, 4)
    assert ad.equal(x[key], y[same])
    x[key], y[same] = 7.0, 7.0
    assert ad.equal(x, y)
    x[key], y[same] = -x[key], -y[same]
    assert ad.equal(x, y)
    whole = ad.arange(3)
    whole[whole] = ad.tensor([2, 1, 0])  # places that are written to while they are read
    assert whole.tolist() == [2, 1, 0]


def test_basic_is_a_view_and_arrays_copy() -> None:
    x = ad.zeros(3, 4)
    for key in (0, slice(1, 2), (..., None), (slice(None), 1), ad.tensor(1)):
        view = x[key]
        view.fill_(5.0)
        assert (x[key] == 5).all(), key
        x.zero_()
    for key in ([0], ad.tensor([0, 1]), x == 0, True):
        x[key].fill_(5.0)
        assert (x == 0).all(), key


def test_in_place_through_a_view() -> None:
    x = ad.zeros(3, 4)
    x[1][ad.tensor([0, 2])] = 1.0
    x[:, 1:][x[:, 1:] > 0] = 3.0
    assert x.tolist() == [[0, 0, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0]]


def test_a_list_of_more_than_numbers_counts_as_a_tuple() -> None:
    x = ad.tensor(filled((2, 3, 4)))
    assert x[[0, slice(None)]].shape == (3, 4)
    assert x[[[0, 1], [1, 2]]].shape == (2, 4)
    assert x[[0, 1]].shape == (2, 3, 4)
    assert x[((0, 1),)].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice("a", None), TypeError, "slice indices must be integers"),
        ([5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ([0.5], IndexError, "must be long, int, byte or bool"),
        ([True, False, True], IndexError, r"shape of the mask \[3\] at index 0"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast together"),
        (1.0, IndexError, "only integers, slices"),
        ({0}, IndexError, "only integers, slices"),
        ("a", TypeError, "string"),
    ],
)
def test_errors(key: Any, error: type[Exception], message: str) -> None:
    x = ad.tensor(filled((2, 3, 4)))
    with pytest.raises(error, match=message):
        x[key]
    with pytest.raises(error, match=message):
        x[key] = 1.0
    np.testing.assert_array_equal(x.numpy(), filled((2, 3, 4)))


def test_errors_of_values() -> None:
    x = ad.zeros(2, 3)
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[ad.tensor([0])] = ad.tensor(1)
    with pytest.raises(RuntimeError, match=r"cannot be broadcast to indexing result"):
        x[ad.tensor([0, 1])] = ad.zeros(2)
    with pytest.raises(RuntimeError, match="expand"):
        x[0] = ad.zeros(2)
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="without overflow"):
        x[0] = 1j
    with pytest.raises(IndexError, match="0-dim"):
        ad.tensor(1.0)[0]


def test_uint8_masks_warn() -> None:
    x = ad.tensor([1.0, 2.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert x[ad.tensor([0, 1], dtype=ad.uint8)].tolist() == [2.0]
    assert "uint8" in str(caught[0].message)


def test_mask_assignment_needs_no_values() -> None:
    """x[mask] = y works where the count is unknown: batched and captured."""
    x = ad.tensor([[1.0, -2.0, 3.0], [-1.0, 2.0, -3.0]])
    y = ad.tensor([7.0, 8.0])

    def relu(row: Any) -> Any:
        row = row.clone()
        row[row < 0] = 0
        return row

    def place(row: Any) -> Any:
        row = row.clone()
        row[row > 0] = y[: 2 if len(row.shape) == 1 else None]
        return row

    want = [[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]
    assert ad.func.vmap(relu)(x).tolist() == want
    assert capture(relu)(x).tolist() == want
    assert capture(place)(x[0]).tolist() == [7.0, -2.0, 8.0]


def test_captured_writes_to_outside_state() -> None:
    def run(wrap: Callable[..., Any]) -> list[Any]:
        state, seen = ad.zeros(4, 3), ad.zeros(4, dtype=ad.int64)

        def step(i: Any, row: Any) -> Any:
            state[i] = row
            state[:, 0] += 1
            state[state > 3] = -1.0
            state[1:3].masked_fill_(state[1:3] == 0, 0.5)
            seen.index_add_(0, i, ad.ones(2, dtype=ad.int64))
            state[0].copy_(state[3])
            state.fill_diagonal_(9.0)
            return state[i].sum()

        call = wrap(step)
        outs = [
            call(ad.tensor([k, (k + 2) % 4]), ad.tensor([1.0, 2.0, 3.0]) + k).tolist()
            for k in range(4)
        ]
        return [outs, state.tolist(), seen.tolist()]

    assert run(capture) == run(lambda fn: fn)


@pytest.mark.parametrize(
    "fn", [lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.masked_select(x > 0)]
)
def test_shapes_that_depend_on_values_cannot_be_traced(fn: Any) -> None:
    x = ad.tensor([[1.0, -2.0], [3.0, 4.0]])
    with pytest.raises(RuntimeError, match=r"depends on the values.*where"):
        ad.func.vmap(fn)(x)
    with pytest.raises(RuntimeError, match=r"depends on the values.*where"):
        capture(fn)(x)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: float(x.sum()),
        lambda x: min(x.flatten().tolist()),
        lambda x: 1.0 in x,
    ],
)
def test_values_are_not_known_while_tracing(fn: Any) -> None:
    x = ad.tensor([[1.0, -2.0], [3.0, 4.0]])
    with pytest.raises(RuntimeError, match="not known inside vmap"):
        ad.func.vmap(fn)(x)
    with pytest.raises(RuntimeError, match="not known while the function is traced"):
        capture(lambda y: y * 2 if fn(y) else y)(x)
    seen: list[Any] = []

    def total(y: Any) -> Any:
        seen.append(fn(y))
        return y.sum()

    ad.func.grad(total)(x)  # differentiating hides no value
    assert len(seen) == 1


def test_numbers() -> None:
    assert ad.tensor([3]).item() == 3
    assert [10, 20][ad.tensor([1])] == 20
    assert int(ad.tensor(1.5)) == 1
    assert complex(ad.tensor(2.0)) == 2
    assert ad.is_nonzero(ad.tensor([0.5]))
    assert type(ad.ones(2, dtype=ad.bfloat16)[0].item()) is float
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to Scalar"):
        ad.zeros(2).item()
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(ad.zeros(2))
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        bool(ad.zeros(0))
    with pytest.raises(ValueError, match="only one element"):
        float(ad.zeros(2))
    with pytest.raises(TypeError, match="only integer tensors"):
        [1, 2][ad.tensor(1.0)]
    with pytest.raises(RuntimeError, match="overflow"):
        float(ad.tensor(1j))
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in ad.zeros(2)  # noqa: B015


def test_a_failed_put_leaves_its_target() -> None:
    x = ad.zeros(3)
    puts: tuple[Callable[[], Any], ...] = (
        lambda: x.index_put_((ad.tensor([0, 9]),), ad.tensor(1.0)),
        lambda: x.__setitem__(ad.tensor([0, 9]), 1.0),
        lambda: x.scatter_(0, ad.tensor([0, 9]), 1.0),
        lambda: x.index_add_(0, ad.tensor([0, 9]), ad.ones(2)),
        lambda: x.masked_scatter_(x == 0, ad.ones(2)),
    )
    for put in puts:
        with pytest.raises((IndexError, RuntimeError)):
            put()
        assert x.tolist() == [0, 0, 0]


def test_python_functions_on_elements() -> None:
    x = ad.tensor([1.0, 2.0])
    assert x.apply_(lambda v: v * 10).tolist() == [10, 20]
    assert x.map_(ad.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [11, 22]
    assert x.map2_(x, ad.tensor(1.0), lambda a, b, c: a - b + c).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        ad.zeros(2, requires_grad=True).apply_(abs)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_index_put_writes_few_elements(dtype: str) -> None:
    """Against NumPy: places, masks and numbers, in any layout, and what is written broadcast."""
    g = np.random.default_rng(0)
    for _ in range(40):
        shape = tuple(g.integers(1, 5, 3).tolist())
        x = g.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
        order = tuple(g.permutation(3).tolist())
        target = ad.tensor(np.ascontiguousarray(x.transpose(order))).permute(
            *np.argsort(order).tolist()
        )
        places = g.permutation(shape[0])[: g.integers(1, shape[0] + 1)]
        key = [(places,), (places, np.array(-1)), (g.random(shape[:2]) < 0.5,)][g.integers(3)]
        count = [(), (1,), x[key].shape[-1:]][g.integers(3)]
        values = g.integers(0, 2 if dtype == "bool" else 9, count).astype(dtype)
        before = target._version
        target.index_put_(tuple(ad.tensor(k) for k in key), ad.tensor(values))
        x[key] = values
        assert target._version == before + 1
        assert target.tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="shape mismatch"):
        ad.zeros(3).index_put_((ad.tensor([0, 1]),), ad.ones(3))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        ad.zeros(3).index_put_((ad.tensor([0, 1]),), ad.ones(1, 2))
    with pytest.raises(RuntimeError, match="leaf"):
        ad.zeros(3, requires_grad=True).index_put_((ad.tensor([0, 1]),), ad.ones(2))
    with pytest.raises(TypeError, match="element 1 in argument 0, but got int"):
        ad.zeros(3, 3).index_put_((ad.tensor([0, 1]), 1), ad.ones(2))


@pytest.mark.parametrize("dtype", [ad.int8, ad.int16, ad.int32, ad.uint16])
def test_numbers_of_any_width_are_indices(dtype: ad.dtype) -> None:
    x = ad.arange(6.0).reshape(2, 3)
    one = ad.tensor(1, dtype=dtype)
    assert x[one].tolist() == [3.0, 4.0, 5.0]
    assert x[:, one].tolist() == [1.0, 4.0]
    x[one] = 7
    assert x[1].tolist() == [7.0] * 3
    if dtype is not ad.int32:
        with pytest.raises(IndexError, match="must be long"):
            _ = x[one.reshape(1)]


def test_int32_indices() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    i = ad.tensor([1], dtype=ad.int32)
    assert x[i].tolist() == [[3, 4]]
    assert x.index_select(0, i).tolist() == [[3, 4]]
    assert x.gather(0, i.reshape(1, 1)).tolist() == [[3]]
    with pytest.raises(RuntimeError, match="int64"):
        x.take(i)


@pytest.mark.parametrize("dtype", [ad.bool, ad.uint8])
def test_masks_of_no_dimensions(dtype: ad.dtype) -> None:
    """They choose all or nothing, as a mask of a new dimension of one element does."""
    x, one = ad.arange(6.0).reshape(2, 3), ad.tensor([1])
    yes, no = ad.tensor(1).to(dtype), ad.tensor(0).to(dtype)
    nine = ad.tensor(9.0)
    assert x.index_put((yes,), nine).tolist() == [[9.0] * 3] * 2
    assert x.index_put((no,), nine).tolist() == x.tolist()
    assert x.index_put((yes,), nine, accumulate=True).tolist() == (x + 9).tolist()
    assert x.index_put((yes, one), nine).tolist() == [[0.0, 1.0, 2.0], [9.0] * 3]
    assert x.index_put((None, yes, one), nine).tolist() == [[0.0, 9.0, 2.0], [3.0, 9.0, 5.0]]
    assert x.index((yes,)).tolist() == [x.tolist()]
    assert x.index((no,)).shape == (0, 2, 3)
    y = x.clone()
    y.index_put_((yes,), nine)
    assert y.tolist() == [[9.0] * 3] * 2


@pytest.mark.parametrize("shape", [(100, 100), (90, 3, 50), (5000, 2), (1, 9000), (3, 0, 9000)])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_places_of_many_that_are_not_zero(shape: tuple[int, ...], share: float) -> None:
    """Whatever the dtype and the layout, as NumPy finds them one by one."""
    rng = np.random.default_rng(3)
    floats = np.where(rng.random(shape) < share, rng.choice((1.5, np.nan, -2.0), shape), -0.0)
    for x in (floats, floats != 0, (floats != 0) * 3, np.asfortranarray(floats), floats + 0j):
        got = ad.from_numpy(x).nonzero()
        want = np.argwhere(x)
        assert got.dtype is ad.int64
        assert np.array_equal(got.numpy(), want)
        parts = ad.from_numpy(x).nonzero(as_tuple=True)
        assert all(np.array_equal(p.numpy(), want[:, k]) for k, p in enumerate(parts))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_masked_writes_of_many_elements(dtype: str) -> None:
    """By places, by NumPy's loops or by a program: few, some and most elements, also by columns."""
    rng, kind = np.random.default_rng(5), getattr(ad, dtype)
    for shape, times in (((70, 80), 1), ((260, 256), 20)):
        for share in (0.0, 0.3, 0.9):
            truths = rng.random(shape) < share
            values = rng.integers(0, 2 if kind is ad.bool else 9, (2, *shape))
            x, source = (ad.tensor(v).to(kind) for v in values)
            mask, number = ad.tensor(truths), True if kind is ad.bool else 3
            want = np.where(truths, number, values[0])
            scattered = values[0].copy()
            scattered[truths] = values[1].reshape(-1)[: truths.sum()]
            for _ in range(times):
                for turned in (False, True):
                    y = x.t().contiguous().t() if turned else x.clone()
                    y[mask] = number
                    np.testing.assert_array_equal(y.double().numpy(), want)
            for y in (x.masked_scatter(mask, source), x.clone().masked_scatter_(mask, source)):
                np.testing.assert_array_equal(y.double().numpy(), scattered)
            np.testing.assert_array_equal(x.double().numpy(), values[0])
    with pytest.raises(RuntimeError, match="number of elements of source"):
        ad.ones(100, 100).masked_scatter(ad.ones(100, 100, dtype=ad.bool), ad.ones(50))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (0, 1, 2)], ids=str)
def test_few_elements_are_taken_as_a_tensor_lies(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 6, 7))
    size = x.size
    positions = rng.integers(-size, size, (4, 2))
    source = ad.tensor(x, requires_grad=True)
    got = source.permute(order).take(ad.tensor(positions))
    flat = x.transpose(order).reshape(-1)
    np.testing.assert_array_equal(got.detach().numpy(), flat[positions])
    got.sum().backward()
    counts = np.bincount(positions.reshape(-1) % size, minlength=size)
    wanted = counts.reshape(x.transpose(order).shape).transpose(np.argsort(order))
    assert source.grad is not None
    np.testing.assert_array_equal(source.grad.numpy(), wanted)
    for bad in (size, -size - 1, 1 << 62, -(1 << 63)):
        with pytest.raises(IndexError):
            source.permute(order).take(ad.tensor([0, bad]))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_truth_adds_a_dimension_and_selects_all_or_nothing(
    shape: tuple[int, ...], turned: bool
) -> None:
    elements = filled(shape)
    x = ad.tensor(elements)
    x, elements = (x.mT, elements.T) if turned and len(shape) == 2 else (x, elements)
    for truth in (True, False):
        leaf = x.detach().requires_grad_()
        for source in (x, leaf):
            got = source[truth]
            np.testing.assert_array_equal(got.detach().numpy(), elements[truth])
            assert got.is_contiguous()
            got.detach().fill_(7)  # a copy
            np.testing.assert_array_equal(x.numpy(), elements)
        leaf[truth].sum().backward()
        np.testing.assert_array_equal(leaf.grad.numpy(), np.full(elements.shape, float(truth)))
        for value in (5, 2.5, ad.ones(1), x + 1, (x + 1)[None]):
            target, want = x.clone(), elements.copy()
            target[truth] = value
            want[truth] = np.asarray(value)
            np.testing.assert_array_equal(target.numpy(), want)


def test_index_put_writes_rows_of_values_as_numpy_does() -> None:
    rng = np.random.default_rng(5)
    for rank in (1, 2, 3):
        shape = (3, 2, 4)[:rank]
        for count in range(1, rank + 1):
            for block in ((), (2,), (2, 3)):
                indices = [rng.integers(-n, n, block) for n in shape[:count]]
                if np.ndim(indices[0]):
                    indices[0].ravel()[1:] = indices[0].ravel()[0]  # more than once
                wanted = (*block, *shape[count:])
                for values in (rng.normal(size=wanted), rng.normal(size=wanted[1:])):
                    for adds in (False, True):
                        x = rng.normal(size=shape)
                        given = tuple(ad.tensor(i) for i in indices)
                        got = ad.tensor(x).index_put_(given, ad.tensor(values), adds)
                        if adds:
                            np.add.at(x, tuple(indices), np.broadcast_to(values, wanted).copy())
                        else:
                            x[tuple(indices)] = values
                        np.testing.assert_array_equal(got.numpy(), x)
                with pytest.raises(RuntimeError, match="shape mismatch"):
                    ad.zeros(shape).index_put_(given, ad.zeros(1, *wanted))


TRUTHS: list[Any] = [
    True,
    False,
    (True, 0),
    (None, False),
    (True, True),
    (True, False),
    (slice(None), True),
    (..., True),
    (False, ...),
    (True, [0, 1]),
    ([0, 1], True),
    ([0, 1], slice(None), True),
    ([1], False),
]


@pytest.mark.parametrize("key", TRUTHS, ids=str)
def test_truths_of_python_are_known_wherever_shapes_are(key: Any) -> None:
    # Unlike masks, whose sizes are those of their elements.
    def changed(x: Any) -> Any:
        y = x.clone()
        y[key] = 7
        return x[key] * 2, y

    array = np.arange(6.0).reshape(2, 3)
    written = array.copy()
    written[key] = 7
    for run in (changed, ad.compile(changed), lambda x: [y[0] for y in ad.vmap(changed)(x[None])]):
        picked, y = run(ad.tensor(array))
        np.testing.assert_array_equal(picked, array[key] * 2)
        np.testing.assert_array_equal(y, written)
    assert changed(ad.empty(2, 3, device="meta"))[0].shape == array[key].shape
