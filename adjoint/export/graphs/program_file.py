"""Exported programs in files: PyTorch's `torch.export.save` and `load`.

A file is what `adjoint.save` writes: tensors, and the graph as a JSON text. Nothing in it is
executed when it is read; operations are known by the names of their records.
"""

from __future__ import annotations

import json
import operator
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, read_json
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.tree import LEAF, TreeDef
from adjoint.engine.graph.encoding import Decoder, Unreadable, encode, encode_spec, record_named
from adjoint.engine.graph.sizes.extents import SizeScope
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.errors import ExportError
from adjoint.export.graphs import graph_signature as parts
from adjoint.export.graphs.dynamic_shapes import ValueRanges
from adjoint.export.graphs.exported_program import ExportedProgram, Sizes
from adjoint.fx.captured import SIZE, meta_tensor
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node
from adjoint.io.files import load as load_file
from adjoint.io.files import save as save_file
from adjoint.nn.parameter import Parameter
from adjoint.ops import OpOverload
from adjoint.utils._python_dispatch import overload_of

FORMAT, VERSION = "adjoint exported program", 1
_FUNCTIONS = {
    name: getattr(operator, name)
    for name in "getitem add sub mul floordiv truediv pow mod eq ne lt le gt ge".split()
}
_CONTAINERS: dict[str, Any] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "OrderedDict": OrderedDict,
}


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: Mapping[str, Any] | None = None,
    opset_version: Any = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a file.

    Args:
        ep: the program.
        f: a path, or a file open for writing.
        extra_files: further texts, by name, which `load` gives back.

    Example:
        >>> import adjoint as ad, io
        >>> net = ad.nn.Linear(3, 2)
        >>> file = io.BytesIO()
        >>> ad.export.save(ad.export.export(net, (ad.zeros(4, 3),)), file)
        >>> _ = file.seek(0)
        >>> x = ad.randn(4, 3)
        >>> bool(ad.allclose(ad.export.load(file).module()(x), net(x)))
        True
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: expected an ExportedProgram, received {type(ep).__name__}.")
    save_file(
        {
            "format": FORMAT,
            "version": VERSION,
            "program": json.dumps(_program(ep), allow_nan=False),
            "state_dict": {name: _detached(t) for name, t in ep.state_dict.items()},
            "constants": {name: _detached(t) for name, t in ep.constants.items()},
            "extra_files": {name: str(text) for name, text in (extra_files or {}).items()},
        },
        f,
    )


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: Any = None,
) -> ExportedProgram:
    """Read an exported program; `extra_files` gets the texts that were saved with it."""
    data = load_file(f, weights_only=True)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FileError("export.load: the file is no exported program of Adjoint's.")
    if data.get("version") != VERSION:
        raise FileError(
            f"export.load: the file is of version {data.get('version')}; {VERSION} is read."
        )
    if extra_files is not None:
        extra_files.update(data["extra_files"])
    text = str(data["program"]).encode()
    budget = Budget(len(text), "export.load")
    try:
        return _ProgramReader(read_json(text, budget), budget, data).program()
    except (Unreadable, KeyError, TypeError, IndexError) as error:
        raise FileError(f"export.load: the file is damaged: {error}.") from error


def _detached(tensor: Tensor) -> Any:
    return tensor if isinstance(tensor, Parameter) else tensor.detach()


# -- writing ---------------------------------------------------------------------------------------


def _program(ep: ExportedProgram) -> Any:
    signature = ep.graph_signature
    return {
        "nodes": [_node(node) for node in ep.graph.nodes],
        "inputs": [
            [s.kind.name, _argument_spec(s.arg), s.target, s.persistent]
            for s in signature.input_specs
        ],
        "outputs": [[s.kind.name, _argument_spec(s.arg), s.target] for s in signature.output_specs],
        "in_spec": _tree(ep.call_spec.in_spec),
        "out_spec": _tree(ep.call_spec.out_spec),
        "sizes": None if ep.sizes is None else _sizes(ep.sizes),
    }


def _argument_spec(arg: Any) -> Any:
    if isinstance(arg, parts.ConstantArgument):
        return [arg.name, encode(arg.value)]
    return [arg.name]


def _node(node: Node) -> Any:
    entry: dict[str, Any] = {
        "name": node.name,
        "op": node.op,
        "target": _target(node.target),
        "args": [_argument(x) for x in node.args],
        "kwargs": {name: _argument(x) for name, x in node.kwargs.items()},
    }
    looks = node.meta.get("val")
    if isinstance(looks, Tensor):
        entry["val"] = encode_spec(looks._spec)
    stack = node.meta.get("nn_module_stack")
    if stack is not None:
        entry["modules"] = list(stack)
    return entry


def _target(target: Any) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return target._name
    for name, fn in _FUNCTIONS.items():
        if fn is target:
            return f"operator::{name}"
    raise ExportError(f"export.save: a file cannot name the function {target!r}.")


def _argument(x: Any) -> Any:
    if isinstance(x, Node):
        return {"node": x.name}
    if isinstance(x, tuple):
        return {"tuple": [_argument(item) for item in x]}
    if isinstance(x, list):
        return [_argument(item) for item in x]
    if isinstance(x, dict):
        return {"dict": [[encode(k), _argument(item)] for k, item in x.items()]}
    return encode(x)


