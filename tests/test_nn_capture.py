"""Modules under capture: what changes their structure retraces, what does not replays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.graph import capture


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(size, size))))
        self.scale = 1.0
        self.options = {"shift": 0.0}

    def forward(self, x: Any) -> Any:
        h = self.inner(x).tanh() * self.scale + self.options["shift"]
        return x + h if self.training else x - h


def network() -> nn.Sequential:
    ad.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(Block(3)) for _ in range(2)))


def test_steps_equal_eager() -> None:
    nets = [network(), network()]

    def make(net: nn.Module) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            net.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            with ad.no_grad():
                for p in net.parameters():
                    assert p.grad is not None
                    p -= 0.1 * p.grad
            return loss, norm

        return step

    eager, captured = make(nets[0]), capture(make(nets[1]))
    for i in range(5):
        x = ad.randn(4, 3, generator=ad.Generator().manual_seed(i))
        for a, b in zip(eager(x), captured(x), strict=True):
            assert ad.allclose(a, b)
    assert captured.traces == 1
    for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert ad.allclose(p, q)
        assert p.grad is not None
        assert q.grad is not None
        assert ad.allclose(p.grad, q.grad)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "eval": lambda net: net.eval(),
    "attribute": lambda net: setattr(net[1][0], "scale", 2.0),
    "mutable attribute": lambda net: net[1][0].options.update(shift=1.0),
    "parameter": lambda net: setattr(
        net[1][0].inner[0][0][0], "weight", nn.Parameter(ad.ones(3, 3))
    ),
    "submodule": lambda net: setattr(net[1][0].inner[0][0], "0", nn.Identity()),
    "table": lambda net: net[1][0].inner[0][0]._modules.update({"0": nn.Identity()}),
    "assign": lambda net: net.load_state_dict(
        {k: v * 2 for k, v in net.state_dict().items()}, assign=True
    ),
    "data": lambda net: setattr(net[0][0].inner[0][0][0].weight, "data", ad.ones(3, 3)),
    "hook": lambda net: net[0].register_forward_hook(lambda m, a, out: out * 2),
    "append": lambda net: net.append(nn.Linear(3, 3)),
    "parametrised": lambda net: nn.utils.parametrizations.orthogonal(net[0][0].inner[0][0][0]),
    "pruned": lambda net: nn.utils.prune.l1_unstructured(net[0][0].inner[0][0][0], "weight", 4),
}


@pytest.mark.parametrize("name", CHANGES)
def test_structural_changes_retrace(name: str) -> None:
    net = network()
    x = ad.ones(2, 3)
    f = capture(lambda x: net(x))
    f(x)
    f(x)
    assert f.traces == 1
    before = net(x)
    CHANGES[name](net)
    assert not ad.allclose(net(x), before)
    assert ad.allclose(f(x), net(x))
    assert f.traces == 2


def test_values_do_not_retrace() -> None:
    net = network()
    x = ad.ones(2, 3)
    f = capture(net)
    f(x)
    net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
    assert ad.allclose(f(x), net(x))
    other = nn.Linear(2, 2)  # an unrelated module moves the epoch, not the structure
    other.flag = True  # type: ignore[assignment]
    f(x)
    assert f.traces == 1


def test_going_back_finds_the_first_program() -> None:
    net = network()
    x = ad.ones(2, 3)
    f = capture(net)
    f(x)
    net.eval()
    f(x)
    net.train()
    assert ad.allclose(f(x), net(x))
    assert f.traces == 2


def test_freezing_retraces() -> None:
    layer = nn.Linear(2, 2)

    def step(x: Any) -> Any:
        layer.zero_grad()
        out = layer(x).sum()
        out.backward()
        return out

    f = capture(step)
    f(ad.ones(1, 2))
    layer.weight.requires_grad_(False)
    f(ad.ones(1, 2))
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert f.traces == 2


def test_module_as_argument() -> None:
    net = network()
    x = ad.ones(2, 3)
    f = capture(lambda m, x: m(x))
    f(net, x)
    net.eval()
    assert ad.allclose(f(net, x), net(x))
    assert f.traces == 2


def test_lazy_module_initialises_inside_a_capture() -> None:
    layer = nn.LazyLinear(2)
    f = capture(lambda x: layer(x))
    x = ad.ones(1, 3)
    assert ad.allclose(f(x), layer(x))
    assert layer.weight.shape == (2, 3)


def test_double_after_capture() -> None:
    net = network()
    f = capture(net)
    f(ad.ones(2, 3))
    net.double()
    x = ad.ones(2, 3, dtype=ad.float64)
    assert f(x).dtype is ad.float64
    assert ad.allclose(f(x), net(x))


class Remembers(nn.Module):
    last: Any
    hidden: Any
    average: Any

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)
        self.hidden = None
        self.register_buffer("average", ad.zeros(3))

    def forward(self, x: Any) -> Any:
        before = ad.zeros_like(x) if self.hidden is None else self.hidden
        h = (self.cell(x) + before).tanh()
        self.hidden = h.detach()
        self.last = h.sum()
        self.average = 0.9 * self.average + 0.1 * h.detach().mean(0)
        return h


def test_assigned_attributes_are_carried_over() -> None:
    ad.manual_seed(1)
    eager = Remembers()
    ad.manual_seed(1)
    other = Remembers()
    f = capture(other)
    for i in range(5):
        x = ad.full((2, 3), 0.1 * i)
        assert ad.allclose(f(x), eager(x))
        assert ad.allclose(other.hidden, eager.hidden)
        assert ad.allclose(other.last, eager.last)
        assert ad.allclose(other.average, eager.average)
    assert f.traces == 2  # without a hidden state, and with one
    for _ in range(3):
        for net in (eager, other):
            net.hidden = None
        for _ in range(3):
            assert ad.allclose(f(x), eager(x))
            assert ad.allclose(other.hidden, eager.hidden)
    assert f.traces == 2


def test_a_failed_trace_leaves_attributes_alone() -> None:
    net = Remembers()

    def fails(x: Any) -> Any:
        net(x)
        return x.sum().item() > 0

    average = net.average
    with pytest.raises(RuntimeError, match="item"):
        capture(fails)(ad.ones(2, 3))
    assert net.hidden is None
    assert net.average is average
    assert not hasattr(net, "last")


def test_weight_norm_hook_leaves_a_real_weight() -> None:
    with pytest.warns(FutureWarning, match="weight_norm"):
        layer = nn.utils.weight_norm(nn.Linear(3, 2))
    f = capture(layer)
    x = ad.ones(1, 3)
    for _ in range(3):
        with ad.no_grad():
            layer.weight_g.add_(1)
        out = f(x)
    assert ad.allclose(out, x @ layer.weight.T + layer.bias)
    assert f.traces == 1
    assert ad.allclose(out, layer(x))


@pytest.mark.parametrize("transform", ["grad", "jacrev", "vmap of grad"])
def test_transforms_of_functional_calls_return_what_they_made(transform: str) -> None:
    """Gradients by name, of a function that puts parameters into a module and takes them out."""
    module = ad.nn.Sequential(ad.nn.Linear(3, 2), ad.nn.Tanh())
    given = {name: p.detach() for name, p in module.named_parameters()}

    def total(parameters: Any, x: Any) -> Any:
        return ad.func.functional_call(module, parameters, (x,)).sum()

    fn: Any = {
        "grad": ad.func.grad(total),
        "jacrev": ad.func.jacrev(total),
        "vmap of grad": ad.func.vmap(ad.func.grad(total), in_dims=(None, 0)),
    }[transform]
    compiled = ad.compile(fn)
    for k in range(3):
        x = ad.arange(6.0).reshape(2, 3) * (k + 1) / 5
        want, found = fn(given, x), compiled(given, x)
        assert list(found) == list(want)
        for name, g in want.items():
            ad.testing.assert_close(found[name], g)


def test_ensembles_called_through_a_module_without_elements() -> None:
    models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
    base = copy.deepcopy(models[0]).to("meta")
    held = list(base.parameters())

    def predict(x: Any) -> Any:
        state = ad.func.stack_module_state(models)
        one = lambda p, b: ad.func.functional_call(base, (p, b), (x,))
        return ad.func.vmap(one)(*state)

    compiled = ad.compile(predict)
    for k in range(3):
        x = ad.arange(6.0).reshape(2, 3) * (k + 1) / 5
        ad.testing.assert_close(compiled(x), ad.stack([model(x) for model in models]))
    assert compiled.traces == 1
    assert all(p is q for p, q in zip(base.parameters(), held, strict=True))
