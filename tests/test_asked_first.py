"""Native code that asks by itself whether a call may be met (Note [asked first]) meets no other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import timed_runs
from adjoint.engine.graph.eager import enlisted
from tests.test_small_calls import at_once  # noqa: F401

pytestmark = pytest.mark.skipif(
    loops.native() is None or loops.native().meet_call is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)

Block = Callable[[], Any]


def programs_of(name: str) -> SmallCalls:
    """Where a function's programs are."""
    (calls,) = [o for o in enlisted._owners if isinstance(o, SmallCalls) and o.name == name]
    return calls


def known(name: str, call: Callable[[], Any]) -> SmallCalls:
    """The same, once a call has one."""
    for _ in range(4):
        call()
    return programs_of(name)


BLOCKS: dict[str, tuple[Block, bool]] = {
    "nothing": (contextlib.nullcontext, True),
    "no_grad": (ad.no_grad, True),
    "enable_grad": (ad.enable_grad, True),
    "the CPU, said": (lambda: ad.device("cpu"), True),
    "another device": (lambda: ad.device("meta"), False),
    "inference": (ad.inference_mode, False),
    "autocast": (lambda: ad.autocast("cpu", dtype=ad.bfloat16), False),
    "anomalies": (ad.autograd.detect_anomaly, False),
    "hooks": (lambda: ad.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x), False),
    "reference": (lambda: CONTEXT.having(reference=True), False),
    "listeners": (timed_runs, False),
    "a mode": (lambda: ad.overrides.TorchFunctionMode(), False),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_going_on_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OVERRIDES, "enlisted", False)  # which a mode's end would come back to
    x = ad.arange(6.0).view(2, 3)
    own, made = known("exp", lambda: x.exp()), known("zeros", lambda: ad.zeros(2, 3))
    block, met = BLOCKS[name]
    with block():
        found = HOOKS.meet_public(own, (x,), {}), HOOKS.meet_public(made, (2, 3), {})
    assert [out is not None for out in found] == [met, met]
    if met:
        assert found[0].tolist() == x.exp().tolist()
        assert found[1].tolist() == [[0.0] * 3] * 2
    assert HOOKS.meet_public(own, (x,), {}) is not None


def test_classes_that_override_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.arange(6.0).view(2, 3)
    own = known("exp", lambda: x.exp())
    monkeypatch.setattr(OVERRIDES, "active", True)
    assert HOOKS.meet_public(own, (x,), {}) is None


def test_each_thread_has_a_state() -> None:
    x = ad.arange(6.0).view(2, 3)
    own, found = known("exp", lambda: x.exp()), []
    with ad.inference_mode():
        thread = threading.Thread(target=lambda: found.append(HOOKS.meet_public(own, (x,), {})))
        thread.start()
        thread.join()
        assert HOOKS.meet_public(own, (x,), {}) is None
    assert found[0].tolist() == x.exp().tolist()


def test_the_tape_is_asked() -> None:
    x = ad.arange(6.0).view(2, 3)
    own, compared = known("exp", lambda: x.exp()), known("gt", lambda: x.gt(1))
    added = known("hypot", lambda: ad.hypot(x, x + 1))
    leaf = x.clone().requires_grad_()
    view = (leaf * 1)[:]
    for followed in (leaf, leaf * 1, view, ad.nn.Parameter(x)):
        assert HOOKS.meet_public(own, (followed,), {}) is None
        assert HOOKS.meet_public(added, (x, followed), {}) is None
        assert HOOKS.meet_public(compared, (followed, 1), {}).tolist() == x.gt(1).tolist()
        with ad.no_grad():
            assert not HOOKS.meet_public(own, (followed,), {}).requires_grad


def test_arguments_are_asked() -> None:
    x = ad.arange(6.0).view(2, 3)
    summed = known("sum", lambda: ad.sum(x, 1, keepdim=True))
    assert HOOKS.meet_public(summed, (x, 1), {"keepdim": True}).tolist() == [[3.0], [12.0]]
    for args, named in (
        ((x, 1), {"keepdim": 1}), ((x, 0), {"keepdim": True}), ((x, 1), {}),
        ((x.double(), 1), {"keepdim": True}), ((x.T, 1), {"keepdim": True}), ((), {}),
        ((x, 1), {"keepdim": True, "out": x}), (tuple(range(100)), {}), ((None,), {}),
    ):  # fmt: skip
        assert HOOKS.meet_public(summed, args, named) is None


def test_tensors_in_lists_are_operands() -> None:
    x = ad.arange(6.0).view(2, 3)
    joined = known("cat", lambda: ad.cat([x, x + 1], 1))
    assert HOOKS.meet_public(joined, ([x, x + 1], 1), {}).tolist() == ad.cat([x, x + 1], 1).tolist()
    leaf = ad.ones(2, 3, requires_grad=True)
    for args in (([leaf, x], 1), ([x, leaf], 1), ([], 1), ((x,) * 70, 1), (x, 1), (), ([x, None],)):
        assert HOOKS.meet_public(joined, args, {}) is None
