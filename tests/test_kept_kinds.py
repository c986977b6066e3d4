"""Fragments found on disk by the names of their kinds (Note [kept kinds])."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.eager import kept_kinds, recorded
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.profiler import profile
from tests.compiling_anew import recorded_anew
from tests.test_fragments import CASES, draw
from tests.test_fragments import from_one_element_on as from_one_element_on


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled after a recording."""
    compiled, made = recorded.compiled, []

    def noted(*args: Any) -> Any:
        fragment = compiled(*args)
        made.append(fragment)
        return fragment

    monkeypatch.setattr(recorded, "compiled", noted)
    return made


def results(name: str) -> list[np.ndarray]:
    """Values and gradients of a case, as they lie in memory."""
    fn, given = CASES[name]
    leaves = [x.detach().requires_grad_(x.dtype.is_floating_point) for x in given]
    out = fn(*leaves)
    outs = [*out] if isinstance(out, tuple) else [out]
    ad.autograd.backward(outs, [ad.ones_like(o) for o in outs])
    tensors = outs + [x.grad for x in leaves if x.requires_grad]
    return [t.detach().numpy() for t in tensors]


# One of each way in which results lie, are held or hang on parameters.
FOUND = (
    "add", "functions", "sum", "transposed", "linear", "softmax", "layer_norm", "batch_norm",
    "weighted logits", "convolution", "max_pool", "attention",
)  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_is_what_was_recorded(name: str, counted: list[Any]) -> None:
    results(name)  # now it is on disk, if it was not before
    FRAGMENTS.forget()
    counted.clear()
    found = results(name)
    again = [fragment.what for fragment in counted]
    assert not again
    assert any(f is not None and f.is_unrecorded for f in FRAGMENTS.by_kind.values())
    FRAGMENTS.forget()
    with recorded_anew():
        want = results(name)
    assert counted
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a.dtype, a.strides) == (b.dtype, b.strides)


