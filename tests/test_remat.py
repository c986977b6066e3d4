"""Rematerialisation: it fires, changes no result, and trades memory for work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.naming import task_key
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.graph.passes.recomputation.lifetimes import Lifetimes
from adjoint.engine.graph.passes.recomputation.mincut import Network
from adjoint.engine.graph.passes.recomputation.remat import rematerialise
from adjoint.engine.graph.remat_strategies import STRATEGIES
from adjoint.engine.graph.verify import verify
from adjoint.graph import capture
from adjoint.nn import functional as F
from tests.graph_checks import same_results


class Block(nn.Module):
    """A transformer's block with dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.proj(y.transpose(1, 2).reshape(b, t, c)), 0.1)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def transformer() -> tuple[Any, Any]:
    return nn.Sequential(*[Block(32, 2) for _ in range(2)]), ad.randn(8, 16, 32)


def mlp() -> tuple[Any, Any]:
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.SiLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers), ad.randn(128, 64)


def cnn() -> tuple[Any, Any]:
    layers: list[nn.Module] = []
    for k in range(4):
        layers += [nn.Conv2d(8 if k else 3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers), ad.randn(4, 3, 16, 16)


NETS = {"transformer": transformer, "mlp": mlp, "cnn": cnn}


def step_of(name: str) -> tuple[Any, Any, Any]:
    """A training step, its network and its argument."""
    ad.manual_seed(0)
    net, x = NETS[name]()
    optimizer = ad.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)

    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    return step, net, x


def recorded(name: str) -> tuple[Any, list[Any]]:
    """The graph of a step, passed, and its inputs."""
    step, _, x = step_of(name)
    captured = capture(step)
    captured(x)
    program = captured.latest
    return run_passes(program.graph), [source.read([x]) for source in program.sources]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NETS)
def test_results_are_the_same_bits(name: str, strategy: str) -> None:
    graph, inputs = recorded(name)
    done = rematerialise(graph, strategy)
    verify(done.graph)
    same_results(graph, done.graph, inputs)


@pytest.mark.parametrize("name", NETS)
def test_strategies_repeat_more_and_more(name: str) -> None:
    graph, _ = recorded(name)
    speed, balanced, memory = (rematerialise(graph, s) for s in ("speed", "balanced", "memory"))
    products = {"matmul", "convolution"}
    assert set(speed.records) <= {"full", "arange", "cast", "eq", "ne", "lt", "le", "gt", "ge"}
    assert balanced.names
    assert not products & balanced.records.keys()
    assert sum(memory.records.values()) > sum(balanced.records.values())
    assert Lifetimes(memory.graph).peak() < Lifetimes(speed.graph).peak()


def test_draws_are_repeated_and_masks_not_kept() -> None:
    graph, _ = recorded("mlp")
    assert rematerialise(graph, "memory").records["random"] >= 6  # the last is used at once


def test_products_are_repeated_for_memory() -> None:
    graph, _ = recorded("transformer")
    assert rematerialise(graph, "memory").records["matmul"] >= 8


def compiled(name: str, strategy: str) -> tuple[Any, list[Any], Any]:
    """A step compiled with a strategy: losses, final state, image."""
    step, net, x = step_of(name)
    fn = ad.compile(step, options={"remat": strategy})
    losses = [float(fn(x)) for _ in range(3)]
    state = [p.detach().numpy().copy() for p in net.state_dict().values()]
    return losses, state, fn.latest.executable.image


@pytest.mark.parametrize("name", NETS)
def test_compiled_steps_agree_and_trade_memory_for_work(name: str) -> None:
    runs = {s: compiled(name, s) for s in STRATEGIES}
    losses, state, _ = runs["speed"]
    for strategy in ("balanced", "memory"):
        np.testing.assert_allclose(runs[strategy][0], losses, rtol=1e-5)
        for a, b in zip(runs[strategy][1], state, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    arena = {s: runs[s][2].arena for s in STRATEGIES}
    work = {s: sum(line.get("work", 0) for line in runs[s][2].report) for s in STRATEGIES}
    assert arena["memory"] < 0.75 * arena["speed"]
    assert arena["memory"] <= arena["balanced"] <= 1.02 * arena["speed"]
    assert work["speed"] <= work["balanced"] <= work["memory"]


def test_the_strategy_is_part_of_a_programs_name_and_plan() -> None:
    step, _, x = step_of("mlp")
    fn = ad.compile(step)
    fn(x)
    task = fn.latest.executable.task
    names = {task_key(task, Options(s)) for s in STRATEGIES}
    assert len(names) == 3
    assert plan_for(task, LLVM, Options("memory")).remat.records["random"] >= 6


def test_unknown_options_are_refused() -> None:
    with pytest.raises(RuntimeError, match="must be one of memory, speed, balanced"):
        ad.compile(lambda x: x, options={"remat": "most"})
    with pytest.raises(RuntimeError, match="unknown option 'rematt'.*takes: remat"):
        ad.compile(lambda x: x, options={"rematt": "speed"})


def test_the_least_cut() -> None:
    # Two values follow from one that is as large as each of them: the one is kept.
    network = Network()
    one, left, right = network.vertex(), network.vertex(), network.vertex()
    network.arc(0, one, 4)
    for v in (left, right):
        network.arc(one, v, 3)
        network.arc(v, 1, 9)
    assert network.source_side() == {0}
