"""In-place calls of some thousand elements that are one fragment: their launches write (updates)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import sightings, small_calls
from adjoint.engine.graph.eager.fragments import FRAGMENTS

SHAPE = (67, 71)
Write = Callable[[ad.Tensor, ad.Tensor], Any]
WRITES: dict[str, Write] = {
    "add": lambda x, y: x.add_(y),
    "add a multiple": lambda x, y: x.add_(y, alpha=-0.3),
    "subtract a multiple": lambda x, y: x.sub_(y, alpha=0.7),
    "mul": lambda x, y: x.mul_(y),
    "div": lambda x, y: x.div_(y),
    "lerp": lambda x, y: x.lerp_(y, 0.25),
    "copy": lambda x, y: x.copy_(y),
    "copy of doubles": lambda x, y: x.copy_(y.double()),
    "copy of halves": lambda x, y: x.copy_(y.half()),
    "copy of whole numbers": lambda x, y: x.copy_((y * 100).int()),
    "copy of truths": lambda x, y: x.copy_(y > 0),
    "relu": lambda x, y: x.relu_(),
}
DTYPES = (ad.float32, ad.float64, ad.bfloat16)


def numbers(seed: int, dtype: ad.dtype) -> ad.Tensor:
    values = np.random.default_rng(seed).standard_normal(SHAPE)
    values[0, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
    return ad.from_numpy(values).to(dtype)


def bits(x: ad.Tensor) -> Any:
    """Elements as words, those that are no numbers alike."""
    words = x.view({2: ad.int16, 4: ad.int32, 8: ad.int64}[x.itemsize]).numpy()
    return np.where(x.isnan().numpy(), 1, words)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are made at once."""
    if loops.native() is None:
        pytest.skip("objects are laid out otherwise here: nothing is found natively")
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    # However many calls there were before, in other tests.
    monkeypatch.setattr("adjoint.engine.core.operations.small_calls.EVERY", 1)
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    HOOKS.load_rest()
    FRAGMENTS.forget()
    small_calls.PROGRAMS.forget()


def written(write: Write, x: ad.Tensor, y: ad.Tensor) -> list[Any]:
    """What is in the target after each of some calls, and how often it was changed."""
    seen: list[Any] = []
    for _ in range(6):
        write(x, y)
        seen += [bits(x.clone()), x._version]
    return seen


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", WRITES)
def test_writes_have_the_bits_of_the_tables(name: str, dtype: ad.dtype) -> None:
    x, y = numbers(1, dtype), numbers(2, dtype)
    with CONTEXT.having(reference=True):
        want = written(WRITES[name], x.clone(), y)
    got = written(WRITES[name], x.clone(), y)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    if dtype is not ad.bfloat16:  # of which a multiple is rounded before it is added
        made = [x for x in small_calls.PROGRAMS.by_kind.values() if x.__class__ is tuple]
        assert any(found == () for *_, found, _ in made), "no program writes to its operand"


def both(call: Callable[[], list[Any]]) -> None:
    """The same by programs, which are there by now, and by the table."""
    got = call()
    with CONTEXT.having(reference=True):
        want = call()
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shift", [0, 1, 2, 71, 4757])
@pytest.mark.parametrize("name", ["add", "add a multiple", "mul", "copy", "lerp"])
def test_operands_that_share_memory_are_read_before_they_are_written(name: str, shift: int) -> None:
    write = WRITES[name]
    written(write, numbers(1, ad.float32), numbers(2, ad.float32))  # a program for these layouts

    def call() -> list[Any]:
        whole = numbers(3, ad.float32).repeat(2, 2).reshape(-1)
        n = SHAPE[0] * SHAPE[1]
        target, source = whole[:n].view(SHAPE), whole[shift : shift + n].view(SHAPE)
        write(target, source)
        first = bits(whole.clone())
        write(source, target)
        return [first, bits(whole.clone())]

    both(call)


def test_a_tensor_may_be_given_twice() -> None:
    written(WRITES["add a multiple"], numbers(1, ad.float32), numbers(2, ad.float32))

    def call() -> list[Any]:
        x = numbers(4, ad.float32)
        x.add_(x, alpha=-0.3)
        return [bits(x)]

    both(call)


def test_the_tape_and_views_see_what_is_written() -> None:
    y = numbers(2, ad.float32).nan_to_num(0.0, 0.0, 0.0)
    for _ in range(6):
        base = ad.zeros(SHAPE)
        row = base[3]
        base.add_(y, alpha=2.0)
        np.testing.assert_array_equal(row.numpy(), 2 * y[3].numpy())
        leaf = ad.ones(SHAPE).requires_grad_()
        out = leaf * 1.0
        out.add_(y, alpha=2.0)
        out.sum().backward()
        assert leaf.grad is not None
        assert bool((leaf.grad == 1).all())


@pytest.mark.parametrize("size", [5, 15, 16, 17, 64, 1000, 40001])
@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "int8", "bool", "int64"]
)
def test_fills_write_every_element_and_no_other(name: str, size: int) -> None:
    dtype = getattr(ad, name)
    whole = ad.zeros(size + 128, dtype=dtype)
    seen = whole[64 : 64 + size]
    for _ in range(6):
        for value in (1, 0, 1):
            seen.fill_(value)
            want = np.zeros(size + 128)
            want[64 : 64 + size] = value
            np.testing.assert_array_equal(whole.double().numpy(), want)
        for made in (ad.full_like(seen, 1), ad.ones_like(seen), ad.zeros_like(seen).fill_(1)):
            assert made.dtype is dtype
            assert bool((made == 1).all())
        seen.zero_()
        assert not whole.any()


@pytest.mark.parametrize("columns", [1, 7, 64])
def test_rows_are_added_where_indices_say(columns: int) -> None:
    rng = np.random.default_rng(6)
    where = rng.integers(0, 300, 500)
    rows = rng.integers(-9, 9, (500, columns)).astype(np.float32)
    want = np.zeros((300, columns), np.float32)
    np.add.at(want, where, rows)
    for _ in range(6):
        out = ad.zeros(300, columns).index_add_(0, ad.from_numpy(where), ad.from_numpy(rows))
        np.testing.assert_array_equal(out.numpy(), want)