def test_that_there_is_no_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of a sum hands on what it is given. An error may be another one the next time."""
    leaf = draw(3, 5).requires_grad_()
    compiled, tried = recorded.compiled, []

    def noted(*args: Any) -> Any:
        tried.append(args)
        return compiled(*args)

    monkeypatch.setattr(recorded, "compiled", noted)
    for _ in range(2):
        tried.clear()
        FRAGMENTS.forget()
        out = leaf + 1.0
        (grad,) = ad.autograd.grad(out, [leaf], ad.ones_like(out))
    assert not tried
    assert grad.tolist() == [[1.0] * 5] * 3
    kept: list[Any] = []
    monkeypatch.setattr(HOOKS, "keep_operation", lambda *args: kept.append(args))
    unfit = Unfit()
    unfit.__cause__ = RecursionError()
    kept_kinds.keep_unfit(b"too deep in calls", unfit)
    assert not kept


def names_of(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """The names of the kinds that a call meets; nothing is compiled."""
    name_of, names = kept_kinds.name_of, []

    def noted(*args: Any) -> None:
        names.append(name_of(*args))

    def refuse(*args: Any) -> Any:
        raise Unfit

    FRAGMENTS.forget()
    with monkeypatch.context() as patch:
        patch.setattr(kept_kinds, "name_of", noted)
        patch.setattr(recorded, "compiled", refuse)
        call()
    return names


x, y, square = draw(3, 4), draw(3, 4), draw(4, 4)
# What looks alike, but is not; those of a row are all different.
APART: dict[str, list[Callable[[], Any]]] = {
    "operation": [lambda: x.exp(), lambda: x.log()],
    "parameter": [lambda: ad.softmax(x, 0), lambda: ad.softmax(x, 1)],
    "shape": [lambda: x.exp(), lambda: x.reshape(4, 3).exp(), lambda: x.reshape(12).exp()],
    "strides": [lambda: square.exp(), lambda: square.T.exp()],
    "dtype": [lambda: x.exp(), lambda: x.double().exp(), lambda: x.half().exp(),
              lambda: x.bfloat16().exp()],
    "halves": [lambda: x.half().sum(), lambda: x.bfloat16().sum()],
    "the same": [lambda: ad.maximum(x, y), lambda: ad.maximum(x, x)],
    "zeros": [lambda: x**0.0, lambda: x**-0.0, lambda: x**0, lambda: x**2.0, lambda: x**2],
    "numbers": [lambda: x + 1, lambda: x + 1.0],
    "text": [lambda: F.gelu(x), lambda: F.gelu(x, approximate="tanh")],
    "flags": [lambda: x.sum(0), lambda: x.sum(0, keepdim=True), lambda: x.sum(0, dtype=ad.float64)],
}  # fmt: skip


@pytest.mark.parametrize("row", APART)
def test_names_tell_kinds_apart(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [names_of(call, monkeypatch)[-1] for call in APART[row]]
    assert None not in names
    assert len({*names}) == len(names)
    assert names == [names_of(call, monkeypatch)[-1] for call in APART[row]]


def test_the_default_dtype_switches_and_numpy_are_in_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = names_of(lambda: x.exp(), monkeypatch)
    before = ad.get_default_dtype()
    ad.set_default_dtype(ad.float64)
    try:
        names += names_of(lambda: x.exp(), monkeypatch)
    finally:
        ad.set_default_dtype(before)
    ad.use_deterministic_algorithms(True)
    try:
        names += names_of(lambda: x.exp(), monkeypatch)
    finally:
        ad.use_deterministic_algorithms(False)
    monkeypatch.setattr(kept_kinds, "numpy_version", "0.9")
    names += names_of(lambda: x.exp(), monkeypatch)
    assert len({*names}) == 4


def test_rules_are_named_by_what_is_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    def pulled(*tracked: bool) -> Callable[[], Any]:
        leaves = [t.detach().requires_grad_(g) for t, g in zip((x, y), tracked, strict=True)]
        out = leaves[0] / leaves[1]
        return lambda: out.backward(x)

    ways = [pulled(True, False), pulled(False, True), pulled(True, True)]
    names = [tuple(names_of(way, monkeypatch)) for way in ways]
    assert len({*names}) == 3
    assert not any(None in name for name in names)


@pytest.mark.parametrize("part", ["compose", "infer", "opaque", "wrapped"])
def test_operations_of_others_have_no_name(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = REGISTRY["softmax"]
    wrapped, part = part == "wrapped", part.replace("wrapped", "compose")
    own = getattr(record, part)
    of_others = True if part == "opaque" else lambda *args, **params: own(*args, **params)
    monkeypatch.setattr(record, part, wraps(own)(of_others) if wrapped else of_others)
    assert names_of(lambda: ad.softmax(x, 0), monkeypatch)[0] is None


def test_nothing_is_found_or_kept_while_methods_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded then is for this process: a later one has the methods as they are."""
    exp = ad.Tensor.exp
    call = lambda: ad.softmax(x, 0)
    names = names_of(call, monkeypatch)
    assert None not in names
    compiled = [ad.compile(lambda x: ad.softmax(x, 1) * 3) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(ad.Tensor, "exp", wraps(exp)(lambda x: exp(x) + 1))
        assert {*names_of(call, monkeypatch)} == {None}
        other = compiled[0](x)
    assert names_of(call, monkeypatch)[:1] == names[:1]
    own = compiled[1](x)
    ad.testing.assert_close(own, x.softmax(1) * 3)
    assert not ad.allclose(own, other)
    monkeypatch.setattr(ad.Tensor, "of_ones_own", lambda x: x + 1, raising=False)
    # Nobody here calls it. By now the parts may be found natively, without names.
    assert names_of(call, monkeypatch)[:1] == names[:1]


@pytest.mark.parametrize(
    "change",
    [
        lambda told: None,
        lambda told: [],
        lambda told: {**told, "image": "../image"},
        lambda told: {**told, "image": "ab" * 32},
        lambda told: {**told, "about": None},
        lambda told: {**told, "floats": "none"},
        lambda told: {**told, "about": {**told["about"], "results": []}},
        lambda told: {**told, "about": {**told["about"], "results": [[7, None, None]]}},
        lambda told: {**told, "about": {**told["about"], "holder": "set"}},
    ],
)
def test_entries_that_are_whole_but_unfitting_are_made_again(
    change: Callable[[Any], Any], counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, bytes] = {}
    put, get = store.put, store.get
    monkeypatch.setattr(store, "put", lambda k, v: kept.update({k: v}) or put(k, v))
    with recorded_anew():
        want = x.tanh().numpy()
    (key,) = [k for k, v in kept.items() if v.startswith(b'{"image"')]
    damaged = json.dumps(change(json.loads(kept[key]))).encode()
    monkeypatch.setattr(store, "get", lambda k: damaged if k == key else get(k))
    FRAGMENTS.forget()
    counted.clear()
    np.testing.assert_array_equal(x.tanh().numpy(), want)
    assert len(counted) == 1


def test_a_program_that_is_gone_is_made_again(
    tmp_path: Path, counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", {})
    want = x.neg().numpy()
    for path in tmp_path.rglob("*"):  # all but what leads to it
        if path.is_file() and path.read_bytes()[store.HEAD :][:8] != b'{"image"':
            path.unlink()
    for _ in range(2):
        FRAGMENTS.forget()
        np.testing.assert_array_equal(x.neg().numpy(), want)
    assert len(counted) == 2  # the third time it was found


def test_who_looks_on_sees_what_it_is_made_of() -> None:
    x.exp()
    FRAGMENTS.forget()
    x.exp()
    (fragment,) = FRAGMENTS.by_kind.values()
    assert fragment is not None
    assert fragment.is_unrecorded
    with profile():
        assert LISTENERS
        x.exp()
    (fragment,) = FRAGMENTS.by_kind.values()
    assert fragment is not None
    assert not fragment.is_unrecorded
    assert fragment.executable.accounts()
