"""What hooks put in the place of cotangents is of the same form, wherever they are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

Change = Callable[[Any], Any]
REFUSED: dict[str, tuple[Change, type[Exception], str]] = {
    "fewer elements": (lambda g: g[:2], RuntimeError, "changed the size"),
    "one to be spread": (lambda g: g[:1], RuntimeError, "changed the size"),
    "another dimension": (lambda g: g[None], RuntimeError, "changed the size"),
    "doubles": (lambda g: g.double(), RuntimeError, "changed the type"),
    "halves": (lambda g: g.half(), RuntimeError, "changed the type"),
    "complex numbers": (lambda g: g.cfloat(), RuntimeError, "changed the type"),
    "no tensor": (lambda g: 3, TypeError, "expected Variable"),
    "another device": (lambda g: g.to("meta"), RuntimeError, "changed the device"),
}
PLACES = ("leaf", "result", "before a node", "after a node", "before a leaf's node")


def register(place: str, x: Any, a: Any, change: Change) -> None:
    """The hook at its place; a node's is shown tuples."""
    match place:
        case "leaf":
            x.register_hook(change)
        case "result":
            a.register_hook(change)
        case "before a node":
            a.grad_fn.register_prehook(lambda outputs: (change(outputs[0]),))
        case "after a node":
            a.grad_fn.register_hook(lambda inputs, outputs: (change(inputs[0]),))
        case "before a leaf's node":
            a.grad_fn.next_functions[0][0].register_prehook(lambda outputs: (change(outputs[0]),))
        case _:
            raise AssertionError(place)


def backward(place: str, change: Change) -> Any:
    x = ad.ones(3, requires_grad=True)
    a = x.sin()
    register(place, x, a, change)
    a.cos().sum().backward()
    return x.grad


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", REFUSED)
def test_another_form_is_refused(place: str, kind: str) -> None:
    change, error, words = REFUSED[kind]
    for _ in range(5):  # native code takes over
        with pytest.raises(error, match=words):
            backward(place, change)


@pytest.mark.parametrize("place", PLACES)
def test_another_value_is_taken(place: str) -> None:
    once = backward(place, lambda g: g)
    for _ in range(5):
        twice = backward(place, lambda g: g * 2)
        assert twice.tolist() == (once * 2).tolist()


@pytest.mark.parametrize("place", ["before a node", "after a node", "before a leaf's node"])
@pytest.mark.parametrize("count", [0, 2])
def test_as_many_are_returned_as_were_given(place: str, count: int) -> None:
    x = ad.ones(3, requires_grad=True)
    a = x.sin()
    node = a.grad_fn.next_functions[0][0] if "leaf" in place else a.grad_fn
    if "before" in place:
        node.register_prehook(lambda outputs: (outputs[0],) * count)
    else:
        node.register_hook(lambda inputs, outputs: (inputs[0],) * count)
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        a.cos().sum().backward()


def test_a_leaf_whose_gradients_have_a_dtype_of_their_own_converts_them() -> None:
    x = ad.ones(3, requires_grad=True)
    x.grad_dtype = ad.float64
    x.register_hook(lambda g: g * 2)
    x.sin().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is ad.float64
