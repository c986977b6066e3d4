"""Arguments of nodes: kept unchangeable, named by signatures, and written by a code generator."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn
from adjoint.fx import operator_schemas as schemas
from adjoint.fx.immutable_collections import immutable_dict, immutable_list
from adjoint.nn import functional as F
from adjoint.utils import _pytree as pytree

X = ad.arange(12.0).reshape(3, 4)
W = ad.arange(8.0).reshape(2, 4)

CHANGES: list[tuple[Any, Callable[[Any], Any]]] = [
    (immutable_list([1, 2]), lambda x: x.append(3)),
    (immutable_list([1, 2]), lambda x: x.sort()),
    (immutable_list([1, 2]), lambda x: operator.setitem(x, 0, 3)),
    (immutable_list([1, 2]), lambda x: operator.iadd(x, [3])),
    (immutable_list([1, 2]), lambda x: operator.delitem(x, 0)),
    (immutable_dict(a=1), lambda x: x.update(a=2)),
    (immutable_dict(a=1), lambda x: operator.setitem(x, "a", 2)),
    (immutable_dict(a=1), lambda x: operator.ior(x, {"b": 2})),
    (immutable_dict(a=1), lambda x: x.popitem()),
]


@pytest.mark.parametrize("k", range(len(CHANGES)))
def test_what_nodes_keep_cannot_be_changed(k: int) -> None:
    kept, change = CHANGES[k]
    before = list(kept)
    with pytest.raises(TypeError, match="does not support mutation"):
        change(kept)
    assert list(kept) == before
    again = pickle.loads(pickle.dumps(kept))
    assert again == kept
    assert type(again) is type(kept)
    assert hash(again) == hash(kept)
    leaves, spec = pytree.tree_flatten(kept)
    assert type(pytree.tree_unflatten(leaves, spec)) is type(kept)


def test_arguments_of_nodes_are_kept_so() -> None:
    traced = fx.symbolic_trace(lambda x: ad.cat([x, x], dim=1).reshape([2, 12]))
    joined = next(node for node in traced.graph.nodes if node.target is ad.cat)
    assert type(joined.args[0]) is immutable_list
    assert type(joined.kwargs) is immutable_dict
    given = [joined.args[0][0]]
    joined.args = (given,)
    given.append(given[0])  # what was given stays the program's
    assert len(joined.args[0]) == 1
    joined.args = (given,)
    traced.recompile()
    assert traced(X).shape == (2, 12)
    assert fx.Interpreter(traced).run(X).tolist() == traced(X).tolist()


# What is called, with what, what is then said by name besides what was given by position.
NORMALIZED: list[tuple[Any, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (ad.flatten, (X, 1), {}, {"end_dim": -1}),
    (ad.add, (X, X), {"alpha": 2}, {"alpha": 2}),
    (ad.ops.aten.add.Tensor, (X, X), {}, {"alpha": 1}),
    (ad.cat, ([X, X],), {"dim": 1}, {"dim": 1}),
    (ad.sum, (X, 1), {}, {"keepdim": False, "dtype": None}),
    (ad.max, (X, X), {}, {}),
    (ad.max, (X, 1), {}, {"keepdim": False, "other": None}),
    (ad.reshape, (X, (2, 6)), {}, {}),
    (F.linear, (X, W), {}, {"bias": None}),
    (F.relu, (X,), {}, {"inplace": False}),
    (F.softmax, (X,), {"dim": 1}, {"_stacklevel": 3, "dim": 1, "dtype": None}),
]


@pytest.mark.parametrize("k", range(len(NORMALIZED)))
def test_arguments_have_names(k: int) -> None:
    target, args, kwargs, named = NORMALIZED[k]
    found = schemas.normalize_function(target, args, kwargs)
    assert found is not None
    assert len(found.args) == len(args)
    assert found.kwargs == named
    whole = schemas.normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=True)
    assert whole is not None
    assert not whole.args
    results = [target(*args, **kwargs), target(*found.args, **found.kwargs), target(**whole.kwargs)]
    first, *others = [pytree.tree_leaves(out) for out in results]
    for other in others:
        assert all(bool((a == b).all()) for a, b in zip(first, other, strict=True))


def test_what_has_no_signature_or_does_not_fit() -> None:
    assert schemas.normalize_function(operator.add, (X, X)) is None
    assert schemas.normalize_function(len, ([1],)) is None
    assert schemas.normalize_function(ad.relu, (X, X, X)) is None
    assert schemas.get_signature_for_torch_op(operator.add) is None
    with pytest.raises(RuntimeError, match="mutable"):
        schemas.check_for_mutable_operation(ad.relu_, (X,), {})


def test_nodes_tell_their_arguments() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: ad.Tensor) -> Any:
            return ad.max(self.layer(x), x[:, :2])

    traced = fx.symbolic_trace(Net())
    by_kind = {node.op: node for node in traced.graph.nodes if node.target is not operator.getitem}
    found = by_kind["call_module"].normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert list(found.kwargs) == ["input"]
    largest = by_kind["call_function"]
    with pytest.raises(RuntimeError, match="ambiguous"):
        largest.normalized_arguments(traced)
    types = (ad.Tensor, ad.Tensor)
    found = largest.normalized_arguments(traced, types, normalize_to_only_use_kwargs=True)
    assert list(found.kwargs) == ["input", "other"]
    assert by_kind["placeholder"].normalized_arguments(traced) is None


class Doubled(fx.CodeGen):
    """`forward` takes a pair and returns a dict."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        names = ", ".join(free_vars)
        return f"def forward(self, pair):\n    {names} = pair"

    def generate_output(self, output_args: Any, **kwargs: Any) -> str:
        return f"return dictionary(out={kwargs['repr_fn'](output_args)})"

    def process_inputs(self, *args: Any) -> Any:
        return args[0]

    def process_outputs(self, outputs: Any) -> Any:
        return {"out": outputs}

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("dictionary", dict)]


def test_programs_write_the_first_line_and_the_last() -> None:
    traced = fx.symbolic_trace(lambda x, y: ad.relu(x) - y)
    traced.graph.set_codegen(Doubled())
    traced.recompile()
    wanted = {"out": (X - 1).tolist()}
    copied = fx.GraphModule(traced, traced.graph.__deepcopy__({}))
    pickled = pickle.loads(pickle.dumps(traced))
    for module in (traced, copied, pickled):
        assert {key: out.tolist() for key, out in module((X, 1)).items()} == wanted
    out = fx.Interpreter(traced).run((X, 1))
    assert {key: value.tolist() for key, value in out.items()} == wanted
    assert fx.Interpreter(traced).run(X, 1, enable_io_processing=False).tolist() == wanted["out"]


def test_lines_are_changed_while_a_block_lasts() -> None:
    traced = fx.symbolic_trace(lambda x: ad.relu(x))
    plain = traced.code

    def first(before: Any) -> Any:
        assert before is None
        return lambda lines: ["x = x + 1\n", *lines]

    with traced.graph.on_generate_code(first):
        traced.recompile()
    assert traced(ad.zeros(1)).item() == 1
    traced.recompile()
    assert traced.code == plain


def test_functions_that_are_called_for_what_they_do_stay() -> None:
    def note(x: Any) -> None:
        """Nothing is returned."""

    def program(x: ad.Tensor) -> ad.Tensor:
        return ad.relu(x)

    graph = fx.symbolic_trace(program).graph
    with graph.inserting_before(graph.output_node()):
        graph.call_function(fx.has_side_effect(note), (next(iter(graph.nodes)),))
    assert not graph.eliminate_dead_code()
