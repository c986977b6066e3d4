"""Backends of one's own that take graph modules, stances of compiled functions, parts of graphs."""

from __future__ import annotations

import io
import operator
from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn
from adjoint._dynamo import lookup_backend, register_backend, testing
from adjoint._inductor.compile_fx import compile_fx
from adjoint.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from adjoint.fx.passes.operator_support import OperatorSupport, chain, create_op_support


def net() -> nn.Sequential:
    ad.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def test_a_backend_runs_forward_and_backward_graphs() -> None:
    graphs: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, example_inputs: list[Any]) -> Any:
        graphs.append(module)
        assert len(example_inputs) == sum(n.op == "placeholder" for n in module.graph.nodes)
        return module.forward

    plain, x = net(), ad.randn(5, 4)
    made = ad.compile(net(), backend=backend)
    for model in (plain, made):
        model(x).square().sum().backward()
    for a, b in zip(plain.parameters(), made.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert ad.allclose(a.grad, b.grad)
    assert graphs
    assert any(n.op == "call_function" for n in graphs[0].graph.nodes)


def test_a_backend_runs_steps_that_write() -> None:
    state = ad.zeros(3)

    def step(x: ad.Tensor) -> ad.Tensor:
        state.add_(x)
        return state * 2

    made = ad.compile(step, backend=lambda module, examples: module)
    assert made(ad.ones(3)).tolist() == [2.0] * 3
    assert made(ad.ones(3)).tolist() == [4.0] * 3
    assert state.tolist() == [2.0] * 3


def test_backends_by_name() -> None:
    @register_backend(name="as_it_is")
    def as_it_is(module: fx.GraphModule, example_inputs: list[Any]) -> Any:
        return module

    assert ad.compile(lambda x: x + 1, backend="as_it_is")(ad.ones(2)).tolist() == [2.0, 2.0]
    assert "as_it_is" in ad.compiler.list_backends()


@pytest.mark.parametrize(
    ("returns", "error", "match"),
    [
        (3, TypeError, "must return a function, received int"),
        (lambda *args: (), RuntimeError, "must return 1 tensors"),
        (lambda *args: args[0][:1], RuntimeError, "where the graph gives"),
        (lambda *args: args[0].double(), RuntimeError, "where the graph gives"),
    ],
)
def test_backends_that_break_the_contract(returns: Any, error: Any, match: str) -> None:
    made = ad.compile(lambda x: x + 1, backend=lambda module, examples: returns)
    with pytest.raises(error, match=match):
        made(ad.ones(2))


def test_stances() -> None:
    double = ad.compile(lambda x: x * 2)
    with ad.compiler.set_stance("force_eager"):
        double(ad.ones(2))
    assert double.traces == 0
    double(ad.ones(2))
    with ad.compiler.set_stance("fail_on_recompile"):
        assert double(ad.ones(2)).tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            double(ad.ones(3, 3))
    with ad.compiler.set_stance("eager_on_recompile"):
        assert double(ad.ones(3, 3)).sum() == 18
    assert double.traces == 1

    @ad.compiler.set_stance("force_eager")
    def eager(x: ad.Tensor) -> Any:
        return double(x)

    eager(ad.ones(4, 4))
    assert double.traces == 1
    ad.compiler.set_stance("force_eager")
    try:
        double(ad.ones(4, 4))
        assert double.traces == 1
    finally:
        ad.compiler.set_stance("default")
    double(ad.ones(4, 4))
    assert double.traces == 2
    with pytest.raises(RuntimeError, match="invalid"):
        ad.compiler.set_stance("no such")


def test_stances_allow_what_a_recording_for_many_sizes_covers() -> None:
    scaled = ad.compile(lambda x, rate: x * rate + len(x))
    for n in (5, 8, 6):
        scaled(ad.ones(n, 3), 0.5)
    traces = scaled.traces
    with ad.compiler.set_stance("fail_on_recompile"):
        for n in (9, 7, 12, 5, *range(20, 32), 9):  # more than are tried first
            assert scaled(ad.ones(n, 3), 0.5).tolist() == [[0.5 + n] * 3] * n
        for refused in (ad.ones(9, 3).double(), ad.ones(9, 4), ad.ones(1, 3)):
            with pytest.raises(RuntimeError, match="fail_on_recompile"):
                scaled(refused, 0.5)
    with ad.compiler.set_stance("eager_on_recompile"):
        assert scaled(ad.ones(9, 4), 0.5).sum() == 342
        assert scaled(ad.ones(9, 3), 0.25).sum() == 249.75  # nothing is learnt of the number
    with ad.compiler.set_stance("fail_on_recompile"):
        scaled(ad.ones(40, 3), 0.5)
    assert scaled.traces == traces


def parted(x: Any, y: Any) -> Any:
    a = ad.relu(x + y)
    b = ad.sin(a * 2)
    return (a + b) * 3 + b.sum()


@pytest.mark.parametrize("taken", ["add relu mul", "relu sin", "add mul sin relu", "sum", "mul"])
def test_parts_of_graphs_compute_the_same(taken: str) -> None:
    names = taken.split()
    told = create_op_support(lambda modules, node: node.name.rstrip("_0123456789") in names)
    traced = fx.symbolic_trace(parted)
    made = CapabilityBasedPartitioner(traced, told, allows_single_node_partition=True)
    parts = made.propose_partitions()
    assert {n.name.rstrip("_0123456789") for part in parts for n in part.nodes} <= set(names)
    fused = made.fuse_partitions(parts)
    x, y = ad.randn(3), ad.randn(3)
    assert ad.allclose(fused(x, y), parted(x, y))
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == [
        f"fused_{part.id}" for part in parts
    ]


def test_parts_do_not_wait_for_themselves() -> None:
    """What lies between two supported nodes, and is not supported, keeps them apart."""
    traced = fx.symbolic_trace(lambda x: ad.sin(ad.relu(x)) + ad.relu(x))
    table = {f"{operator.add.__module__}.add": None, "adjoint.relu": None}
    told = chain(OperatorSupport(table), create_op_support(lambda modules, node: node.op != "x"))
    named = create_op_support(lambda modules, node: node.name in ("relu", "add"))
    assert isinstance(told.is_node_supported({}, next(iter(traced.graph.nodes))), bool)
    made = CapabilityBasedPartitioner(traced, named, allows_single_node_partition=True)
    assert [[n.name for n in part.nodes] for part in made.propose_partitions()] == [
        ["relu"],
        ["add"],
    ]
    assert CapabilityBasedPartitioner(traced, named).propose_partitions() == []


def test_operands_of_custom_operations_are_cast() -> None:
    @ad.library.custom_op("backends::product", mutates_args=())
    def product(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        return a @ b

    ad.library.register_autocast("backends::product", "cpu", ad.bfloat16)
    one, wide = ad.ones(2, 2), ad.ones(2, 2, dtype=ad.float64)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        assert product(one, one).dtype is ad.bfloat16
        assert product(wide, wide).dtype is ad.float64
    assert product(one, one).dtype is ad.float32
    with pytest.raises(ValueError, match="device_type"):
        product.register_autocast("tpu", ad.bfloat16)


def test_traced_modules_are_saved_and_scripted_ones_refused() -> None:
    model, file = net(), io.BytesIO()
    ad.jit.save(ad.jit.trace(model, ad.zeros(2, 4)), file)
    file.seek(0)
    again = ad.jit.load(file)
    x = ad.randn(7, 4)  # another size than the example's
    assert ad.allclose(again(x), model(x))
    flat = [ad.nn.Conv2d(3, 4, 3), ad.nn.Flatten(), ad.nn.Linear(144, 2)]
    for layers, example, other in (  # other sizes than the layers' fit in none
        ([ad.nn.Linear(2, 2)], (1, 2), (5, 2)),
        ([ad.nn.Linear(4, 2)], (4, 4), (5, 4)),
        (flat, (2, 3, 8, 8), (5, 3, 8, 8)),
    ):
        model, file = ad.nn.Sequential(*layers), io.BytesIO()
        ad.jit.save(ad.jit.trace(model, ad.zeros(example)), file)
        file.seek(0)
        x = ad.randn(other)
        assert ad.allclose(ad.jit.load(file)(x), model(x), atol=1e-6)
    with pytest.raises(NotImplementedError, match="only what was traced is saved"):
        ad.jit.script(net()).save(io.BytesIO())


def test_drafts() -> None:
    model, x = net(), ad.randn(2, 4)
    assert ad.allclose(ad.export.draft_export(model, (x,)).module()(x), model(x))


@pytest.mark.parametrize("name", ["inductor", "eager", "compile_fx"])
def test_a_backend_hands_its_graphs_on(name: str) -> None:
    """A graph that was looked at is compiled by name; results and gradients are the module's."""
    looked: list[int] = []

    def backend(module: fx.GraphModule, example_inputs: list[Any]) -> Any:
        looked.append(len(list(module.graph.nodes)))
        inner = compile_fx if name == "compile_fx" else lookup_backend(name)
        return inner(module, example_inputs)

    model, other, x = net(), net(), ad.randn(5, 4)
    compiled: Any = ad.compile(model, backend=backend)
    for _ in range(2):
        compiled(x).square().sum().backward()
        other(x).square().sum().backward()
    assert len(looked) == 2  # forward and backward, once each
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        ad.testing.assert_close(ours.grad, theirs.grad)


def test_backends_are_looked_up_by_name() -> None:
    def tests_own(module: fx.GraphModule, example_inputs: list[Any]) -> Any:
        return module.forward

    register_backend(tests_own)
    assert lookup_backend("tests_own") is lookup_backend(tests_own) is tests_own
    with pytest.raises(RuntimeError, match="no backend 'nobodys'"):
        lookup_backend("nobodys")


def test_graphs_are_counted() -> None:
    counter, kept = testing.CompileCounter(), testing.EagerAndRecordGraphs()
    for backend in (counter, kept):
        f: Any = ad.compile(lambda x: x.sin() + x.cos(), backend=backend)
        for _ in range(2):
            ad.testing.assert_close(f(ad.ones(3)), ad.ones(3).sin() + ad.ones(3).cos())
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 3, 1)
    assert len(kept.graphs) == 1
    counter.clear()
    assert (counter.frame_count, counter.op_count, counter.graphs) == (0, 0, [])
