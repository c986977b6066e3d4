"""Programs as data: tracing, generated code, rewriting."""

from __future__ import annotations

import copy
import operator
import subprocess
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn
from adjoint.fx import _symbolic_trace as tracing
from adjoint.fx.passes.shape_prop import ShapeProp
from adjoint.nn import functional as F


def helper(x: Any) -> Any:
    return x if x.sum() > 0 else -x


fx.wrap("helper")


class Net(nn.Module):
    """Submodules, a parameter, a buffer, methods, attributes and a default."""

    steps: ad.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(5, 3))
        self.scale = nn.Parameter(ad.ones(3))
        self.register_buffer("steps", ad.arange(3.0))

    def forward(self, x: ad.Tensor, factor: float = 2.0) -> tuple[ad.Tensor, ad.Tensor]:
        y = self.rest(self.first(x)) * factor + self.scale
        y = ad.cat([y, F.relu(y)], dim=-1)
        return y.view(y.shape[0], -1).sum(dim=1) + self.steps.sum(), ad.sigmoid(y)[:, 1:2]


def close(mine: Any, theirs: Any) -> bool:
    return all(ad.allclose(a, b) for a, b in zip(mine, theirs, strict=True))


def test_a_traced_module_does_the_same_and_trains() -> None:
    net, x = Net(), ad.randn(2, 4)
    traced = fx.symbolic_trace(net)
    traced.graph.lint()
    assert close(traced(x), net(x))
    assert close(traced(x, 3.0), net(x, 3.0))
    assert close(copy.deepcopy(traced)(x), net(x))
    traced(x)[0].sum().backward()
    assert net.scale.grad is not None  # the parameters are the module's own
    assert [n.op for n in traced.graph.nodes][:5] == ["placeholder"] * 2 + ["call_module"] * 3


def test_a_graph_can_be_changed() -> None:
    traced = fx.symbolic_trace(lambda x: ad.relu(x) * 2)
    for node in traced.graph.nodes:
        if node.target is operator.mul:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(operator.sub, (node.args[0], 1))
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.recompile()
    assert traced(ad.tensor([-1.0, 3.0])).tolist() == [-1.0, 2.0]
    assert " - 1" in traced.code


def test_programs_as_text() -> None:
    """Graph and code read as PyTorch prints them, and the code runs by itself."""

    def f(x: Any, y: int = 2) -> Any:
        return {"a": x.sum(dim=-1), "b": [ad.cat([x, x], dim=1), y], "c": x.to(ad.float16)}

    traced = fx.symbolic_trace(f)
    assert str(traced.graph).splitlines() == [
        "graph():",
        "    %x : [num_users=3] = placeholder[target=x]",
        "    %y : [num_users=1] = placeholder[target=y](default=2)",
        "    %sum_1 : [num_users=1] = call_method[target=sum](args = (%x,), kwargs = {dim: -1})",
        (
            "    %cat : [num_users=1] = call_function[target=torch.cat](args = ([%x, %x],), "
            "kwargs = {dim: 1})"
        ),
        (
            "    %to : [num_users=1] = call_method[target=to](args = (%x, adjoint.float16), "
            "kwargs = {})"
        ),
        "    return {'a': sum_1, 'b': [cat, y], 'c': to}",
    ]
    assert traced.code == (
        "\n\n\ndef forward(self, x, y = 2):\n"
        "    sum_1 = x.sum(dim = -1)\n"
        "    cat = torch.cat([x, x], dim = 1)\n"
        "    to = x.to(torch.float16);  x = None\n"
        "    return {'a': sum_1, 'b': [cat, y], 'c': to}\n    "
    )
    names: dict[str, Any] = {"torch": ad}
    exec(traced.code, names)
    assert close(names["forward"](None, ad.ones(2, 3))["b"][0], ad.ones(2, 6))


