"""Keys of every kind, read and written: at once and by programs, against the operations they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import small_calls
from adjoint.engine.ops.index import gather, scatter, whole_slices
from adjoint.engine.tensor.index import few

SHAPES = ((), (3,), (2, 4), (4, 1), (3, 2, 4), (2, 0, 3))
DTYPES = (ad.float32, ad.int64, ad.bool, ad.bfloat16, ad.complex64, ad.uint8)
LAYOUTS = ("rows", "turned", "every second", "a part", "expanded")
WRITTEN = {"expanded": "a part"}  # what shows elements more than once is written to otherwise
KEYS = 60  # of a shape


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are made at the first call."""
    HOOKS.load_rest()
    small_calls.PROGRAMS.forget()
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    monkeypatch.setattr(small_calls, "LOADED", 0)
    monkeypatch.setattr("adjoint.engine.core.operations.small_calls.EVERY", 1)
    monkeypatch.setattr(public.OVERRIDES, "active", False)  # other tests have classes that override
    yield
    small_calls.PROGRAMS.forget()


def entry(rng: np.random.Generator, size: int, block: tuple[int, ...]) -> Any:
    """One entry of a key for a dimension; one in thirty is out of range."""
    low, high = (-size, size) if size and rng.random() > 1 / 30 else (size, size + 3)
    places = rng.integers(low, high, block)
    kind = rng.integers(14)
    if kind == 0:
        return int(rng.integers(low, high))
    if kind == 1:
        return slice(*rng.choice([None, 0, 1, 2, -1, -2], 2), rng.choice([None, 1, 2]))
    if kind in (2, 3):
        return slice(None)
    if kind == 4:
        return ad.tensor(int(rng.integers(low, high)))
    if kind == 5:
        return ad.from_numpy(rng.random(size) > 0.4)
    if kind == 6:
        return places.tolist()
    if kind == 7:
        return range(max(size - 1, 0))
    if kind == 8:
        return ad.from_numpy(places.astype(rng.choice(["int32", "uint8", "int16"])))
    if kind == 9:
        return rng.choice([np.int64(0), True, 1.5, slice(0, 2, -1)])  # type: ignore[arg-type, list-item]
    return ad.from_numpy(places)


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    block = ((2,), (1,), (2, 2), (0,))[rng.choice(4, p=[0.7, 0.1, 0.15, 0.05])]
    key = [entry(rng, n, block) for n in shape[: rng.integers(0, len(shape) + 1)]]
    if rng.random() < 0.03:
        key += [0, 0, 0, 0]
    if rng.random() < 0.1 and len(shape) > 1:
        key = [ad.from_numpy(rng.random(shape[:2]) > 0.5)]
    if rng.random() < 0.2:
        key.insert(rng.integers(len(key) + 1), None)
    if rng.random() < 0.25:
        key.insert(rng.integers(len(key) + 1), Ellipsis)
    return key[0] if len(key) == 1 and rng.random() < 0.7 else tuple(key)


def laid_out(array: Any, layout: str, dtype: ad.dtype) -> ad.Tensor:
    """A tensor of these elements, new each time, whose memory looks as it is told."""
    x = ad.from_numpy(array.copy()).to(dtype)
    if layout == "turned" and x.ndim:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    elif layout == "every second" and x.ndim:
        x = x.repeat_interleave(2, -1)[..., ::2]
    elif layout == "a part":
        x = ad.stack([x, x])[1]
    elif layout == "expanded" and x.ndim:
        x = x[:1].expand(x.shape)
    return x


def elements(x: Any) -> Any:
    """What a tensor is made of, to the bit."""
    seen = ad.view_as_real(x) if x.is_complex() else x
    return (
        x.dtype,
        tuple(x.shape),
        seen.contiguous().reshape(-1).clone().view(ad.uint8).numpy().tobytes(),
    )


def read(x: ad.Tensor, key: Any) -> Any:
    try:
        out = x[key]
    except Exception as error:
        return type(error), str(error)
    return (*elements(out), out.stride(), out._is_view(), out.data_ptr() == x.data_ptr())


def written(x: ad.Tensor, key: Any, value: Any) -> Any:
    before = x._version
    try:
        x[key] = value(x) if callable(value) else value
        told: Any = None
    except Exception:  # of two things that are wrong either may be told
        told = "refused"
    return told, elements(x), x._version - before > 0


