"""A graph of ONNX, run node by node with the table of operators.

What can be known without the inputs (shapes, constants and what is computed of them) is computed
outside a recording, so that a recorded model has sizes where the file computes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.state.context import concrete
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.open_sizes import open_result, operands_for
from adjoint.onnx.reading import LIMIT, OnnxError, constant
from adjoint.onnx.table import FITS, OPERATORS, Body, NodeCall, Operator
from adjoint.onnx.types import OpenSizes, Value, value_of

Known = set[str]  # names whose values do not depend on inputs or weights
_ALWAYS_KNOWN = {"Shape", "Size"}  # of any tensor: recordings have sizes as numbers


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes of a graph can refer to besides values."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]
    folder: Path | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of the function that is called
    depth: int = 0
    # Of each node that refers to no function's: its attributes as Python has them, read once.
    read: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)

    def inside(self) -> Scope:
        """The scope of a graph in this one."""
        return self.deeper(self.opsets, self.attributes)

    def deeper(self, opsets: Mapping[str, int], attributes: Mapping[str, Any]) -> Scope:
        """One level further down."""
        if self.depth >= LIMIT:
            raise OnnxError(
                f"onnx: graphs and functions nest more than {LIMIT} deep; does one call itself?"
            )
        return Scope(opsets, self.functions, self.folder, attributes, self.depth + 1, self.read)


class Environment:
    """The values of a graph by name; those of the graph around it stay visible."""

    def __init__(self, outer: Environment | None = None) -> None:
        self.values: dict[str, Value] = {}
        self.known: Known = set()
        self.outer = outer

    def find(self, name: str) -> tuple[Value, bool]:
        """A value, and whether it is known without the inputs."""
        here: Environment | None = self
        while here is not None:
            if name in here.values:
                return here.values[name], name in here.known
            here = here.outer
        raise OnnxError(f"onnx: value {name!r} is used and nothing before makes it.")

    def put(self, name: str, value: Value, known: bool) -> None:
        if name:
            self.values[name] = value
            if known:
                self.known.add(name)
            else:
                self.known.discard(name)


def run_nodes(nodes: Sequence[Any], environment: Environment, scope: Scope) -> None:
    """Compute the nodes in order."""
    for node in nodes:
        try:
            operands = [environment.find(name) if name else (None, True) for name in node.input]
            run_node(node, operands, environment, scope)
        except OnnxError:
            raise
        except Exception as error:
            error.add_note(
                f"in node {node.name!r} ({node.op_type}) of an ONNX model, outputs "
                f"{list(node.output)}"
            )
            raise


def run_node(
    node: Any, operands: list[tuple[Value, bool]], environment: Environment, scope: Scope
) -> None:
    """Compute one node and put its outputs in the environment."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    inputs = [value for value, _ in operands]
    operator = OPERATORS.get((domain, node.op_type))
    if any(isinstance(value, OpenSizes) for value in inputs):
        if operator is not None and domain == "":
            flags = [k for _, k in operands]
            result = open_result(node.op_type, inputs, flags, attributes_of(node, scope))
            if result is not None:
                environment.put(node.output[0], result, isinstance(result, Tensor))
                return
        inputs = operands_for(node.op_type if domain == "" else "", inputs)
    known = (
        operator is not None
        and not operator.draws
        and not _has_graph(node)
        and all(k for _, k in operands)
    )
    known = known or (
        domain == "" and node.op_type in _ALWAYS_KNOWN and isinstance(inputs[0], Tensor)
    )
    with contextlib.ExitStack() as stack:
        if known:
            stack.enter_context(concrete())
            stack.enter_context(ad.no_grad())
        if (domain, node.op_type) in scope.functions:
            outputs = call_function(
                scope.functions[domain, node.op_type], node, inputs, environment, scope
            )
        elif operator is not None:
            outputs = apply(operator, node, inputs, environment, scope)
        else:
            outputs = expand(node, domain, inputs, environment, scope)
    if len(outputs) < len(node.output):
        raise OnnxError(
            f"onnx: {node.op_type} gives {len(outputs)} outputs; the node names {len(node.output)}."
        )
    for name, value in zip(node.output, outputs, strict=False):
        environment.put(name, value, known and not isinstance(value, OpenSizes))


def apply(
    operator: Operator, node: Any, inputs: list[Value], environment: Environment, scope: Scope
) -> list[Value]:
    """Compute a node with an operator of the table."""
    attributes = attributes_of(node, scope)
    stray = attributes.keys() - operator.kinds.keys()
    if stray:
        raise OnnxError(f"onnx: attributes {sorted(stray)} of {node.op_type} are not supported.")
    for name, value in attributes.items():
        fits = FITS.get(operator.kinds[name])
        if fits is not None and not fits(value):
            raise OnnxError(
                f"onnx: attribute {name} of {node.op_type} must be {operator.kinds[name]}, "
                f"received a {type(value).__name__}."
            )
    options: dict[str, Any] = dict(attributes)
    if operator.wants_call:
        domain = "" if node.domain == "ai.onnx" else node.domain
        wanted = tuple(bool(name) for name in node.output)

        def body(graph: Any) -> Body:
            if not isinstance(graph, need("onnx", "adjoint.onnx").GraphProto):
                raise OnnxError(
                    f"onnx: {node.op_type} needs a graph, received a {type(graph).__name__}."
                )
            return lambda *arguments: run_graph(graph, arguments, environment, scope.inside())

        options["call"] = NodeCall(
            node.op_type, scope.opsets.get(domain, 1), len(wanted), wanted, body
        )
    if operator.moves and any(isinstance(v, np.ndarray) for v in inputs):
        result = moved(operator, inputs, options)
    else:
        result = operator.function(*inputs, **options)
    return list(result) if isinstance(result, tuple) else [result]


