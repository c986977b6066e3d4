"""What a signal's handler raises inside an operation reaches the program, and nothing is done twice.

A handler that raises (a time limit) is called between any two steps of Python. Where a quick way
falls back to the ordinary one after an error, it must tell such an error from its own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.core.errors import raised_outside
from tests.pressing import uncollected
from tests.test_interrupted_writes import points

# Places of a call that native code does: behind it in the package, and in the program.
FEWEST = 2


class OutOfTime(Exception):
    """As a handler raises it: an Exception as others are."""


def raised_at(call: Callable[[], Any], place: int) -> tuple[bool, Any]:
    """Make a call, with an exception raised at its place-th step; whether it came to that, and what
    the call gave."""
    step, traced = 0, sys.gettrace()

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal step
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in points(frame.f_code):
            step += 1
            if step > place:
                sys.settrace(None)
                raise OutOfTime
        return look

    with uncollected():
        try:
            sys.settrace(look)
            result = call()
        except OutOfTime:
            return True, None
        finally:
            sys.settrace(traced)
    assert step <= place, "the exception was swallowed"
    return False, result


X, Y = ad.arange(12.0).reshape(3, 4) + 1, ad.full((3, 4), 2.0)
WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(Y),
    "mul_": lambda x: x.mul_(3.0),
    "operator": lambda x: x.__imul__(Y),
    "addcmul_": lambda x: x.addcmul_(Y, Y, value=2),
    "lerp_": lambda x: x.lerp_(Y, 0.25),
    "exp_": lambda x: x.exp_(),
    "out": lambda x: ad.mul(x, Y, out=x),
    "setitem": lambda x: x.__setitem__(0, x[1]),
    "index_add_": lambda x: x.index_add_(0, ad.tensor([1]), Y[:1]),
    "cumsum_": lambda x: x.cumsum_(0),
    "foreach": lambda x: ad._foreach_mul_([x], 3.0),
    "clamp_": lambda x: x.sub_(3).clamp_(min=0.5),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_done_once_or_not_at_all(name: str) -> None:
    write = WRITES[name]
    for _ in range(64):  # until a program is made
        write(X.clone())
    once = X.clone()
    write(once)
    place, came = 0, True
    while came:
        x = X.clone()
        before = x._version
        came, _ = raised_at(lambda x=x: write(x), place)  # type: ignore[misc]
        if came and "clamp" not in name:
            assert x.equal(X) or x.equal(once), place
            assert x._version > before or x.equal(X), place
        assert came or x.equal(once)
        place += 1
    assert place > FEWEST


READS: dict[str, Callable[[], Any]] = {
    "add": lambda: X + Y,
    "exp": lambda: X.exp(),
    "linear": lambda: ad.nn.functional.linear(X, Y),
    "sum": lambda: X.sum(1),
    "softmax": lambda: X.softmax(1),
    "cat": lambda: ad.cat([X, Y]),
    "rand": lambda: ad.rand(3, 4),
}


@pytest.mark.parametrize("name", READS)
def test_a_result_is_right_or_the_exception_arrives(name: str) -> None:
    read = READS[name]
    for _ in range(64):
        read()
    place, came = 0, True
    while came:
        ad.manual_seed(0)
        expected = read()
        ad.manual_seed(0)
        came, result = raised_at(read, place)
        assert came or result.equal(expected)
        place += 1
    assert place > FEWEST


def test_a_compiled_write_is_done_once_or_not_at_all() -> None:
    @ad.compile
    def write(x: Any) -> Any:
        try:
            return x.mul_(3).add_(1).sum()
        except ValueError:
            return None

    for _ in range(8):
        write(X.clone())
    once, place, came = X * 3 + 1, 0, True
    while came:
        x = X.clone()
        came, _ = raised_at(lambda x=x: write(x), place)  # type: ignore[misc]
        assert x.equal(once) or (came and x.equal(X)), place
        assert x._version or x.equal(X), place
        place += 1
    assert place > FEWEST


def test_who_raised_an_exception() -> None:
    def error(call: Callable[[], Any]) -> Exception:
        try:
            call()
        except Exception as caught:
            return caught
        raise AssertionError

    def handler() -> None:
        raise ValueError

    assert not raised_outside(error(lambda: ad.ones(2) @ ad.ones(3)))
    assert not raised_outside(error(lambda: X.reshape(5)))
    assert raised_outside(error(handler))
    assert raised_outside(OutOfTime())
    assert raised_outside(TimeoutError())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_timer_ends_a_loop_of_writes() -> None:
    def handler(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for delay in range(1, 40):
            x, n = ad.zeros(3, 4), 0
            with uncollected():
                try:
                    signal.setitimer(signal.ITIMER_REAL, delay * 1e-5)
                    while n < 1_000_000:
                        n += 1
                        x.add_(1)
                except OutOfTime:
                    assert x[0, 0].item() in (n - 1, n)
                else:
                    pytest.fail("the exception was swallowed")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
