"""Calls on the tape that native code does as one operation (Note [one operation]) are as ever."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import small_calls as watching
from adjoint.engine.core.operations.listing import every
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.eager import enlisted
from adjoint.engine.graph.higher import on_tape
from adjoint.nn import functional as F
from tests.pressing import uncollected
from tests.test_small_calls import at_once  # noqa: F401

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def heard_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls are listened to at the first time."""
    on_tape.BY_KIND.clear()
    monkeypatch.setattr(on_tape, "SIGHTED", 0)
    monkeypatch.setattr(watching, "FIRST", 1 << 20)
    enlisted.forget()
    yield
    on_tape.BY_KIND.clear()


ONE: dict[str, Call] = {
    "max": lambda x, y, c: x.max(1),
    "max alone": lambda x, y, c: x.max(),
    "topk": lambda x, y, c: x.topk(2, largest=False),
    "sort": lambda x, y, c: x.sort(descending=True),
    "cat": lambda x, y, c: ad.cat([x, y], 1),
    "cat of itself": lambda x, y, c: ad.cat([x, x]),
    "stack": lambda x, y, c: ad.stack((y, x), -1),
    "matmul": lambda x, y, c: x.matmul(y.mT),
    "product by name": lambda x, y, c: ad.matmul(input=x, other=y.T),
    "addmm": lambda x, y, c: ad.addmm(x[:, :1], x, y.T),
    "linear": lambda x, y, c: F.linear(x, y, y[:, 0]),
    "layer norm": lambda x, y, c: F.layer_norm(x, [x.shape[-1]]),
    "softmax": lambda x, y, c: x.softmax(1),
    "log_softmax": lambda x, y, c: F.log_softmax(y, 0),
    "cross entropy": lambda x, y, c: F.cross_entropy(x, c),
    "gather": lambda x, y, c: x.gather(1, c[:, None]),
    "sum": lambda x, y, c: y.sum(0, keepdim=True),
    "mean": lambda x, y, c: x.mean(),
    "logsumexp": lambda x, y, c: x.logsumexp(1),
    "cumsum": lambda x, y, c: x.cumsum(0),
    "std": lambda x, y, c: x.std(1),
    "gelu": lambda x, y, c: F.gelu(x, approximate="tanh"),
    "double": lambda x, y, c: x.double(),
    "where": lambda x, y, c: ad.where(x > 0, x, y),
    "clamp": lambda x, y, c: x.clamp(-0.5, 0.5),
    "pow": lambda x, y, c: x.pow(2),
    "tril": lambda x, y, c: x.tril(),
    "cummax": lambda x, y, c: x.cummax(1),
    "a tensor and a number": lambda x, y, c: ad.sub(x, y, alpha=2),
    "dropped": lambda x, y, c: F.dropout(x, 0.0),
    "batch norm": lambda x, y, c: F.batch_norm(x, None, None, training=True),
    "mse": lambda x, y, c: F.mse_loss(x, y),
    "nothing": lambda x, y, c: x.to(ad.float32),
}


def result(call: Call, x: ad.Tensor, y: ad.Tensor, c: ad.Tensor, follow: str) -> Any:
    """All that can be told of a call and of the gradients through it."""
    x, y = x.detach().clone(), y.detach().clone()
    leaves = [t.requires_grad_() for t, on in zip((x, y), follow, strict=True) if on == "+"]
    given = [t * 1 if t.requires_grad else t for t in (x, y)]
    try:
        out = call(*given, c)
    except Exception as error:
        return type(error), str(error)
    found, _ = flatten(out)
    told: list[Any] = [type(out)]
    for t in found:
        told += [t.dtype, t.shape, t.stride(), t.detach().numpy().tobytes(), t.requires_grad]
        told += [str(t.grad_fn).split(" at ")[0], t.is_leaf, t._version, t.output_nr]
    total = sum((t * t).sum() for t in found if t.requires_grad)
    if isinstance(total, ad.Tensor):
        gradients = ad.autograd.grad(total, leaves, allow_unused=True)
        told += [None if g is None else g.numpy().tobytes() for g in gradients]
    return told