def test_a_transformers_methods_call_functions_with_proxies() -> None:
    """In a process of its own: elsewhere a class that takes functions over was made already."""
    program = """
import adjoint as ad
from adjoint import fx

class Cosines(fx.Transformer):
    def call_function(self, target, args, kwargs):
        if target is ad.sin:
            return ad.cos(*args)
        return super().call_function(target, args, kwargs)

traced = Cosines(fx.symbolic_trace(lambda x: ad.sin(x.neg()) + 1)).transform()
assert traced(ad.zeros(())).item() == 2
assert "cos" in traced.code
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_interpreter_transformer_and_shapes() -> None:
    net, x = Net(), ad.randn(2, 4)
    traced = fx.symbolic_trace(net)
    assert close(fx.Interpreter(traced).run(x), net(x))

    class Negating(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            chosen = ad.neg if target is F.relu else target
            return super().call_function(chosen, args, kwargs)

    changed = Negating(traced).transform()
    assert any(node.target is ad.neg for node in changed.graph.nodes)
    ShapeProp(traced).propagate(x)
    shapes = {n.name: n.meta["tensor_meta"].shape for n in traced.graph.nodes if n.name == "cat"}
    assert shapes == {"cat": (2, 6)}


def test_wrapped_functions_stay_one_call() -> None:
    traced = fx.symbolic_trace(lambda x: helper(x) + 1)
    assert next(n.target for n in traced.graph.nodes if n.op == "call_function") is helper
    assert traced(ad.tensor([-2.0])).tolist() == [3.0]


def test_refusals() -> None:
    with pytest.raises(fx.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.TraceError, match="iterated"):
        fx.symbolic_trace(lambda x: list(x))
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(x)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(x)
    other = fx.Graph()
    other.call_function(operator.neg, (x,))
    with pytest.raises(RuntimeError, match="another Graph"):
        other.lint()


def test_dead_code_goes_and_what_has_effects_stays() -> None:
    def program(x: Any) -> Any:
        x * 3
        y = x.clone()
        y.add_(1)
        return y

    traced = fx.symbolic_trace(program)
    assert traced.graph.eliminate_dead_code()
    traced.recompile()
    assert traced(ad.ones(1)).tolist() == [2.0]
    assert not [n for n in traced.graph.nodes if n.target is operator.mul]


def test_values_are_unpacked_into_as_many_names_as_are_written() -> None:
    class Tokens(nn.Module):
        def forward(self, x: Any) -> Any:
            batch, channels, height, width = x.shape
            one, two = x.chunk(2, 1)
            ad._assert(height == 4, "four rows")
            return (one + two).reshape(batch, channels // 2, height * width)

    traced = fx.symbolic_trace(Tokens())
    x = ad.rand(3, 4, 4, 5)
    assert ad.equal(traced(x), Tokens()(x))
    with pytest.raises(AssertionError, match="four rows"):
        traced(ad.rand(3, 4, 5, 5))
    with pytest.raises(fx.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: sum(part for part in x))


def test_graph_modules_have_their_parameters_in_the_order_of_calls() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3)), nn.Linear(3, 1))
    names = [name for name, _ in fx.symbolic_trace(net).named_parameters()]
    assert names == [name for name, _ in net.named_parameters()]


def test_a_place_for_new_nodes_holds_without_a_block() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    last = graph.output(x)
    graph.inserting_after(x)
    first = graph.call_function(ad.relu, (x,))
    graph.inserting_after(first)
    second = graph.call_function(ad.neg, (first,))
    with graph.inserting_before(first):
        graph.call_function(ad.abs, (x,))
    last.args = (second,)
    graph.lint()
    assert [node.name for node in graph.nodes] == ["x", "abs_1", "relu", "neg", "output"]


def test_tracers_of_libraries_replace_functions_for_a_block() -> None:
    space = {"half": lambda x: x / 2}
    before, call = space["half"], ad.nn.Linear.__call__

    class Own(fx.Tracer):
        @tracing.compatibility(is_backward_compatible=True)
        def trace(self, root: Any, concrete_args: Any = None) -> fx.Graph:
            self.root, self.graph = root, fx.Graph(tracer_cls=type(self))
            self.submodule_paths = {module: name for name, module in root.named_modules()}
            function, args = self.create_args_for_root(type(root).forward, True, concrete_args)

            def calls(module: Any, *args: Any, **kwargs: Any) -> Any:
                def forward(*args: Any, **kwargs: Any) -> Any:
                    return tracing._orig_module_call(module, *args, **kwargs)

                return self.call_module(module, forward, args, kwargs)

            with tracing._Patcher() as patcher:
                patcher.patch_method(ad.nn.Module, "__call__", calls, deduplicate=False)
                tracing._patch_wrapped_functions(patcher)
                tracing._autowrap_check(patcher, space, {id(before)})
                out = space["half"](function(*args))
                self.create_node("output", "output", (self.create_arg(out),), {})
            return self.graph

    root = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU())
    graph = Own().trace(root)
    ops = [node.op for node in graph.nodes]
    assert ops == ["placeholder", "call_module", "call_module", "call_function", "output"]
    assert space["half"] is before
    assert ad.nn.Linear.__call__ is call


def test_graph_modules_are_told_by_their_class() -> None:
    made = fx.symbolic_trace(nn.Linear(2, 2))
    again = type(made)(made, made.graph)
    for each in (made, again):
        assert "GraphModuleImpl" in str(type(each))
        assert isinstance(each, fx.GraphModule)
    assert type(again) is not type(made)
    kept = made.forward
    type(made).forward = lambda _, x: x  # type: ignore[method-assign,assignment]
    type(made).forward = kept  # type: ignore[method-assign]
    made.recompile()  # what was put on the class is not in the way
    x = ad.ones(1, 2)
    assert ad.equal(made(x), again(x))


def test_proxies_made_by_hand_meet_functions_of_several() -> None:
    # In a process of its own: here other tests have made classes that take functions over.
    program = (
        "import adjoint as ad; from adjoint import fx\n"
        "graph = fx.Graph()\n"
        "a, b = (fx.Proxy(graph.placeholder(n)) for n in 'ab')\n"
        "graph.output(ad.broadcast_tensors(a[..., :1], b)[0].node)\n"
        "run = fx.GraphModule(ad.nn.Module(), graph)\n"
        "assert run(ad.ones(2, 3), ad.ones(4)[:2]).shape == (2, 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_operands_in_a_sequence_are_recorded_one_by_one() -> None:
    graph = fx.Graph()
    a, b = (fx.Proxy(graph.placeholder(name)) for name in "ab")
    given = [
        ad.einsum("ij,jk->ik", *written).node.args for written in ((a, b), ((a, b),), ([a, b],))
    ]
    assert given == [("ij,jk->ik", a.node, b.node)] * 3