def values(rng: np.random.Generator, x: ad.Tensor, key: Any) -> list[Any]:
    """What may be written there: numbers, and what fits, may be broadcast, or does not fit."""
    try:
        shape = tuple(x[key].shape)
    except Exception:
        shape = ()
    like = ad.from_numpy(rng.integers(0, 9, (1, *shape))).to(x.dtype)
    given: list[Any] = [2, -1.5, like[0], like, like[0].double(), ad.tensor(3).to(x.dtype)]
    given += [ad.ones(7, dtype=x.dtype), True, lambda target: target[key], 300]
    return [given[k] for k in rng.choice(len(given), 2, replace=False)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keys_do_what_their_operations_do(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape) * 100 + sum(shape))
    array = rng.integers(0, 100, shape)
    for k in range(KEYS):
        key = random_key(rng, shape)
        dtype, layout = DTYPES[k % len(DTYPES)], LAYOUTS[k // 2 % len(LAYOUTS)]
        x, other = laid_out(array, layout, dtype), WRITTEN.get(layout, layout)
        with CONTEXT.having(reference=True):
            want = read(x, key)
            wanted = [
                (value, written(laid_out(array, other, dtype), key, value))
                for value in values(rng, x, key)
            ]
        for _ in range(3):
            assert read(x, key) == want, (key, dtype, layout)
            for value, outcome in wanted:
                got = written(laid_out(array, other, dtype), key, value)
                assert got == outcome, (key, value, dtype, other)


def followed(array: Any, layout: str, dtype: ad.dtype, key: Any, value: Any) -> Any:
    """What is written and read by a key that the tape follows, and the gradients of that."""
    leaf = laid_out(array, layout, dtype).requires_grad_()
    if isinstance(value, ad.Tensor) and value.dtype.is_floating_point:
        value = value.clone().requires_grad_()
    x = leaf * 1
    weights = ad.arange(1.0, x.numel() + 1).reshape(x.shape).to(dtype)
    try:
        x[key] = value
        x[key] += 2
        out = (x * weights).sum() + x[key].sum()
    except Exception:
        return "refused", elements(x.detach())
    leaves = [leaf, *([value] if isinstance(value, ad.Tensor) and value.requires_grad else [])]
    grads = ad.autograd.grad(out, leaves, allow_unused=True)
    return elements(x.detach()), [None if g is None else elements(g) for g in grads], x._version


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keys_that_the_tape_follows_do_what_their_operations_do(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape) * 10 + sum(shape))
    array = rng.integers(0, 100, shape)
    for k in range(KEYS):
        key = random_key(rng, shape)
        if k % 4 == 0 and shape:
            key = ad.from_numpy(rng.random(shape) > 0.5)
        dtype = (ad.float32, ad.float64, ad.bfloat16)[k % 3]
        layout = ("rows", "turned", "every second")[k // 2 % 3]
        for value in values(rng, laid_out(array, layout, dtype), key):
            if callable(value):
                continue
            given = (array, layout, dtype, key, value)
            with CONTEXT.having(reference=True):
                want = followed(*given)
            for _ in range(3):
                assert followed(*given)[:2] == want[:2], given


def test_reads_and_writes_meet_programs() -> None:
    """So that the test above is one of native code, where it can be."""
    if loops.native() is None:
        pytest.skip("objects are laid out otherwise here: nothing is met natively")
    x, index = ad.arange(8.0).reshape(2, 4), ad.tensor([1, 0])
    for _ in range(3):
        x[:, index] = x[index, 1:3]
    assert few._TAKEN.small
    assert few._PUT.small


def test_numbers_in_tensors_are_read_when_they_are_used() -> None:
    x, at = ad.arange(4.0), ad.tensor(0)
    seen = []
    for k in range(4):
        at.fill_(k)
        seen.append(float(x[at]))
        x[at] = -1.0
    assert seen == [0.0, 1.0, 2.0, 3.0]
    assert x.tolist() == [-1.0] * 4


def test_what_must_be_known_of_is() -> None:
    leaf = ad.ones(4, requires_grad=True)
    index, mask = ad.tensor([0, 1]), ad.tensor([True, False, True, False])
    for key in (0, slice(1), ..., index, mask, (index,)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            leaf[key] = 1.0
        y = leaf * 1
        y[key] = 0.0
        (grad,) = ad.autograd.grad(y.sum(), leaf)
        want = ad.ones(4)
        want[key] = 0.0
        assert grad.tolist() == want.tolist()
        z = ad.ones(4)
        z[key] = leaf[key] * 3
        assert z.requires_grad
        with ad.no_grad():
            before = leaf._version
            leaf[key] = 1.0
            assert leaf._version > before
    kept = leaf * leaf.exp()
    with ad.no_grad():
        leaf[index] = 2.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()
    with ad.inference_mode():
        inner = ad.ones(4)
        inner[index] = 3.0
        inner[1:] = ad.zeros(3)
        assert inner[index].tolist() == [3.0, 0.0]
        assert inner[index].is_inference()
    with pytest.raises(RuntimeError, match="inference tensor"):
        inner[index] = 1.0
    with pytest.raises(RuntimeError, match="inference tensor"):
        inner[0] = 1.0


def test_masked_scatter_reads_what_was_there() -> None:
    for mask in ([False, True, True, True], [True] * 4, [False] * 4):
        array = np.arange(4.0)
        x, same = ad.from_numpy(array), ad.from_numpy(array)
        want = x.clone().masked_scatter(ad.tensor(mask), same.clone())
        x.masked_scatter_(ad.tensor(mask), same)
        assert x.tolist() == want.tolist()
    x, source = ad.zeros(2, 3), ad.arange(12.0).reshape(3, 4)
    mask = ad.tensor([[True, False, True], [False, True, True]])
    assert x.masked_scatter_(mask, source).tolist() == [[0, 0, 1], [0, 2, 3]]
    assert x.T.masked_scatter_(mask.T, source + 5).tolist() == [[5, 0], [0, 6], [7, 8]]
    with pytest.raises(RuntimeError):
        x.masked_scatter_(mask, ad.ones(3))


PLAIN = ((gather, "plain_dim"), (scatter, "plain_dim"), (whole_slices, "plain_slices"))
ALONG = ("gather", "scatter", "scatter of a number", "scatter_add")
SLICES = ("index_select", "index_add", "index_copy")


def test_along_a_dimension_whatever_fits_is_as_it_is_otherwise() -> None:
    """Ranks, sizes and dtypes that fit without a doubt, and those that have to be looked at."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        shape = tuple(rng.integers(1, 4, rng.integers(0, 4)))
        x = ad.from_numpy(rng.random(shape)).requires_grad_(bool(rng.integers(2)))
        dim = int(rng.integers(-len(shape) - 1, len(shape) + 1))
        size = shape[dim] if -len(shape) <= dim < len(shape) else 1
        sizes = tuple(max(n + rng.integers(-1, 2 if rng.random() < 0.2 else 1), 0) for n in shape)
        kind = rng.choice([ad.int64, ad.int32, ad.int16], p=[0.8, 0.15, 0.05])
        for name in (*ALONG, *SLICES):
            block = sizes if name in ALONG else tuple(rng.integers(1, 3, int(rng.random() < 0.9)))
            of_slices = [*shape]
            if name in SLICES and block and -len(shape) <= dim < len(shape):
                of_slices[dim] = block[0]
            index = ad.from_numpy(rng.integers(0, size, block)).to(kind)
            wanted = sizes if name in ALONG else tuple(of_slices)
            source = ad.from_numpy(rng.random(wanted if rng.random() < 0.8 else shape))
            source = source.float() if rng.random() < 0.1 else source
            more = () if name in ("gather", "index_select") else (source,)
            given = (x, dim, index, *((2,) if name == "scatter of a number" else more))
            call = getattr(ad, name.split()[0])
            with CONTEXT.having(reference=True), slowly():
                want = told(call, *given)
            assert told(call, *given) == want, (name, given)


@contextlib.contextmanager
def slowly() -> Iterator[None]:
    """Nothing fits without a doubt."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in PLAIN:
            patch.setattr(module, name, lambda *given: None)
        yield


def told(call: Callable[..., ad.Tensor], *given: Any) -> Any:
    try:
        out = call(*given)
    except Exception as error:
        return type(error), str(error)
    return elements(out.detach()), out.stride(), out.requires_grad
