"""State in lists, tuples and dicts that a compiled function replaces: given to each call."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

# A container of two tensors, and what takes it apart.
SHAPES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "list": (lambda a, b: [a, b], lambda m: m[0] + m[1]),
    "tuple": (lambda a, b: (a, b), lambda m: m[0] + m[1]),
    "dict": (lambda a, b: {"a": a, "b": b}, lambda m: m["a"] + m["b"]),
    "nested": (lambda a, b: [(a, None), {"b": b}], lambda m: m[0][0] + m[1]["b"]),
}


class Holder:
    def __init__(self, state: Any) -> None:
        self.state = state


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", ["attribute", "item"])
def test_replaced_containers_are_recorded_once(shape: str, kept: str) -> None:
    make, taken = SHAPES[shape]
    holder = Holder(make(ad.zeros(3), ad.ones(3)))
    table = {"state": make(ad.zeros(3), ad.ones(3))}

    def by_attribute(x: Any) -> Any:
        h = taken(holder.state) * 0.5 + x
        holder.state = make(h, h * 0.25)
        return h

    def by_item(x: Any) -> Any:
        h = taken(table["state"]) * 0.5 + x
        table["state"] = make(h, h * 0.25)
        return h

    step = by_attribute if kept == "attribute" else by_item
    run = ad.compile(step)
    h, k = ad.zeros(3), ad.ones(3)
    for count in range(6):
        if count == 4:  # begun anew from outside
            h, k = ad.full((3,), 7.0), ad.zeros(3)
            holder.state = table["state"] = make(h, k)
        h = (h + k) * 0.5 + float(count)
        k = h * 0.25
        assert ad.equal(run(ad.full((3,), float(count))), h)
    assert run.traces == 1
    assert ad.equal(taken(holder.state if kept == "attribute" else table["state"]), h + k)


def test_hidden_state_of_a_recurrent_layer() -> None:
    class Model(nn.Module):
        hidden: Any = None

        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(3, 4)

        def forward(self, x: Any) -> Any:
            out, hidden = self.rnn(x, self.hidden)
            self.hidden = tuple(h.detach() for h in hidden)
            return out

    model = Model()
    plain = Model()
    plain.load_state_dict(model.state_dict())
    optimizers = [ad.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = ad.compile(lambda x: step(model, optimizers[0], x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in range(6):
            x = ad.arange(30, dtype=ad.float32).reshape(5, 2, 3) / (10 + count)
            assert ad.allclose(compiled(x), step(plain, optimizers[1], x), rtol=1e-5)
    assert compiled.traces == 2  # without a state, and with one
    for ours, expected in zip(model.hidden, plain.hidden, strict=True):
        assert ad.allclose(ours, expected, rtol=1e-4, atol=1e-6)


# -- random programs against Python ------------------------------------------------------------

_PLACES = ("table['m']", "first.m", "cells[0]", "second.m")
_FORMS = ("[{}, {}]", "({}, {})", "{{'a': {}, 'b': {}}}", "[{}, ({}, None)]", "[{0}, {0}]")
_LINES = (
    "h = total({p}) + x",
    "h = total({p}) * 0.5 + w",
    "{p} = {p}",
    "{p} = {q}",
    "{p} = list({q}) if type({q}) is list else {q}",
    "h = h + (1 if {p} is None else 2)",
    "old = {p}; {p} = {form}; h = h + total(old)",
    "{p} = {form}",
    "(first_of({p})).add_(1)",
    "{p} = [h] + ({p} if type({p}) is list else [])[:1]",
    "if type({p}) is list: {p}[0] = h",
    "if type({p}) is list: {p}.append(h); {p}.pop(0)",
    "if type({p}) is dict: {p}['a'] = h",
    "h = h + (1 if {p} is {q} else 0)",
)


def _source(draw: random.Random) -> str:
    lines = ["def step(x, w):", "    h = x"]
    for _ in range(draw.randint(1, 4)):
        form = draw.choice(_FORMS).format(draw.choice(("h", "h.detach()")), draw.choice("xw"))
        p, q = draw.choice(_PLACES), draw.choice(_PLACES)
        lines.append("    " + draw.choice(_LINES).format(p=p, q=q, form=form))
    return "\n".join([*lines, "    return h, " + draw.choice(("h.sum()", *_PLACES))])


def _total(m: Any) -> Any:
    parts = m.values() if type(m) is dict else m if type(m) in (list, tuple) else None
    if parts is None:
        return 0.0 if m is None else m
    total: Any = 0.0
    for part in parts:
        total = total + _total(part)
    return total


def _first_of(m: Any) -> Any:
    while not isinstance(m, ad.Tensor):
        m = ad.zeros(3) if m is None else next(iter(m.values() if type(m) is dict else m))
    return m


def _shown(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, dict):
        return {key: _shown(part) for key, part in value.items()}
    return type(value)(map(_shown, value)) if isinstance(value, (list, tuple)) else value


def _played(seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    draw = random.Random(seed)
    source = _source(draw)
    shared = [ad.zeros(3), ad.ones(3)]
    first, second = Holder(None), Holder(None)
    first.m, second.m = (ad.zeros(3), ad.ones(3)), {"a": ad.ones(3), "b": ad.zeros(3)}  # type: ignore[attr-defined]
    cells = [shared if draw.random() < 0.3 else [ad.ones(3), ad.zeros(3)]]
    table: dict[str, Any] = {"m": shared}
    scope: dict[str, Any] = {
        "first": first, "second": second, "cells": cells, "table": table,
        "total": _total, "first_of": _first_of,
    }  # fmt: skip
    exec(source, scope)
    run = wrap(scope["step"])
    seen: list[Any] = [source]
    for count in range(6):
        try:
            result = run(ad.full((3,), float(count)), ad.full((3,), 0.5 * count))
        except Exception as error:
            result = type(error).__name__
        held = [table["m"], first.m, cells[0], second.m]  # type: ignore[attr-defined]
        same = [a is b for a in held for b in held if type(a) in (list, dict)]
        seen.append((_shown(result), _shown(held), same))
        if draw.random() < 0.25:
            first.m = (ad.full((3,), 5.0), ad.ones(3))  # type: ignore[attr-defined]
        if draw.random() < 0.15:
            table["m"] = draw.choice((None, cells[0], [ad.ones(3), ad.ones(3)]))
    return seen


@pytest.mark.parametrize("group", range(4))
def test_random_programs_keep_state_as_python_does(group: int) -> None:
    for seed in range(group * 6, group * 6 + 6):
        plain = _played(seed, lambda fn: fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # calls left to Python, and recorded often
            recorded = _played(seed, lambda fn: ad.compile(fn, fullgraph=False))
        assert recorded == plain
