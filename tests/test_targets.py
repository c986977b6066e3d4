"""Programs made for another target than the CPU's say the same."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.compiler import executors
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.schedule.steps import EagerCall, whole
from adjoint.engine.compiler.target import Template
from adjoint.nn import functional as F

from . import small_target  # registers the backend

assert small_target.SMALL.name in ad.compiler.list_backends()


def attention(x: Any) -> Any:
    heads = x.reshape(4, 6, 2, 5).transpose(1, 2)
    mask = ad.ones(6, 6).tril()
    scores = (heads @ heads.transpose(-1, -2)).masked_fill(mask == 0, float("-inf"))
    return (scores.softmax(-1) @ heads).transpose(1, 2).flatten(2)


PROGRAMS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "chain": (lambda x: (x.exp() + 1).log() * x.tanh(), (4, 7)),
    "softmax": (lambda x: x.softmax(-1) * x.log_softmax(-1), (4, 7)),
    "norm": (lambda x: F.layer_norm(F.gelu(x), (7,)), (4, 7)),
    "transposed": (lambda x: x.t().sum(-1).unsqueeze(0) + x, (7, 7)),
    "joined": (lambda x: ad.cat([x.sin(), x.cos()], 1).roll(1, 1), (4, 7)),
    "extremes": (lambda x: (x.argmax(-1), x.amin(0), (x > 0).any(-1)), (4, 7)),
    "picked": (lambda x: x[ad.tensor([3, 0, -1])].gather(1, ad.tensor([[1], [2], [0]])), (4, 7)),
    "attention": (attention, (4, 6, 10)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_eager(name: str) -> None:
    fn, shape = PROGRAMS[name]
    compiled = ad.compile(fn, backend="small")
    for seed in range(2):
        ad.manual_seed(seed)
        x = ad.randn(*shape)
        ad.testing.assert_close(compiled(x), fn(x))


class ReversedTarget(small_target.SmallTarget):
    """Has what its loops make lie with the first dimension innermost, as Fortran does."""

    name = "reversed"

    def order(self, value: Any) -> tuple[int, ...] | None:
        return tuple(reversed(range(len(value.spec.shape))))


PLANS: list[Any] = []


def _reversed_maker(mode: str, options: dict[str, Any]) -> Any:
    def executable(task: Any) -> Any:
        program = small_target.SmallProgram(task, chosen(mode, options), ReversedTarget())
        PLANS.append(program.plan)
        return program

    return executable


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_target_chooses_how_values_lie(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(executors._MAKERS, "reversed", _reversed_maker)
    fn, shape = PROGRAMS[name]
    compiled = ad.compile(
        lambda x: fn(x.sin() @ ad.ones(x.shape[-1], x.shape[-1])), backend="reversed"
    )
    ad.manual_seed(0)
    x = ad.randn(*shape)
    ad.testing.assert_close(compiled(x), fn(x.sin() @ ad.ones(shape[-1], shape[-1])))
    kept = [p for p in PLANS[-1].places.values() if p.buffer.kind == "arena" and len(p.shape) > 1]
    assert any(p.strides[0] == 1 and not p.contiguous for p in kept)


def test_a_training_step_equals_eager() -> None:
    def train(compiled: bool) -> list[float]:
        ad.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
        optimizer = ad.optim.AdamW(net.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compile(step, backend="small") if compiled else step
        x, y = ad.randn(12, 8), ad.randint(0, 3, (12,))
        return [run(x, y).item() for _ in range(4)]

    assert train(compiled=True) == pytest.approx(train(compiled=False), rel=1e-5)


def _whole(setting: Any, node: Any, operands: Any, results: Any) -> list[Any]:
    """A template's steps: one call of the composite as it is."""
    reads, writes = (tuple(whole(p.buffer) for p in places) for places in (operands, results))
    return [EagerCall(node, reads, writes, label="softmax, whole")]


class Keeping(small_target.SmallTarget):
    """A target that wants softmax whole, along the last dimension."""

    name = "keeping"
    kept_whole = frozenset({"softmax"})
    templates = {
        **small_target.SmallTarget.templates,
        "softmax": Template(
            accepts=lambda setting, node, inputs: node.params["dim"] == 1,
            packed=lambda layout_of, inputs: set(),
            steps=_whole,
        ),
    }


def test_a_composite_stays_whole_where_the_target_has_a_template_for_it() -> None:
    x = ad.randn(4, 7)
    for target, dim, stays in (
        (Keeping(), 1, True),
        (Keeping(), 0, False),
        (small_target.SMALL, 1, False),
    ):
        made: list[Any] = []

        def make(mode: str, options: Any, target: Any = target, made: Any = made) -> Any:
            def executable(task: Any) -> Any:
                made.append(small_target.SmallProgram(task, chosen(mode, options), target))
                return made[-1]

            return executable

        def fn(x: Any, dim: int = dim) -> Any:
            return (x * 2).softmax(dim) + 1

        register_backend("keeping", make)
        ad.testing.assert_close(ad.compile(fn, backend="keeping")(x), fn(x))
        labels = [step.label for step in made[0].plan.steps]
        assert ("softmax, whole" in labels) == stays


def test_a_bad_index_is_eagers_error() -> None:
    def pick(x: Any, i: Any) -> Any:
        return x.exp()[i]

    compiled = ad.compile(pick, backend="small")
    x = ad.randn(4)
    ad.testing.assert_close(compiled(x, ad.tensor([1])), pick(x, ad.tensor([1])))
    with pytest.raises(IndexError):
        compiled(x, ad.tensor([9]))
