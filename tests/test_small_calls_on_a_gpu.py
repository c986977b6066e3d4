"""Small calls on a GPU that native code finds give what the CPU gives.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from adjoint.engine.backends.array import in_place
from adjoint.engine.core.operations.public import OVERRIDES
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.graph.eager import device_straight
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from tests import small_calls_on_a_gpu as calls
from tests.interpreted_process import needs_interpreter, run_by_interpreter


@pytest.fixture(autouse=True)
def no_overriding_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have classes that override functions: calls then go by these first."""
    monkeypatch.setattr(OVERRIDES, "active", False)


@pytest.fixture(autouse=True)
def fragments_never_met() -> None:
    """Fragments that earlier tests had native code find are not told to it a second time."""
    FRAGMENTS.forget()


def test_native_code_made_while_a_call_is_listened_to_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def before(*_: object) -> None:
        """What finds calls at first."""

    def made(*_: object) -> None:
        """What does so later."""

    for name in ("meet_on_device", "meet_straight"):
        monkeypatch.setattr(HOOKS, name, before)
    with device_straight.listening():
        assert HOOKS.meet_on_device is HOOKS.meet_straight is device_straight.nothing
        HOOKS.meet_straight = made
    assert (HOOKS.meet_on_device, HOOKS.meet_straight) == (before, made)


def test_a_call_that_is_more_than_operations_is_not_heard() -> None:
    run, to_host, x = HOOKS.run, HOOKS.array.to_host, calls.ad.tensor([2.0])
    with pytest.raises(Unfit), device_straight.listening():
        assert x.item() == 2.0
    with pytest.raises(Unfit), device_straight.listening(), calls.ad.no_grad():
        x + 1.0  # which the tape would follow when it is done again
    with device_straight.listening() as log:
        out = x + 1.0
    assert len(log) == 1
    assert (HOOKS.run, HOOKS.array.to_host) == (run, to_host)
    device_straight.way_of(log, [x], out, followed=False)
    with pytest.raises(Unfit):  # what the second tensor is for is not told
        device_straight.way_of(log, [x, x.clone()], out, followed=False)


def test_a_call_that_warns_in_one_way_is_heard_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    known = device_straight.HeardCall((0,), 0)
    known.ways[False,] = (), 0

    def heard(*_: object) -> device_straight.HeardCall:
        warnings.warn("of this way", stacklevel=2)
        known.ways[True, True] = (), 0
        return known

    found: dict[str, object] = {"a kind": known}
    monkeypatch.setattr(device_straight, "heard", heard)
    monkeypatch.setattr(device_straight, "BY_KIND", found)
    monkeypatch.setattr(device_straight.device_calls, "kind_of", lambda *_, **__: "a kind")
    device_straight.note(SmallCalls("mse_loss"), (), {}, lambda: None)
    assert found == {"a kind": None}
    assert not known.ways


def test_parameters_that_hold_tensors_are_not_kept() -> None:
    x = calls.ad.tensor([2.0])
    with device_straight.listening() as log:
        out = x + 1.0
    ((record, operands, _, _),) = log
    for params in ({"by": x}, {"by": (1, [x])}):
        with pytest.raises(Unfit):
            device_straight.way_of([(record, operands, params, out)], [x], out, followed=False)


def test_memory_that_others_own_may_be_the_same() -> None:
    """Two arrays of one tensor of another library's have descriptions of memory of their own."""

    def array_in(kind: str) -> SimpleNamespace:
        return SimpleNamespace(data=SimpleNamespace(mem=type(kind, (), {})()))

    own = array_in("PooledMemory")
    assert in_place.are_apart(own, array_in("PooledMemory"))
    assert not in_place.are_apart(own, SimpleNamespace(data=own.data))
    for kind in ("DLPackMemory", "UnownedMemory"):
        assert not in_place.are_apart(own, array_in(kind))
        assert not in_place.are_apart(array_in(kind), array_in(kind))
    assert not in_place.are_apart(own, SimpleNamespace(data=SimpleNamespace()))


@pytest.mark.slow
@needs_interpreter
def test_calls_interpreted() -> None:
    run_by_interpreter("tests.small_calls_on_a_gpu", says="all cases hold")


@pytest.mark.cuda
@pytest.mark.parametrize("layout", calls.LAYOUTS)
@pytest.mark.parametrize("write", calls.WRITES)
def test_writes(write: str, layout: str) -> None:
    calls.check_write(write, layout)


@pytest.mark.cuda
@pytest.mark.parametrize("layout", calls.LAYOUTS)
@pytest.mark.parametrize("draw", calls.DRAWS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_draws(draw: str, layout: str, dtype: str) -> None:
    calls.check_draw(draw, layout, getattr(calls.ad, dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("name", calls.MAKES)
def test_makes(name: str) -> None:
    calls.check_making(name)


@pytest.mark.cuda
@pytest.mark.parametrize("name", calls.STRAIGHT)
def test_straight(name: str) -> None:
    calls.check_straight(name)


@pytest.mark.cuda
@pytest.mark.parametrize("name", calls.AS_NUMBERS)
def test_numbers_that_are_tensors(name: str) -> None:
    calls.check_read(name)


@pytest.mark.cuda
@pytest.mark.parametrize("name", calls.LIKE)
def test_like(name: str) -> None:
    calls.check_like(name)


@pytest.mark.cuda
@pytest.mark.parametrize("name", calls.FOLLOWING)
def test_late_faults(name: str) -> None:
    calls.check_late_fault(name)


@pytest.mark.cuda
def test_picking() -> None:
    calls.check_picking()


@pytest.mark.cuda
def test_multiples() -> None:
    calls.check_multiples()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_statistics(dtype: str) -> None:
    calls.check_statistics(getattr(calls.ad, dtype))


@pytest.mark.cuda
def test_empty() -> None:
    calls.check_empty()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_fills(dtype: str) -> None:
    calls.check_fill(getattr(calls.ad, dtype))
