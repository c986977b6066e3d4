"""Views that native code makes by words (Note [views by words]) are those that kernels give."""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations.listing import every
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.eager import enlisted
from tests.test_small_calls import at_once  # noqa: F401

needs_native = pytest.mark.skipif(
    loops.native() is None or loops.native().meet_call is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)
DTYPES = (ad.float32, ad.float64, ad.bfloat16, ad.complex64, ad.int64, ad.bool, ad.uint8)


def source(rng: random.Random) -> ad.Tensor:
    """A tensor of any layout, in the middle of its memory perhaps."""
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    x = ad.arange(int(np.prod(sizes)) * 2, dtype=ad.int64).to(rng.choice(DTYPES))
    x = x[len(x) // 2 :].view(sizes) if rng.random() < 0.5 else x.view(*sizes, 2)[..., 1]
    x = x.clone() if rng.random() < 0.3 else x
    return x.permute(rng.sample(range(x.ndim), x.ndim)) if rng.random() < 0.5 else x


def calls(rng: random.Random, x: ad.Tensor) -> list[tuple[str, tuple[Any, ...]]]:
    """Methods that give views, with arguments."""
    d, e = rng.randrange(-x.ndim, x.ndim), rng.randrange(x.ndim)
    drawn = [
        ("transpose", (d, e)), ("swapaxes", (e, d)), ("unsqueeze", (d,)), ("squeeze", ()),
        ("squeeze", (d,)), ("ravel", ()), ("flatten", (e,)), ("unbind", (d,)), ("select", (d, -1)),
        ("narrow", (d, x.shape[d] // 2, 1)), ("movedim", (d, e)), ("split", (2, d)),
        ("chunk", (2, d)), ("expand", (3, *x.shape)), ("expand", (-1,) * x.ndim),
        ("reshape", (-1,)), ("unflatten", (d, (1, -1))), ("expand_as", (ad.ones(2, *x.shape),)),
        ("permute", (tuple(reversed(range(x.ndim))),)), ("broadcast_to", ((2, *x.shape),)),
        ("view_as", (ad.ones(1, *x.shape),)), ("tensor_split", (2, d)),
    ]  # fmt: skip
    if x.ndim > 1:
        drawn += [("diagonal", (rng.randint(-1, 1),)), ("diagonal", (0, 0, -1))]
    if x.is_complex():
        drawn += [("__real__", ()), ("view_as_real", ())]
    return drawn


def call(x: ad.Tensor, name: str, args: tuple[Any, ...]) -> Any:
    if name == "__real__":
        return x.real
    held = getattr(x, name, None)
    return held(*args) if held is not None else getattr(ad, name)(x, *args)


def owner(array: Any) -> Any:
    """What keeps an array's memory, and lasts as long as it."""
    return array if getattr(array, "base", None) is None else owner(array.base)


def told(out: Any, x: ad.Tensor) -> Any:
    """All that is known of views: how they lie, what they show, whose they are."""
    leaves, _ = flatten(out)
    found: list[Any] = [type(out)]
    for t in leaves:
        a = t._array
        flags = (a.flags.writeable, a.flags.c_contiguous, a.flags.f_contiguous, a.flags.aligned)
        found += [a.dtype, a.shape, t.stride(), flags, t._version, t.requires_grad]
        found += [t.tolist(), str(t.grad_fn).split(" at ")[0], t._storage is x._storage]
        if t._storage is x._storage:
            found += [t.data_ptr(), t._base is not None and id(t._base[0])]
            found += [[record.name for record, _ in t._chain], [dict(p) for _, p in t._chain]]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_random_views_are_those_of_kernels(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        x = source(rng)
        if x.is_floating_point() and rng.random() < 0.5:
            x = (x.clone() if rng.random() < 0.5 else x).detach().requires_grad_() * 1
        for name, args in calls(rng, x):
            with CONTEXT.having(reference=True):
                try:
                    want = told(call(x, name, args), x)
                except RuntimeError as error:  # PyTorch's own refusals
                    want = str(error)
            for _ in range(3):
                try:
                    found = told(call(x, name, args), x)
                except RuntimeError as error:
                    found = str(error)
                assert found == want, (name, args)


@needs_native
def test_they_are_made_by_words() -> None:
    x, v = ad.arange(12.0).view(3, 4), ad.arange(3.0)
    for _ in range(3):
        x.T, x.unsqueeze(0), x.unbind(0), x.view_as(ad.ones(4, 3)), x.flatten()
        ad.meshgrid(v, v + 1, indexing="ij"), ad.broadcast_tensors(v, x.T[:, :1])
    owners = [o for o in enlisted._owners if isinstance(o, SmallCalls)]
    words = {o.name for o in owners if any(type(entry[6]) is tuple for entry in every(o.small))}
    assert owner(x.T._array) is owner(x._array)  # which keeps the memory
    assert words >= set("T unsqueeze unbind view_as flatten meshgrid broadcast_tensors".split())


@pytest.mark.filterwarnings("ignore:.*not writ")
def test_memory_that_may_not_be_written_stays_so() -> None:
    """A program is found by how arrays lie, and not by what may be done with them."""
    shut = np.arange(12.0).reshape(3, 4)
    shut.flags.writeable = False
    for held in (np.arange(12.0).reshape(3, 4), shut, np.arange(12.0).reshape(3, 4), shut):
        x = ad.from_numpy(held)
        for _ in range(3):
            assert x.T._array.flags.writeable == held.flags.writeable
            assert all(row._array.flags.writeable == held.flags.writeable for row in x.unbind(0))


def test_elements_that_say_where_to_split_are_read() -> None:
    x = ad.arange(6.0)
    for places, sizes in (([1, 2], [1, 1, 4]), ([2, 4], [2, 2, 2]), ([0, 5], [0, 5, 1])) * 3:
        parts = x.tensor_split(ad.tensor(places))
        assert [len(part) for part in parts] == sizes


def test_the_same_tensor_twice() -> None:
    x, y = ad.arange(3.0), ad.arange(3.0) + 5
    for one, other in ((x, y), (x, x), (y, x), (y, y), (x[1:], x[:2])) * 3:
        rows, columns = ad.meshgrid(one, other, indexing="ij")
        assert rows.tolist() == [[float(a)] * len(other) for a in one]
        assert columns.tolist() == [other.tolist()] * len(one)
        assert one.view_as(other).data_ptr() == one.data_ptr()
        first, second = ad.broadcast_tensors(one, other[:1])
        assert (first.tolist(), second.tolist()) == (one.tolist(), [float(other[0])] * len(one))


def test_gradients_of_several() -> None:
    for _ in range(4):
        x, y = ad.ones(2, requires_grad=True), ad.ones(3)
        a, b = ad.meshgrid(x * 2, y, indexing="ij")
        assert (a.requires_grad, b.requires_grad) == (True, False)
        (a * ad.arange(6.0).view(2, 3)).sum().backward()
        assert x.grad.tolist() == [6.0, 24.0]
        with ad.no_grad():
            assert not x.view_as(x.clone()).requires_grad


def test_writes_go_through_all_of_them() -> None:
    for _ in range(4):
        x = ad.zeros(2, 3)
        for k, view in enumerate((x.T, x.unsqueeze(0), x.flatten(), x.view_as(ad.ones(3, 2)))):
            view.add_(k)
            assert (view._version, x._version) == (k + 1, k + 1)
        assert x.tolist() == [[6.0] * 3] * 2
        leaf = ad.ones(2, 2, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf"):
            leaf.T.add_(1)
        with ad.no_grad():
            leaf.T.add_(1)
        assert leaf.tolist() == [[2.0] * 2] * 2


@needs_native
def test_nothing_is_kept() -> None:
    x = ad.zeros(2, 3)
    for _ in range(4):
        x.T, x.unbind(0), ad.meshgrid(x[0], x[1], indexing="ij")
    array, dtype = x._array, x._array.dtype
    gc.collect()
    before = [sys.getrefcount(o) for o in (x, array, dtype, x._storage, None, x._chain)]
    for _ in range(500):
        x.T, x.unbind(0), x.flatten()
    after = [sys.getrefcount(o) for o in (x, array, dtype, x._storage, None, x._chain)]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