def _tree(spec: TreeDef) -> Any:
    if spec.kind is None:
        return None
    name = spec.kind.__name__
    if _CONTAINERS.get(name) is not spec.kind or spec.exact:
        raise ExportError(
            f"export.save: a file holds tuples, lists and dicts of arguments and results; this "
            f"program has {spec.kind.__name__}. Return a tuple or dict."
        )
    return [name, list(spec.keys), [_tree(child) for child in spec.children]]


def _poly(poly: Any) -> Any:
    return [[list(monomial), factor] for monomial, factor in poly.items()]


def _sizes(sizes: Sizes) -> Any:
    scope = sizes.scope
    return {
        "dims": [[k, d, symbol] for (k, d), symbol in sizes.dims.items()],
        "names": dict(sizes.names),
        "ranges": {s: [r.lower, r.upper] for s, r in sizes.ranges.items()},
        "guards": [[_poly(p), _target(c), bool(o)] for p, c, o in scope.guards.values()],
        "derived": [
            [name, _target(fn), [_poly(a) for a in args]]
            for name, fn, args in scope.derived.values()
        ],
    }


# -- reading ---------------------------------------------------------------------------------------


class _ProgramReader:
    """Makes a program of a file's data."""

    def __init__(self, data: Any, budget: Budget, file: dict[str, Any]) -> None:
        self.data = data
        self.file = file
        self.decoder = Decoder(budget)
        self.decoder.kinds["node"] = self.node_named
        self.graph = Graph()
        self.nodes: dict[str, Node] = {}

    def node_named(self, name: Any) -> Node:
        """A node that is there already."""
        if name not in self.nodes:
            raise Unreadable(f"a node {str(name)[:80]!r} is used before it is there")
        return self.nodes[name]

    def program(self) -> ExportedProgram:
        """All of it."""
        data = self.data
        for node in data["nodes"]:
            self.node(node)
        inputs = [
            parts.InputSpec(parts.InputKind[kind], self.argument(arg), target, persistent)
            for kind, arg, target, persistent in data["inputs"]
        ]
        outputs = [
            parts.OutputSpec(parts.OutputKind[kind], self.argument(arg), target)
            for kind, arg, target in data["outputs"]
        ]
        return ExportedProgram(
            graph=self.graph,
            signature=parts.ExportGraphSignature(inputs, outputs),
            state_dict=dict(self.file["state_dict"]),
            constants=dict(self.file["constants"]),
            in_spec=self.tree(data["in_spec"]),
            out_spec=self.tree(data["out_spec"]),
            sizes=None if data["sizes"] is None else self.sizes(data["sizes"]),
        )

    def argument(self, arg: Any) -> Any:
        """What an input or output is."""
        if len(arg) == 1:
            return parts.TensorArgument(arg[0])
        return parts.ConstantArgument(arg[0], self.decoder.decode(arg[1]))

    def node(self, data: Any) -> None:
        """One node; its names are checked, because they are written into source."""
        name, op = data["name"], data["op"]
        if not isinstance(name, str) or not name.isidentifier():
            raise Unreadable(f"{str(name)[:80]!r} is no name of a node")
        target: Any = data["target"]
        if op == "call_function":
            target = self.function(target)
        elif op not in ("placeholder", "output") or not str(target).isidentifier():
            raise Unreadable(f"{str(op)[:80]!r} is no kind of node in such files")
        args = tuple(self.decoder.decode(x) for x in data["args"])
        kwargs = {_identifier(k): self.decoder.decode(x) for k, x in data["kwargs"].items()}
        node = self.graph.create_node(op, target, args, kwargs, name)
        if node.name != name:
            raise Unreadable(f"two nodes are called {name!r}, or Python keeps the name")
        if "val" in data:
            node.meta["val"] = meta_tensor(self.decoder.spec(data["val"]))
        if "modules" in data:
            node.meta["nn_module_stack"] = {str(p): (str(p), object) for p in data["modules"]}
        self.nodes[name] = node

    def function(self, name: Any) -> Any:
        """The operation of a name."""
        space, _, rest = str(name).partition("::")
        if space == "operator" and rest in _FUNCTIONS:
            return _FUNCTIONS[rest]
        if name == SIZE._name:
            return SIZE
        if space != "aten" or not rest.endswith(".default"):
            raise Unreadable(f"there is no operation {str(name)[:80]!r}")
        record: Record = record_named(rest.removesuffix(".default"))
        return overload_of(record)

    def tree(self, data: Any) -> TreeDef:
        """The structure of arguments or results."""
        if data is None:
            return LEAF
        name, keys, children = data
        return TreeDef(_CONTAINERS[name], tuple(map(str, keys)), tuple(map(self.tree, children)))

    def poly(self, data: Any) -> Any:
        """A polynomial of sizes."""
        return {tuple(map(str, monomial)): int(factor) for monomial, factor in data}

    def sizes(self, data: Any) -> Sizes:
        """The sizes that may change."""
        scope = SizeScope()
        for name, fn, args in data["derived"]:
            polys = tuple(map(self.poly, args))
            scope.derived[str(name)] = (str(name), self.function(fn), polys)
        for k, (poly, compare, outcome) in enumerate(data["guards"]):
            scope.guards[k] = (self.poly(poly), self.function(compare), bool(outcome))
        return Sizes(
            {(int(k), int(d)): str(symbol) for k, d, symbol in data["dims"]},
            {str(k): str(v) for k, v in data["names"].items()},
            {str(s): ValueRanges(int(low), int(high)) for s, (low, high) in data["ranges"].items()},
            scope,
        )


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise Unreadable(f"{str(name)[:80]!r} is no name of an argument")
    return name