@pytest.mark.parametrize("name", ONE)
def test_results_and_gradients_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, call = random.Random(name), ONE[name]
    ad.manual_seed(1)
    samples = []
    for shape in ((3, 3), (2, 4)):
        x, y = ad.randn(shape), ad.randn(shape)
        c = ad.tensor([rng.randrange(shape[1]) for _ in range(shape[0])])
        samples += [(x, y, c, follow) for follow in ("++", "+-", "-+", "--")]
        samples += [(y, x, c, "++"), (x, y, c + 9, "++")]  # and classes that there are not
    rng.shuffle(samples)
    with monkeypatch.context() as without:  # operations then run one by one, from Python
        without.setattr(HOOKS, "meet_public", lambda *_: None)
        without.setattr(HOOKS, "note_taped", lambda *_: None)
        want = [result(call, *given) for given in samples]
    for _ in range(3):
        assert [result(call, *given) for given in samples] == want


@pytest.mark.skipif(
    loops.native() is None or loops.native().meet_call is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)
def test_they_are_met() -> None:
    x = ad.randn(3, 4).requires_grad_()
    for _ in range(8):
        x.topk(2), x.max(1), ad.cat([x, x]), F.layer_norm(x, (4,)), x.matmul(x.T), x.softmax(1)
    known = {calls.name for calls in enlisted._taped if calls.taped}
    assert known >= set("topk max cat layer_norm matmul softmax".split())
    steps = [entry[6] for calls in enlisted._taped for entry in every(calls.taped)]
    assert {step[0].name for step in steps} >= {"largest", "extreme", "cat", "layer_norm", "matmul"}


def test_an_interrupt_leaves_the_doors_as_they_were() -> None:
    before = HOOKS.run, HOOKS.array.to_host, CONTEXT.every_field()
    for number in range(2000):
        left = number

        def interrupt(frame: Any, event: str, given: Any) -> None:
            nonlocal left
            if event == "call":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt

        on_tape.BY_KIND.clear()
        x = ad.ones(2, 3, requires_grad=True)
        given: tuple[Any, ...] = (x,), {}, lambda: x.max(1)  # noqa: B023, called before the next one is there
        with uncollected():
            sys.setprofile(interrupt)
            try:
                on_tape.note(SmallCalls("max"), *given)
                if left >= 0:
                    break
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
        assert (HOOKS.run, HOOKS.array.to_host, CONTEXT.every_field()) == before
        assert not on_tape.LISTENING.locked()
    assert number > 20


def test_what_is_written_to_is_no_such_call() -> None:
    """Running statistics are moved each time, whatever is known of the rest."""
    for turn in range(6):
        x = ad.arange(12.0).view(3, 4).requires_grad_() * 1
        mean, variance = ad.zeros(4), ad.ones(4)
        F.batch_norm(x, mean, variance, training=True)
        assert mean.tolist() == pytest.approx([0.4, 0.5, 0.6, 0.7]), turn
        assert (mean._version, variance._version) == (1, 1)
        F.relu(x, inplace=True)
        assert x._version == 1


def test_blocks_are_heeded() -> None:
    leaf = ad.randn(3, 4).requires_grad_()
    for _ in range(4):
        leaf.softmax(1), ad.cat([leaf, leaf])
    with ad.no_grad():
        assert not leaf.softmax(1).requires_grad
        assert not ad.cat([leaf, leaf]).requires_grad
    with ad.inference_mode():
        assert leaf.softmax(1).is_inference()
    packed: list[ad.Tensor] = []

    def pack(t: ad.Tensor) -> ad.Tensor:
        packed.append(t)
        return t

    with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        leaf.softmax(1).sum().backward()
    assert packed
    assert ad.func.grad(lambda x: x.softmax(1).pow(2).sum())(leaf).shape == (3, 4)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        assert leaf.matmul(leaf.T).dtype is ad.bfloat16
    with ad.profiler.profile() as profile:
        leaf.softmax(1)
    assert any("softmax" in event.key for event in profile.key_averages())


def test_views_that_were_written_through_have_the_base_s_node() -> None:
    for _ in range(4):
        leaf = ad.ones(2, 3, requires_grad=True)
        base = leaf * 1
        view = base[0]
        base.mul_(3)
        out = view.softmax(0)
        out[0].backward()
        assert leaf.grad[1].tolist() == [0.0, 0.0, 0.0]
        assert leaf.grad[0].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_a_stale_operand_is_refused() -> None:
    for _ in range(4):
        x = ad.ones(2, 3, requires_grad=True) * 1
        out = x.matmul(x.T)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