def moved(operator: Operator, inputs: list[Value], options: dict[str, Any]) -> Value:
    """What only moves elements, of elements that no tensor can hold: their places are moved."""
    arrays = [k for k, v in enumerate(inputs) if isinstance(v, np.ndarray)]
    elements = np.concatenate([inputs[k].ravel() for k in arrays])
    places, start = list(inputs), 0
    for k in arrays:
        size = inputs[k].size
        places[k] = ad.arange(start, start + size).reshape(inputs[k].shape)
        start += size
    result = operator.function(*places, **options)
    pick: Callable[[Tensor], Any] = lambda t: elements[t.numpy()].reshape(tuple(t.shape))
    if isinstance(result, tuple | list):
        return type(result)(pick(t) for t in result)
    return pick(result)


def run_graph(
    graph: Any, arguments: Sequence[Value], outer: Environment | None, scope: Scope
) -> list[Value]:
    """A graph of control flow as a function of its inputs."""
    inner = Environment(outer)
    for tensor in graph.initializer:
        inner.put(tensor.name, value_of(constant(tensor, scope.folder)), True)
    for formal, value in zip(graph.input, arguments, strict=True):
        inner.put(formal.name, value, False)
    run_nodes(graph.node, inner, scope)
    return [inner.find(output.name)[0] for output in graph.output]


def call_function(
    function: Any, node: Any, inputs: list[Value], environment: Environment, scope: Scope
) -> list[Value]:
    """A function of the model, or of the opset, with its attributes bound."""
    given = {a.name: a for a in node.attribute}
    bound: dict[str, Any] = {a.name: a for a in function.attribute_proto}
    bound |= {
        name: _resolved(a, scope) for name, a in given.items() if _resolved(a, scope) is not None
    }
    versions = {
        ("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import
    }
    inner = Environment()
    padded = [*inputs, *[None] * (len(function.input) - len(inputs))]
    for name, value in zip(function.input, padded, strict=False):
        inner.put(name, value, False)
    run_nodes(function.node, inner, scope.deeper({**scope.opsets, **versions}, bound))
    return [inner.find(name)[0] if name in inner.values else None for name in function.output]


def expand(
    node: Any, domain: str, inputs: list[Value], environment: Environment, scope: Scope
) -> list[Value]:
    """An operator that has no entry, by the function that its standard states."""
    onnx = need("onnx", "adjoint.onnx")
    version = scope.opsets.get(domain)
    try:
        if version is None:
            raise onnx.defs.SchemaError(domain)
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        raise OnnxError(
            f"onnx: operator {node.op_type!r} of domain {domain or 'ai.onnx'!r} is not known"
            f"{'' if version is None else f' in opset {version}'}. Give it as a function of "
            "the model."
        ) from None
    if not schema.has_function:
        raise OnnxError(
            f"onnx: operator {node.op_type!r} of domain {domain or 'ai.onnx'!r} is not supported."
        )
    return call_function(schema.function_body, node, inputs, environment, scope)


def _has_graph(node: Any) -> bool:
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def _resolved(attribute: Any, scope: Scope) -> Any:
    """An attribute, or that of the calling function that it refers to."""
    return scope.attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute


def attributes_of(node: Any, scope: Scope) -> dict[str, Any]:
    """The attributes of a node as Python has them; strings decoded, tensors as values."""
    earlier = scope.read.get(id(node))
    if earlier is not None and earlier[0] is node:
        return earlier[1]
    attributes: dict[str, Any] = {}
    for entry in node.attribute:
        attribute = _resolved(entry, scope)
        if attribute is not None:
            attributes[entry.name] = _plain(attribute, scope)
    if not scope.attributes and not any(entry.ref_attr_name for entry in node.attribute):
        scope.read[id(node)] = (node, attributes)
    return attributes


def _plain(attribute: Any, scope: Scope) -> Any:
    kinds = need("onnx", "adjoint.onnx").AttributeProto
    match attribute.type:
        case kinds.FLOAT:
            return attribute.f
        case kinds.INT:
            return attribute.i
        case kinds.STRING:
            return attribute.s.decode()
        case kinds.FLOATS:
            return list(attribute.floats)
        case kinds.INTS:
            return list(attribute.ints)
        case kinds.STRINGS:
            return [s.decode() for s in attribute.strings]
        case kinds.TENSOR:
            with concrete():
                return value_of(constant(attribute.t, scope.folder))
        case kinds.TENSORS:
            with concrete():
                return [value_of(constant(t, scope.folder)) for t in attribute.tensors]
        case kinds.GRAPH:
            return attribute.g
        case kinds.TYPE_PROTO:
            return attribute.tp
        case _:
            raise OnnxError(
                f"onnx: attribute {attribute.name!r} has a kind, {attribute.type}, that is "
                "not supported."
            )
