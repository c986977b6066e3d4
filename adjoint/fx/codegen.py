"""The Python that a graph stands for, and how programs change what is written."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.dtype import DType
from adjoint.fx.immutable_collections import immutable_dict, immutable_list
from adjoint.fx.node import Node, qualified_name

if TYPE_CHECKING:
    from adjoint.fx.graph import Graph

# Lines of a body, each with its end, to those that are written instead.
BodyTransformer = Callable[[list[str]], list[str]]
_RESERVED = {*keyword.kwlist, *dir(builtins), "self", "inf", "nan", "NoneType", "device"}


class PythonCode(NamedTuple):
    """Source of a graph's `forward`, and the objects its names mean."""

    src: str
    globals: dict[str, Any]


class UniqueNames:
    """Names that differ from each other and from Python's."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def make(self, candidate: str) -> str:
        base = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate).strip() or "_unnamed"
        if base[0].isdigit():
            base = f"_{base}"
        numbered = re.match(r"(.*)_(\d+)$", base)
        name = base
        if numbered is not None and base in self._used:
            base = numbered.group(1)
            name = base
        while name in self._used or name in _RESERVED:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._used.add(name)
        return name


def snake(name: str) -> str:
    """`LayerNorm` as `layer_norm`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class CodeGen:
    """Writes the first line and the last of `forward`; a subclass may write others.

    Example:
        >>> CodeGen().gen_fn_def(["x", "y = 1"], "")
        'def forward(self, x, y = 1):'
    """

    def __init__(self) -> None:
        self._body_transformer: BodyTransformer | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The first line, from the parameters as they are written."""
        own = [] if free_vars and free_vars[0] == "self" else ["self"]
        if expanded_def:
            written = "".join(f"    {name},\n" for name in [*own, *free_vars])
            return f"def {self._func_name}(\n{written}){maybe_return_annotation}:"
        written = ", ".join([*own, *free_vars])
        return f"def {self._func_name}({written}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """The last line; `repr_fn` writes a value of the graph."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments as the nodes take them, where a graph is run without its source."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the output node gave, as `forward` would return it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the lines it writes use, and what they mean."""
        return []


def restored_later(
    codegen: CodeGen, before: BodyTransformer | None
) -> AbstractContextManager[None]:
    """At the end of a `with` block, if there is one, lines are changed as they were before."""

    @contextmanager
    def block() -> Iterator[None]:
        try:
            yield
        finally:
            codegen._body_transformer = before

    return block()


def write_code(graph: Any, root: str) -> PythonCode:
    """The source of a graph's `forward`; `root` is what it calls its module."""
    return _Writer(graph, root).write()


def _found(value: Any, path: str) -> Any:
    """What a path leads to, None where it leads nowhere."""
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "truediv": "{} / {}",
    "floordiv": "{} // {}", "mod": "{} % {}", "pow": "{} ** {}", "matmul": "{} @ {}",
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}",
    "ge": "{} >= {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "getitem": "{}[{}]", "neg": "-{}",
    "invert": "~{}", "pos": "+{}",
}  # fmt: skip


class _Writer:
    """Writes one graph: its lines, and the objects that the names in them mean."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph = graph
        self.root = root
        self.globals: dict[str, Any] = {}
        self.names = UniqueNames()
        for node in graph.nodes:
            self.names._used.add(node.name)

    def write(self) -> PythonCode:
        codegen, parameters, body = self.graph._codegen, list[str](), list[str]()
        last = self._last_uses()
        for node in self.graph.nodes:
            if node.op == "placeholder":
                parameters.append(self._parameter(node))
                if node.target.lstrip("*") != node.name:
                    body.append(f"{node.name} = {node.target.lstrip('*')}")
            elif node.op == "output":
                body.append(codegen.generate_output(node.args[0], repr_fn=self._text))
            else:
                body.append(f"{node.name} = {self._expression(node)}")
            spent = [used.name for used in last.get(node, [])]
            if spent and node.op not in ("placeholder", "output"):
                body[-1] += ";  " + " = ".join(spent) + " = None"
        if not any(node.op == "output" for node in self.graph.nodes):
            body.append("pass")
        for name, value in codegen.additional_globals():
            self.globals[name] = value
        first = [] if self.root == "self" else [self.root]
        head = codegen.gen_fn_def([*first, *parameters], "")
        lines = [f"{line}\n" for line in body]
        if codegen._body_transformer is not None:
            lines = codegen._body_transformer(lines)
        text = "".join(f"    {line}\n" for line in "".join(lines).rstrip("\n").split("\n"))
        # Blank lines and the last indentation are PyTorch's: programs print the text.
        return PythonCode(f"\n\n\n{head}\n{text}    ", self.globals)

    def _last_uses(self) -> dict[Node, list[Node]]:
        """By node, the values that nobody needs after it."""
        seen: set[Node] = set()
        last_uses: dict[Node, list[Node]] = {}
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    last_uses.setdefault(node, []).append(used)
        return last_uses

    def _parameter(self, node: Node) -> str:
        return f"{node.target} = {self._text(node.args[0])}" if node.args else str(node.target)

    def _expression(self, node: Node) -> str:
        if node.op == "get_attr":
            return self._path(node.target)
        if node.op == "call_module":
            return f"{self._path(node.target)}({self._arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            first = self._text(node.args[0])
            return f"{first}.{node.target}({self._arguments(node.args[1:], node.kwargs)})"
        target = node.target
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", None) == "_operator" and name in _OPERATORS:
            form = _OPERATORS[name]
            if not node.kwargs and form.count("{}") == len(node.args):
                return form.format(*(self._text(arg) for arg in node.args))
        if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{self._text(node.args[0])}.{node.args[1]}"
        return f"{self._global(target)}({self._arguments(node.args, node.kwargs)})"

    def _path(self, path: str) -> str:
        text = self.root
        for part in path.split("."):
            plain = part.isidentifier() and not keyword.iskeyword(part)
            text = f"{text}.{part}" if plain else f'getattr({text}, "{part}")'
        return text

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        shown = [self._text(arg) for arg in args]
        return ", ".join([*shown, *(f"{key} = {self._text(v)}" for key, v in kwargs.items())])

    def _text(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        kind = type(value)
        if kind is tuple:
            inner = ", ".join(self._text(item) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if kind in (list, immutable_list):
            return f"[{', '.join(self._text(item) for item in value)}]"
        if kind in (dict, immutable_dict):
            items = (f"{self._text(k)}: {self._text(v)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            inner = ", ".join(self._text(item) for item in value)
            return f"{self._global(kind)}({inner})"
        if kind is slice:
            parts = ", ".join(self._text(bound) for bound in (value.start, value.stop, value.step))
            return f"slice({parts})"
        plain = (bool, int, str, bytes, complex, type(None), type(...))
        if isinstance(value, plain) and kind in plain:
            return repr(value)
        if kind is float:
            return repr(value) if value - value == 0 else f"float('{value}')"
        return self._global(value)

    def _global(self, value: Any) -> str:
        for name, known in self.globals.items():
            if known is value:
                return name
        named = callable(value) and hasattr(value, "__name__")
        path = qualified_name(value) if named else snake(type(value).__name__)
        if isinstance(value, DType):
            path = f"torch.{value.name}"
        if getattr(builtins, path, None) is value:
            return path
        if path.startswith("torch.") and "torch" not in self.names._used:
            package = sys.modules[__name__.partition(".")[0]]
            if _found(package, path.partition(".")[2]) is value:
                self.globals["torch"] = package
                return path
        name = self.names.make(path.replace(".", "_"))
        self.globals[name] = value
        return name
