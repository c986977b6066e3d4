"""Passes over graphs: each fires where it should, and changes no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.fold import fold
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.layout import layout
from adjoint.engine.graph.passes.pipeline import PIPELINE, run_passes
from adjoint.graph import GraphError, Value, cond, scan, verify
from adjoint.nn import functional as F
from tests.graph_checks import graph_of, names, same_results

SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), -float("inf"), float("nan"), 3e-45, 1e38, 7.0]


def special() -> Any:
    """The numbers at which careless algebra shows."""
    return ad.tensor(SPECIAL)


def matrix() -> Any:
    return ad.arange(12.0).reshape(3, 4) - 5


# -- simplify: name -> (function, arguments, the records left) -----------------------------------

RULES: dict[str, tuple[Callable[..., Any], Callable[[], Any], dict[str, int]]] = {
    "add negative zero": (lambda x: x + -0.0, special, {}),
    "add zero to integers": (lambda x: (x + 0) * 2, lambda: ad.arange(3), {"mul": 1}),
    "add zero keeps -0.0": (lambda x: x + 0.0, special, {"add": 1}),
    "add zero to what is positive": (lambda x: x.exp() + 0, special, {"exp": 1}),
    "zeros plus": (lambda x: ad.zeros(10) + x.abs(), special, {"abs": 1}),
    "add a negation": (lambda x: 2 + -x, special, {"sub": 1}),
    "sub zero": (lambda x: x - 0, special, {}),
    "sub negative zero": (lambda x: x - -0.0, special, {"sub": 1}),
    "sub a negation": (lambda x: x - -(x * 2), special, {"mul": 1, "add": 1}),
    "mul one": (lambda x: 1 * x * 1.0, special, {}),
    "mul minus one": (lambda x: x * -1, special, {"neg": 1}),
    "mul ones": (lambda x: x * ad.ones(10), special, {}),
    "mul zero stays": (lambda x: x * 0, special, {"mul": 1}),
    "mul of negations": (lambda x: -x * -x, special, {"mul": 1}),
    "mul of a negation": (lambda x: -x * 3.0, special, {"mul": 1}),
    "double negation": (lambda x: x.neg().neg(), special, {}),
    "div one": (lambda x: x / 1, special, {}),
    "div minus one": (lambda x: x / -1, special, {"neg": 1}),
    "div by a power of two": (lambda x: x / 8, special, {"mul": 1}),
    "div by anything else": (lambda x: x / 3, special, {"div": 1}),
    "div by zero": (lambda x: x / 0, special, {"div": 1}),
    "div of integers": (lambda x: x / 2, lambda: ad.arange(5), {"div": 1}),
    "power one": (lambda x: x**1, special, {}),
    "square": (lambda x: x**2, special, {"mul": 1}),
    "square root": (lambda x: x**0.5, special, {"sqrt": 1}),
    "inverse": (lambda x: x**-1, special, {"div": 1}),
    "where true": (lambda x: ad.where(ad.ones(10, dtype=ad.bool), x, -x), special, {}),
    "where false": (lambda x: ad.where(ad.zeros(10, dtype=ad.bool), x, -x), special, {"neg": 1}),
    "where same": (lambda x: ad.where(x > 0, x, x), special, {}),
    "where not": (
        lambda x: ad.where((x > 0).logical_not(), x, 2 * x),
        special,
        {"gt": 1, "mul": 1, "where": 1},
    ),
    "not not": (lambda x: (x > 0).logical_not().logical_not(), special, {"gt": 1}),
    "not equal": (lambda x: (x == 1).logical_not(), special, {"ne": 1}),
    "not less stays": (lambda x: (x < 1).logical_not(), special, {"lt": 1, "logical_not": 1}),
    "cast there and back": (lambda x: x.double().float(), special, {}),
    "cast in two steps": (lambda x: x.half().float().double(), special, {"cast": 2}),
    "cast that loses": (lambda x: x.half().float(), special, {"cast": 2}),
    "sum of a sum": (lambda x: x.sum(0).sum(0), matrix, {"sum": 1}),
    "sum of a kept sum": (
        lambda x: x.sum(0, keepdim=True).sum(1),
        matrix,
        {"sum": 1, "reshape": 1},
    ),
    "sum of one": (lambda x: x.reshape(10, 1).sum(1), special, {"reshape": 2, "add": 1}),
    "sum of one square": (lambda x: (x * x).reshape(10, 1).sum(1), special, {"mul": 1}),
    "largest of one": (lambda x: x.reshape(10, 1).amax(1), special, {}),
    "guard of a guarded root": (
        lambda x: _guarded((x * x).sum(), 0, 0, ad.sqrt),
        lambda: ad.tensor([0.0, 1.0]),
        {"mul": 1, "sum": 1, "sqrt": 1},
    ),
    "guard of a root that may be -0.0": (
        lambda x: _guarded(x, 0, 0, ad.sqrt),
        special,
        {"eq": 1, "sqrt": 1, "where": 1},
    ),
    "guard of another value": (
        lambda x: _guarded(x, 1, 5, ad.exp),
        special,
        {"eq": 1, "exp": 1, "where": 1},
    ),
    "a condition as a number": (
        lambda x: (x > 1).float() == 0,
        special,
        {"gt": 1, "logical_not": 1},
    ),
    "a condition as a number, not zero": (lambda x: (x > 1).double() != 0, special, {"gt": 1}),
    "expanded operand": (
        lambda x: x[0].exp().expand(3, 4) + x,
        matrix,
        {"slice": 1, "exp": 1, "add": 1},
    ),
    "function of an expanded operand": (
        lambda x: (1 / x[0].expand(3, 4)).exp() * x,
        matrix,
        {"slice": 1, "div": 1, "exp": 1, "mul": 1},
    ),
    "expanded scalar stays": (
        lambda x: x.sum().expand(3, 4) + x,
        matrix,
        {"sum": 1, "expand": 1, "add": 1},
    ),
    "indexed by a range": (lambda x: x[ad.arange(3)] * 2, matrix, {"mul": 1}),
    "indexed by part of a range": (
        lambda x: x[:, ad.arange(1, 4, 2)] * 2,
        matrix,
        {"slice": 1, "mul": 1},
    ),
    "added at a range": (
        lambda x: ad.zeros(3, 4).index_put((ad.arange(3),), x, accumulate=True),
        matrix,
        {"add": 1},
    ),
    "put at a range": (
        lambda x: x.index_put((ad.arange(2),), x[1:].exp()),
        matrix,
        {"slice": 1, "exp": 1, "view_scatter": 1},
    ),
    "clone": (lambda x: x.clone() * 2, special, {"mul": 1}),
    "cat of one": (lambda x: ad.cat([x]) * 2, special, {"mul": 1}),
    "reshape of reshape": (
        lambda x: x.reshape(2, 6).reshape(4, 3) * 2,
        matrix,
        {"reshape": 1, "mul": 1},
    ),
    "reshape back": (lambda x: x.reshape(2, 6).reshape(3, 4) * 2, matrix, {"mul": 1}),
    "transpose back": (lambda x: x.T.T * 2, matrix, {"mul": 1}),
    "permute of permute": (
        lambda x: x.reshape(3, 2, 2).permute(2, 0, 1).permute(2, 0, 1) * 2,
        matrix,
        {"reshape": 1, "permute": 1, "mul": 1},
    ),
    "permute of ones": (
        lambda x: x.reshape(3, 1, 4).permute(1, 0, 2) * 2,
        matrix,
        {"reshape": 1, "mul": 1},
    ),
    "expand of expand": (
        lambda x: x[0].expand(3, 4).expand(2, 3, 4) * 2,
        matrix,
        {"slice": 1, "expand": 1, "mul": 1},
    ),
    "expand of a scalar": (lambda x: ad.ones(()).expand(3, 4) * x.exp(), matrix, {"exp": 1}),
    "slice of slice": (lambda x: x[1:][:, 1:4:2][0] * 2, matrix, {"slice": 1, "mul": 1}),
    "slice of all": (lambda x: x[:, :][0:3] * 2, matrix, {"mul": 1}),
    "slice of new": (
        lambda x: x[:, None][1:, 0] * 2,
        matrix,
        {"reshape": 1, "slice": 1, "mul": 1},
    ),
    "overwritten whole": (lambda x: x.clone().copy_(-x), matrix, {"neg": 1}),
    "overwritten by reshape": (
        lambda x: _put(x, lambda y: y.view(12)),
        matrix,
        {"reshape": 2, "mul": 1},
    ),
    "overwritten by transpose": (
        lambda x: _put(x, lambda y: y.T),
        matrix,
        {"permute": 2, "mul": 1},
    ),
    "read back": (lambda x: _read_back(x), matrix, {"slice": 1, "mul": 1, "exp": 1}),
    "read beside": (lambda x: _read_beside(x), matrix, {"slice": 1, "exp": 1}),
    "written twice": (lambda x: _twice(x), matrix, {"slice": 1, "neg": 1, "view_scatter": 1}),
    "written with itself": (lambda x: _itself(x), matrix, {}),
}


def _guarded(x: Any, at: float, value: float, fn: Any) -> Any:
    """fn(x), but `value` where x is `at`, and fn does not get to see that."""
    there = x == at
    return ad.where(there, value, fn(ad.where(there, 1, x)))


def _put(x: Any, view: Any) -> Any:
    y = x.clone()
    view(y).copy_(view(x) * 2)
    return y


def _read_back(x: Any) -> Any:
    y = x.clone()
    y[1:, 0] = x[1:, 1] * 2
    return y[1:][:, 0].exp()


def _read_beside(x: Any) -> Any:
    y = x.clone()
    y[1:, 0] = x[1:, 1] * 2
    return y[1:, 2].exp()


def _twice(x: Any) -> Any:
    y = x.clone()
    y[1] = x[0] * 2
    y[1] = -x[2]
    return y


def _itself(x: Any) -> Any:
    y = x.clone()
    y[1] = x[1]
    return y


def optimised(graph: DataflowGraph) -> DataflowGraph:
    return run_passes(graph, verify=True)


@pytest.mark.parametrize("case", RULES)
def test_rule(case: str) -> None:
    fn, make, left = RULES[case]
    graph, inputs = graph_of(fn, make())
    better = optimised(graph)
    same_results(graph, better, inputs)
    assert dict(names(better)) == left


@pytest.mark.parametrize(
    "dtype", [ad.float16, ad.bfloat16, ad.float64, ad.int32, ad.uint8, ad.bool]
)
@pytest.mark.parametrize("case", RULES)
def test_rule_in_other_dtypes(case: str, dtype: Any) -> None:
    fn, make, _ = RULES[case]
    x = make()
    x = x.nan_to_num(0, 0, 0).clamp(0, 5).to(dtype) if dtype.category < 2 else x.to(dtype)
    try:
        fn(x)
    except (RuntimeError, NotImplementedError, TypeError):
        return  # refused in this dtype
    graph, inputs = graph_of(fn, x)
    same_results(graph, optimised(graph), inputs)


# -- the other passes ----------------------------------------------------------------------------


def test_inline() -> None:
    graph, inputs = graph_of(lambda x: F.gelu(F.softmax(x, 1)), matrix())
    assert dict(names(graph)) == {"softmax": 1, "gelu": 1}
    flat = verify(inline(graph))
    assert names(flat)["exp"] == 1
    assert names(flat)["erf"] == 1
    assert not any(node.subgraph for node in flat)
    same_results(graph, flat, inputs)
    kept = verify(inline(graph, keep=lambda node, _: node.record.name == "softmax"))
    assert names(kept)["softmax"] == 1
    assert names(kept)["gelu"] == 0
    same_results(graph, kept, inputs)


def test_cse_shares_what_is_equal() -> None:
    graph, inputs = graph_of(lambda x: x.exp() * 2 + x.exp() * 2, matrix())
    better = verify(cse(graph))
    assert dict(names(better)) == {"exp": 1, "mul": 1, "add": 1}
    same_results(graph, better, inputs)


def test_cse_tells_numbers_apart() -> None:
    def all_unlike(x: Any) -> Any:
        return x + 1, x + 1.0, x + True, x.double() + 0.0, x.double() + -0.0

    graph, inputs = graph_of(all_unlike, ad.arange(3))
    better = verify(cse(graph))
    assert names(better)["add"] == 5
    assert names(better)["cast"] == 1
    same_results(graph, better, inputs)


def test_random_draws_are_shared_only_with_the_same_numbers() -> None:
    graph, inputs = graph_of(lambda: (ad.rand(3), ad.rand(3)))
    assert names(optimised(graph))["random"] == 2
    same_results(graph, optimised(graph), inputs)


def test_dce() -> None:
    def wasteful(x: Any) -> Any:
        (x.exp() + 1).log()
        return x * 2

    graph, inputs = graph_of(wasteful, matrix())
    better = verify(dce(graph))
    assert dict(names(better)) == {"mul": 1}
    assert better.inputs == graph.inputs
    same_results(graph, better, inputs)


def test_unused_inputs_stay() -> None:
    graph, inputs = graph_of(lambda x, y: x * y, matrix(), matrix())
    graph.outputs = [graph.inputs[0]]
    better = verify(dce(graph))
    assert len(better) == 0
    same_results(graph, better, inputs)


def test_fold() -> None:
    def constants(x: Any) -> Any:
        scale = (ad.full((3, 4), 2.0) * 3 + 1).sqrt().reshape(4, 3).T
        return x * scale.to(ad.float64), ad.arange(3) + 1

    graph, inputs = graph_of(constants, matrix())
    better = verify(dce(fold(graph)))
    assert dict(names(better)) == {"full": 1, "mul": 1, "arange": 1, "add": 1}
    same_results(graph, better, inputs)


def test_fold_keeps_promotion() -> None:
    def mixed(x: Any) -> Any:
        number = ad.full((), 3, dtype=ad.int64) / 2  # 0-d: does not widen x
        return x + number, x + ad.full((1,), 3.5, dtype=ad.float64)

    graph, inputs = graph_of(mixed, matrix().half())
    same_results(graph, optimised(graph), inputs)


def test_unsplit_joins_the_gradients_of_a_split() -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        a, b, c = x.split([1, 2, 1], dim=1)
        return ad.autograd.grad((a * 2).sum() + (b * b).sum() + c.exp().sum(), x)

    graph, inputs = graph_of(gradient, matrix())
    assert names(graph)["view_scatter"] == 3
    flat = run_passes(graph, verify=True)
    assert names(flat)["view_scatter"] == 0
    assert names(flat)["cat"] == 1
    same_results(graph, flat, inputs)


def test_sums_over_more_dimensions_are_made_of_those_over_fewer() -> None:
    def sums(x: Any) -> Any:
        x = x.reshape(2, 3, -1).exp()
        return (
            x.sum((0, 1, 2)),
            x.sum((0, 2), keepdim=True),
            x.sum(2),
            x.sum((0, 2)),
            x.sum(),
            x.sum(0),
        )

    graph, inputs = graph_of(sums, ad.randn(6, 4, dtype=ad.float64))
    flat = run_passes(graph, verify=True)
    (whole,) = [node.outputs[0] for node in flat.nodes if node.record.name == "exp"]
    begun = [n.params["dims"] for n in flat.nodes if n.inputs and n.inputs[0] is whole]
    assert sorted(begun) == [(0,), (2,)]
    same_results(graph, flat, inputs)
    halves, inputs = graph_of(lambda x: (x.sum(0), x.sum((0, 1))), matrix().half())
    assert names(run_passes(halves, verify=True))["sum"] == 2  # each rounds once
    same_results(halves, run_passes(halves), inputs)


def test_unsplit_keeps_the_signs_of_zeros() -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        a, b = x.split(2, dim=1)
        return ad.autograd.grad((a * -0.0).sum() + (b * b * 0.0).sum(), x)

    graph, inputs = graph_of(gradient, matrix())
    flat = run_passes(graph, verify=True)
    assert names(flat)["cat"] == 1
    same_results(graph, flat, inputs)


def test_unsplit_fills_gaps_and_leaves_overlaps() -> None:
    def gap(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return ad.autograd.grad((x[:, 1:2] * 3).sum(), x)

    def overlap(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return ad.autograd.grad((x[:, :3] ** 2).sum() + (x[:, 1:] ** 3).sum(), x)

    for fn, added in ((gap, 0), (overlap, 1)):
        graph, inputs = graph_of(fn, matrix())
        flat = run_passes(graph, verify=True)
        assert names(flat)["add"] == added
        same_results(graph, flat, inputs)


def test_layout_drops_copies_and_turns_products() -> None:
    graph, inputs = graph_of(lambda x: (x.clone() @ x.T.contiguous()).T.contiguous() * 2, matrix())
    assert names(graph)["clone"] == 3
    turned = layout(graph)
    assert names(turned)["clone"] == 0
    assert [n.record.name for n in dce(turned)].count("matmul") == 1
    products = [n for n in dce(turned) if n.record.name == "matmul"]
    assert products[0].outputs[0] in dce(turned).nodes[-1].inputs  # nothing transposes its result
    same_results(graph, turned, inputs)


def test_passes_leave_the_old_graph_alone() -> None:
    graph, _ = graph_of(lambda x: F.softmax(x * 1, 1).sum(), matrix())
    before = ad.graph.to_text(graph)
    optimised(graph)
    assert ad.graph.to_text(graph) == before
    verify(graph)


def test_the_verifier_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: DataflowGraph) -> DataflowGraph:
        graph = dce(graph)
        graph.outputs = [Value("stray", graph.outputs[0].spec)]
        return graph

    graph, _ = graph_of(lambda x: x * 2, matrix())
    steps = (*PIPELINE, ("broken", broken, "a pass that forgets a definition"))
    run_passes(graph, steps, verify=False)
    with pytest.raises(GraphError, match="after the pass 'broken': output %stray"):
        run_passes(graph, steps, verify=True)
    monkeypatch.setenv("ADJOINT_VERIFY", "1")
    with pytest.raises(GraphError, match="after the pass 'broken'"):
        run_passes(graph, steps)


def test_a_node_that_is_changed_in_place_is_found() -> None:
    """At the latest in the last result: before, only new nodes are verified."""

    def changing(graph: DataflowGraph) -> DataflowGraph:
        graph.nodes[0].outputs[0].spec = graph.inputs[0].spec._replace(dtype=ad.float64)
        return graph

    for number in range(len(PIPELINE) + 1):
        graph, _ = graph_of(lambda x: x * 2, matrix())
        steps = list(PIPELINE)
        steps.insert(number, ("changing", changing, "a pass that changes what it was given"))
        with pytest.raises(GraphError, match=r"after the pass .*: v\d+ = mul\b.*infers"):
            run_passes(graph, steps, verify=True)


def test_a_replacement_of_another_type_is_refused() -> None:
    from adjoint.engine.graph.passes.rewrite import rebuild

    graph, _ = graph_of(lambda x: (x > 0).logical_not(), matrix())
    with pytest.raises(GraphError, match="was replaced by"):
        rebuild(graph, lambda b, node, inputs: (graph.inputs[0],))


def test_passes_run_in_branches_and_loops() -> None:
    def flow(x: Any) -> Any:
        last, all_ = scan(lambda c, t: (c * 1.0 + t, F.softmax(c, 0).clone()), x[0], x)
        return last, all_, cond(x.sum() > 0, lambda a: -(a.neg()), lambda a: a.exp() * 1, (last,))

    graph, inputs = graph_of(flow, matrix())
    better = optimised(graph)
    (loop,) = [node for node in better if node.record.name == "scan"]
    (branch,) = [node for node in better if node.record.name == "cond"]
    assert "softmax" not in names(loop.params["body"])
    assert names(loop.params["body"])["clone"] == names(loop.params["body"])["mul"] == 0
    assert not len(branch.params["true"])
    assert dict(names(branch.params["false"])) == {"exp": 1}
    same_results(graph, better, inputs, rtol=1e-6)


# -- whole programs ------------------------------------------------------------------------------


def test_training_step() -> None:
    ad.manual_seed(0)
    model = ad.nn.Sequential(
        ad.nn.Linear(4, 8), ad.nn.LayerNorm(8), ad.nn.GELU(), ad.nn.Linear(8, 3)
    )
    opt = ad.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss

    graph, inputs = graph_of(step, matrix(), ad.tensor([0, 2, 1]))
    better = optimised(graph)
    assert len(better) < len(inline(graph))
    same_results(graph, better, inputs, rtol=1e-5)


UNARY = ("neg", "exp", "abs", "sqrt", "relu", "tanh")
BINARY = ("add", "sub", "mul", "div", "maximum")
NUMBERS = (0, 0.0, -0.0, 1, -1.0, 2, 0.5, 3.0)


@st.composite
def programs(draw: Any) -> list[tuple[Any, ...]]:
    """Steps that each make one more matrix of the matrices so far."""
    steps: list[tuple[Any, ...]] = []
    for have in range(1, draw(st.integers(2, 12))):
        pick = st.integers(0, have - 1)
        kind = draw(st.sampled_from(["unary", "binary", "number", "view", "write", "sum", "where"]))
        match kind:
            case "unary":
                steps.append((kind, draw(st.sampled_from(UNARY)), draw(pick)))
            case "binary":
                steps.append((kind, draw(st.sampled_from(BINARY)), draw(pick), draw(pick)))
            case "number":
                name, swap = draw(st.sampled_from(BINARY[:4])), draw(st.booleans())
                steps.append((kind, name, draw(pick), draw(st.sampled_from(NUMBERS)), swap))
            case "view":
                how = draw(st.sampled_from(["T", "flat", "slice", "expand", "cast", "zeros"]))
                steps.append((kind, how, draw(pick)))
            case "write":
                where = draw(st.sampled_from(["row", "part", "column", "all"]))
                steps.append((kind, where, draw(pick), draw(pick)))
            case _:
                steps.append((kind, draw(pick), draw(pick)))
    return steps


def run_program(steps: list[tuple[Any, ...]], x: Any) -> Any:
    """Every matrix is 4 by 4, so that any step fits any other."""
    made = [x]
    for step in steps:
        made.append(_run_step(step, made))
    return made[-1], made[len(made) // 2]


def _run_step(step: tuple[Any, ...], made: list[Any]) -> Any:
    match step:
        case ("unary", name, i):
            return getattr(made[i], name)()
        case ("binary", name, i, j):
            return getattr(made[i], name)(made[j])
        case ("number", name, i, number, swap):
            fn = getattr(ad, name)
            return fn(number, made[i]) if swap and name != "div" else fn(made[i], number)
        case ("view", how, i):
            return _VIEWS[how](made[i])
        case ("write", where, i, j):
            y = made[i].clone()
            _WINDOWS[where](y).copy_(_WINDOWS[where](made[j]))
            return y
        case ("sum", i, j):
            return made[i].sum(1, keepdim=True).sum(1, keepdim=True) + made[j]
        case ("where", i, j):
            return ad.where((made[i] > made[j]).logical_not(), made[i], made[j])
    raise AssertionError(step)


_VIEWS: dict[str, Callable[[Any], Any]] = {
    "T": lambda x: x.T,
    "flat": lambda x: x.reshape(16).reshape(2, 8).reshape(4, 4),
    "slice": lambda x: ad.cat([x[1:][:2], x[:2]]),
    "expand": lambda x: x[0:1].expand(4, 4),
    "cast": lambda x: x.double().float(),
    "zeros": lambda x: ad.zeros(4, 4) + x,
}
_WINDOWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "part": lambda x: x[1:][:, 1:3],
    "column": lambda x: x.T[2],
    "all": lambda x: x.T.reshape(4, 4),
}


@settings(max_examples=150, deadline=None)
@given(programs(), st.lists(st.sampled_from(SPECIAL), min_size=16, max_size=16))
def test_random_programs(steps: list[tuple[Any, ...]], elements: list[float]) -> None:
    x = ad.tensor(elements).reshape(4, 4)
    with np.errstate(all="ignore"):
        graph, inputs = graph_of(lambda x: run_program(steps, x), x)
        better = optimised(graph)
        same_results(graph, better, inputs, rtol=0 if "sum" not in [s[0] for s in steps] else 1e-5)
        assert len(better) <= len(inline(graph))
