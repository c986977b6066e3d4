"""What programs keep of parameters is right after writes that an interrupt cut short."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

import pytest

import adjoint as ad
from tests.pressing import uncollected

Write = Callable[[Any], Any]


class Interrupt(BaseException):
    """As a signal's handler raises it, between any two steps of Python."""


@cache
def points(code: CodeType) -> frozenset[int]:
    """Where Python looks for signals: behind calls."""
    names = [(x.opname, x.offset) for x in dis.get_instructions(code)]
    behind = {k + 1 for k, (name, _) in enumerate(names) if name.startswith("CALL")}
    return frozenset(at for k, (_, at) in enumerate(names) if k in behind)


def interrupted(weight: Any, write: Callable[[], Any], after: int) -> bool:
    """Write, interrupted at a place after elements were first seen changed; whether it came to it.

    Before that there is nothing to miss, however often it is interrupted.
    """
    array = weight._array
    before, seen = array.copy(), 0

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in points(frame.f_code):
            seen += bool(seen or (array != before).any())
            if seen > after:
                sys.settrace(None)
                raise Interrupt
        return look

    traced = sys.gettrace()
    with uncollected():
        try:
            sys.settrace(look)
            write()
        except Interrupt:
            return True
        finally:
            sys.settrace(traced)
    return False


def by_sgd(model: Any) -> Write:
    optimizer = ad.optim.SGD(model.parameters(), lr=0.5)
    return lambda w: optimizer.step()


def by_momentum(model: Any) -> Write:
    optimizer = ad.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return lambda w: optimizer.step()


def by_adamw(model: Any) -> Write:
    optimizer = ad.optim.AdamW(model.parameters(), lr=0.1)
    return lambda w: optimizer.step()


def by_a_program(model: Any) -> Write:
    compiled = ad.compile(lambda w: w.mul_(3))
    return lambda w: compiled(w)


def by_a_program_of_its_own(model: Any) -> Write:
    compiled = ad.compile(lambda: model[0].weight.mul_(3))
    return lambda w: compiled()


WRITES: dict[str, Callable[[Any], Write]] = {
    f.__name__: f for f in (by_sgd, by_momentum, by_adamw, by_a_program, by_a_program_of_its_own)
} | {
    name: lambda model, write=write: write
    for name, write in {
        "mul_": lambda w: w.mul_(3),
        "add_": lambda w: w.add_(1),
        "lerp_": lambda w: w.lerp_(ad.ones_like(w), 0.5),
        "fill_": lambda w: w.fill_(0.5),
        "zero_": lambda w: w.zero_(),
        "copy_": lambda w: w.copy_(ad.ones_like(w)),
        "copy_ of doubles": lambda w: w.copy_(ad.ones_like(w).double()),
        "copy_ of data": lambda w: w.data.copy_(ad.ones_like(w)),
        "setitem": lambda w: w.__setitem__(slice(None), 0.5),
        "setitem of a tensor": lambda w: w.__setitem__(slice(1), ad.ones_like(w)[:1]),
        "setitem by numbers": lambda w: w.__setitem__(ad.tensor([1, 2]), 0.5),
        "setitem by truths": lambda w: w.__setitem__(w > 0, 0.5),
        "index_copy_": lambda w: w.index_copy_(0, ad.tensor([1]), ad.ones(1, 16, 3, 3)),
        "masked_fill_": lambda w: w.masked_fill_(w > 0, 0.5),
        "masked_scatter_": lambda w: w.masked_scatter_(w > 0, ad.ones_like(w)),
        "index_add_": lambda w: w.index_add_(0, ad.tensor([1]), ad.ones(1, 16, 3, 3)),
        "normal_": lambda w: w.normal_(),
        "uniform_": lambda w: w.uniform_(),
        "out": lambda w: ad.mul(ad.ones_like(w), 3, out=w.data),
        "foreach": lambda w: ad._foreach_mul_([w, ad.ones(8)], 3.0),
        "foreach copy": lambda w: ad._foreach_copy_([w], [ad.ones_like(w)]),
    }.items()
}


@pytest.mark.parametrize("name", WRITES)
def test_an_interrupted_write_is_seen(name: str) -> None:
    """Whatever an interrupt leaves of a write: the next call is what eager execution gives."""
    ad.manual_seed(0)
    nn = ad.nn
    model = nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).eval()  # fmt: skip
    weight, x = model[0].weight, ad.randn(1, 16, 8, 8)
    compiled, write = ad.compile(model), WRITES[name](model)
    came = 0
    with ad.no_grad():
        for k in range(8):
            for p in model.parameters():
                p.grad = ad.randn_like(p)
            if k > 2:  # by now as it is called most of the time
                weight.copy_(ad.randn_like(weight) / 4)
                before = model(x)
                for _ in range(2):
                    ad.testing.assert_close(compiled(x), before, rtol=1e-4, atol=1e-5)
                came += interrupted(weight, lambda: write(weight), k - 3)
            else:
                write(weight)
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert came, "nothing was interrupted"
