"""Traced modules taken apart, rewritten, made smaller and pickled."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn
from adjoint.fx.experimental.optimization import fuse, remove_dropout
from adjoint.fx.passes.fake_tensor_prop import FakeTensorProp
from adjoint.fx.passes.infra.pass_base import PassBase, PassResult
from adjoint.fx.passes.infra.pass_manager import PassManager
from adjoint.fx.passes.split_module import split_module
from adjoint.fx.passes.tools_common import legalize_graph
from adjoint.nn import functional as F


class Net(nn.Module):
    """Layers, a parameter, a slice, a dict and a default."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.scale = nn.Parameter(ad.ones(5))

    def forward(self, x: ad.Tensor, factor: float = 2.0) -> Any:
        y = F.relu(self.first(x)) * self.scale * factor
        return {"all": y, "part": (y[:, 1:3], ad.cat([y, y]))}


def test_a_pickled_module_does_the_same() -> None:
    traced, x = fx.symbolic_trace(Net()), ad.randn(3, 4)
    again = pickle.loads(pickle.dumps(traced))
    assert str(again.graph) == str(traced.graph)
    assert again.state_dict().keys() == traced.state_dict().keys()
    mine, theirs = traced(x), again(x)
    assert mine["all"].equal(theirs["all"])
    assert mine["part"][0].equal(theirs["part"][0])


def test_a_function_without_a_name_is_not_pickled() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(lambda x: x, (graph.placeholder("x"),)))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(fx.GraphModule(nn.Module(), graph))


def test_arguments_that_a_trace_was_made_for_are_checked() -> None:
    class Branching(nn.Module):
        def forward(self, x: ad.Tensor, flag: bool) -> ad.Tensor:
            return ad.relu(x) if flag else x

    traced = fx.symbolic_trace(Branching(), concrete_args={"flag": True})
    assert traced(ad.tensor([-1.0, 2.0]), True).tolist() == [0.0, 2.0]
    with pytest.raises(AssertionError, match="specialized"):
        traced(ad.ones(1), False)


def test_parts_that_look_like_a_pattern_are_replaced() -> None:
    def program(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
        return ad.sigmoid(x) + ad.sigmoid(w * 2) * ad.sigmoid(x)

    traced = fx.symbolic_trace(program)
    matches = fx.replace_pattern(traced, lambda a: ad.sigmoid(a), lambda a: ad.tanh(a) + 1)
    x, w = ad.randn(3), ad.randn(3)
    assert len(matches) == 3
    assert traced(x, w).equal(ad.tanh(x) + 1 + (ad.tanh(w * 2) + 1) * (ad.tanh(x) + 1))


def test_a_node_stands_for_one_of_the_patterns() -> None:
    """PyTorch does not take `x + x` for `a + b`."""
    traced = fx.symbolic_trace(lambda x, w: ad.add(x, x) - ad.add(x, w))
    assert len(fx.replace_pattern(traced, lambda a, b: ad.add(a, b), lambda a, b: a * b)) == 1
    x, w = ad.randn(3), ad.randn(3)
    assert traced(x, w).equal(x + x - x * w)


def test_what_others_use_is_not_replaced() -> None:
    def program(x: ad.Tensor) -> Any:
        inner = ad.relu(x)
        return ad.tanh(inner), inner

    traced = fx.symbolic_trace(program)
    assert not fx.replace_pattern(traced, lambda a: ad.tanh(ad.relu(a)), lambda a: ad.sin(a))
    with pytest.raises(RuntimeError, match="takes 1 arguments, the replacement 2"):
        fx.replace_pattern(traced, lambda a: ad.tanh(a), lambda a, b: a + b)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_parts_together_do_the_same(width: int) -> None:
    net, x = Net(), ad.randn(3, 4)
    traced, count = fx.symbolic_trace(net), iter(range(100))
    parts = split_module(traced, net, lambda node: next(count) // width)
    assert any(name.startswith("submod_") for name, _ in parts.named_children())
    assert parts(x)["part"][1].equal(net(x)["part"][1])


def test_parts_that_wait_for_each_other_are_refused() -> None:
    traced = fx.symbolic_trace(lambda x: ad.relu(ad.tanh(ad.relu(x))))
    names = iter([0, 1, 0])
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(traced, traced, lambda node: next(names))


def test_passes_run_until_nothing_changes() -> None:
    class Once(PassBase):
        def call(self, graph_module: fx.GraphModule) -> PassResult:
            found = [n for n in graph_module.graph.nodes if n.target is operator.add]
            if found:
                found[0].target = operator.mul
            return PassResult(graph_module, bool(found))

    traced = fx.symbolic_trace(lambda x: x + 2 + 3)
    result = PassManager([Once()], steps=5, run_checks_after_each_pass=True)(traced)
    assert result.modified
    assert result.graph_module(ad.ones(1)).tolist() == [6.0]


def test_norms_are_folded_into_convolutions() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5)).eval()
    net[1].running_mean.fill_(0.3)
    x = ad.randn(1, 1, 5, 5)
    smaller = remove_dropout(fuse(net))
    assert not any(isinstance(each, nn.BatchNorm2d) for each in smaller.modules())
    ad.testing.assert_close(smaller(x), net(x))


def test_nodes_are_put_after_those_they_use() -> None:
    traced = fx.symbolic_trace(lambda x: ad.relu(x) + ad.tanh(x) * 2)
    wanted, names = traced(ad.ones(2)).tolist(), [node.name for node in traced.graph.nodes]
    assert [node.name for node in legalize_graph(traced).graph.nodes] == names
    by_name = {node.name: node for node in traced.graph.nodes}
    by_name["add"].append(by_name["tanh"])
    with pytest.raises(RuntimeError, match="before it has been defined"):
        traced.graph.lint()
    legalize_graph(traced).graph.lint()
    traced.recompile()
    assert traced(ad.ones(2)).tolist() == wanted
    by_name["tanh"].args = (by_name["mul"],)
    with pytest.raises(RuntimeError, match="in a circle"):
        legalize_graph(traced)


def test_shapes_are_noted_without_elements() -> None:
    traced = fx.symbolic_trace(lambda x: ad.cat([x, x]).sum(1))
    FakeTensorProp(traced).propagate(ad.ones(2, 3))
    shapes = {node.name: tuple(node.meta["val"].shape) for node in traced.graph.nodes}
    assert shapes == {"x": (2, 3), "cat": (4, 3), "sum_1": (4,), "output": (4,)}
