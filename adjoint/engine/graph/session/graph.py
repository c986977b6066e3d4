"""`Graph`: a computation put together once, to be run by a `Session`, drawn, saved and loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.annotations import give
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.core.tree import flatten, map_tree, unflatten
from adjoint.engine.graph import file, ir
from adjoint.engine.graph.drawing.svg import to_svg
from adjoint.engine.graph.flow import scan as scan  # layers that loop are recorded by it
from adjoint.engine.graph.interpreter import evaluate
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.building import Building, Fed, Update
from adjoint.engine.graph.session.dimension import Dimension, size_of
from adjoint.engine.graph.session.session import Session, cut
from adjoint.engine.graph.session.watching import Watching
from adjoint.engine.graph.sizes.unknown_sizes import UnknownSizes
from adjoint.engine.graph.text import to_text
from adjoint.engine.tensor.tensor import Tensor

_AUTOMATIC = re.compile(r"[vxh]\d+")


class Graph:
    """A computation put together by hand, or recorded from a module.

    While it is open (`with`), operations on its placeholders, and on any tensor from outside, add
    nodes instead of computing; a `Session` runs them. Tensors from outside are state: each run
    reads them anew. Writes to them are stated as updates (`assign`, `update`), which runs carry out
    when asked.

    Example:
        >>> import adjoint as ad
        >>> with ad.Graph() as g:
        ...     x = g.placeholder((2,), name="x")
        ...     w = g.variable([3.0, 4.0], name="w")
        ...     loss = (w * x).sum()
        ...     (gradient,) = ad.autograd.grad(loss, [w])
        ...     descend = g.assign(w, w - 0.5 * gradient)
        >>> session = ad.Session(g)
        >>> session.run([loss, descend], {"x": [1.0, 2.0]})
        [tensor(11.), None]
        >>> w
        tensor([2.5000, 3.0000], requires_grad=True)
    """

    def __init__(self) -> None:
        self.trace = Building(self)
        self.names: dict[str, Value] = {}
        self.tensors: dict[str, Tensor] = {}  # the variables
        self._known: dict[str, Tensor] = {}  # tensors of the graph by name, with their history
        self.updates: dict[str, Update] = {}
        self.arguments: list[str] = []  # the placeholders, in order
        self.results: Any = None  # names of values in a structure: what calling the graph returns
        self.effects: list[str] = []  # updates that calling it carries out
        self.sizes = UnknownSizes()
        self._watching = Watching(self.trace, self.sizes)
        self._outer: list[dict[str, Any]] = []
        self._session = Session(self)

    @property
    def body(self) -> ir.DataflowGraph:
        """The nodes."""
        return self.trace.graph

    # -- building -----------------------------------------------------------------------------

    def __enter__(self) -> Graph:
        if CONTEXT.capture is not None and not isinstance(CONTEXT.capture, Building):
            raise CaptureError("Graph: cannot be built inside a captured function.")
        self._outer.append(CONTEXT.set(capture=self.trace))
        if self.sizes and len(self._outer) == 1:
            self._watching.enter()
        return self

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._outer.pop())
        if self._watching.active and not self._outer:
            self._watching.leave()
        self.trace.undo()

    def placeholder(
        self,
        shape: Any,
        dtype: DType | None = None,
        name: str | None = None,
        *,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """An input of the given shape and dtype, to be fed at each run.

        A size may be unknown: None, or a name, which stands for one size wherever it is given. Each
        run says what it is (`Dimension`).
        """
        sizes = (shape,) if isinstance(shape, (int, str, Dimension)) else tuple(shape)
        if name is not None:
            self._check_free(name)
        label = name or f"x{self.body._count}"
        spec = Spec(self._known_or_not(sizes, label), dtype or get_default_dtype(), chosen(device))
        source = Fed(name or "")
        value = self.trace.add_input(spec, source)
        source.name = self._enter(name or value.name, value)
        self.arguments.append(source.name)
        tensor = self._known[source.name] = self.trace.present(value).requires_grad_(requires_grad)
        return tensor

    def _known_or_not(self, sizes: tuple[Any, ...], label: str) -> tuple[int, ...]:
        """Sizes of a placeholder, extents for those that runs say."""
        was = bool(self.sizes)
        for n in sizes:
            if isinstance(n, str) and (n in self.names or n == label or _AUTOMATIC.fullmatch(n)):
                raise ValueError(f"Graph: a size cannot be called {n!r}, which a tensor is called.")
        while any(f"{label}_{d}" in self.names for d in range(len(sizes))):
            label += "_"
        known = tuple([size_of(n, self.sizes, f"{label}_{d}") for d, n in enumerate(sizes)])
        if self.sizes and not was and self._outer and self.trace is CONTEXT.capture:
            self._watching.enter()
        return known

    def variable(
        self, initial: Any, name: str | None = None, *, requires_grad: bool | None = None
    ) -> Tensor:
        """A tensor that keeps its value between runs.

        Args:
            initial: numbers; or a tensor of the graph (`zeros(3)` inside it), computed now; or a
                tensor from outside, which becomes the variable itself.
            name: what to call it.
            requires_grad: by default what `initial` says; made of numbers, a floating-point
                variable requires a gradient.

        It is an ordinary tensor: outside the graph it shows the value it has now.
        """
        with CONTEXT.having(capture=None):
            if not is_tensor(initial):
                tensor = PUBLIC["", "tensor"].fn(initial)
                tensor.requires_grad_(tensor.dtype.is_inexact)
            elif initial._storage.trace is self.trace:
                tensor = self._session.run(initial).requires_grad_(initial.requires_grad)
            else:
                tensor = initial
            if tensor._chain:
                raise ValueError("variable: received a view. Pass the tensor it views, or a clone.")
            if requires_grad is not None and requires_grad is not tensor.requires_grad:
                tensor.requires_grad_(requires_grad)
        if name is not None:
            self._check_free(name)
        value = self.trace.cell(tensor).initial
        self.tensors[self._enter(name or value.name, value)] = tensor
        return tensor

    def name(self, tensor: Tensor, name: str) -> Tensor:
        """Give a tensor of the graph a name by which it can be fetched; returns the tensor."""
        self._check_free(name)
        self._enter(name, self.value_of(tensor))
        self._known[name] = tensor
        return tensor

    def assign(self, target: Tensor, value: Any, name: str | None = None) -> Update:
        """The update that makes `value` what `target` (a variable, or a view of one) shows."""
        with self.update(name) as update, no_grad():
            target.copy_(value)
        return update

    @contextmanager
    def update(self, name: str | None = None) -> Iterator[Update]:
        """Everything written in place in the block, as one update: an optimizer's step, say.

        After the block the tensors written, and their gradients, are as they were before it.
        """
        name = name or f"update{len(self.updates)}"
        if name in self.updates or name in self.names:
            raise ValueError(f"Graph: there is already something called {name!r}.")
        update = Update(name)
        with CONTEXT.having(capture=self.trace), self.trace.update(update):
            yield update
        self.updates[name] = update

    # -- names --------------------------------------------------------------------------------

    def _check_free(self, name: str) -> None:
        if name in self.names or name in self.updates or name in self.sizes.labels.values():
            raise ValueError(f"Graph: there is already something called {name!r}.")

    def _enter(self, name: str, value: Value) -> str:
        """Note a name; where it can be one in Python and the value has none yet, it is its name."""
        taken = {v.name for v in self.names.values()}
        plain = name.isidentifier() and not iskeyword(name) and not _AUTOMATIC.fullmatch(name)
        if plain and name not in taken and _AUTOMATIC.fullmatch(value.name):
            value.name = name
        self.names[name] = value
        return name

    def value_of(self, x: Any) -> Value:
        """The value a name, a tensor of the graph, or a tensor from outside stands for."""
        if isinstance(x, str):
            if x not in self.names:
                known = ", ".join(self.names) or "none"
                raise KeyError(f"Graph: there is nothing called {x!r}. Names: {known}")
            return self.names[x]
        if not is_tensor(x):
            raise TypeError(f"Graph: expected a tensor or a name, received {type(x).__name__}")
        if x._storage.trace is None and x._storage.identity not in self.trace.cells:
            raise ValueError(f"Graph: a tensor of {x._spec} is not part of this graph.")
        if x._storage.trace not in (None, self.trace):
            raise ValueError(f"Graph: a tensor of {x._spec} belongs to another graph.")
        return self.trace.value_of(x)

    def __getitem__(self, name: str) -> Tensor:
        """The tensor that stands for a named value.

        In an open graph it has a history, so that gradients can be taken of it: a graph that was
        loaded is recorded once more for that.
        """
        value = self.value_of(name)
        if name in self.tensors:
            return self.tensors[name]
        if name in self._known:
            return self._known[name]
        if CONTEXT.capture is not self.trace or not CONTEXT.grad_enabled:
            return self.trace.present(value)
        self._record_again()
        return self._known[name]

    def _record_again(self) -> None:
        """Give every named value a tensor with a history."""
        lost = [n for n in self.names if n not in self._known and n not in self.tensors]
        part, inputs = cut(self.body, [self.names[n] for n in lost], [])
        by_value = {self.names[n]: t for n, t in (self._known | self.tensors).items()}
        operands = [by_value[v] if v in by_value else self.trace.operand_for(v) for v in inputs]
        with CONTEXT.having(autocast=None):
            self._known |= dict(zip(lost, evaluate(part, operands), strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        inputs = ", ".join(f"{n}: {self.names[n].spec}" for n in self.arguments)
        return f"<Graph ({inputs}), {len(self.tensors)} variables, {len(self.body)} nodes>"

    # -- running, showing ---------------------------------------------------------------------

    def set_results(self, results: Any) -> None:
        """Say what calling the graph returns: tensors of it, or names, in any structure.

        Tensors that have no name yet are called "output", "output_1", ...
        """
        self.results = map_tree(self._named, results)

    def _named(self, x: Any) -> Any:
        if not is_tensor(x) and not isinstance(x, str):
            return x
        value = self.value_of(x)
        for name, tensor in self.names.items():
            if tensor is value:
                return name
        count = 0
        while (name := f"output_{count}" if count else "output") in self.names:
            count += 1
        self.name(x, name)
        return name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Feed the placeholders in order, or by name; returns the graph's results."""
        if self.results is None:
            raise RuntimeError(
                "Graph: it has no results to return. Say what they are with "
                "graph.set_results(...), or fetch with Session(graph).run(...)."
            )
        if len(args) > len(self.arguments):
            listed = ", ".join(self.arguments)
            raise TypeError(
                f"Graph: takes {len(self.arguments)} tensors ({listed}), received {len(args)}"
            )
        feeds = dict(zip(self.arguments, args, strict=False)) | kwargs
        leaves, structure = flatten(self.results)
        names = [x for x in leaves if isinstance(x, str)]
        fetched = iter(self._session.run((*names, *self.effects), feeds))
        return unflatten(structure, [next(fetched) if isinstance(x, str) else x for x in leaves])

    def shown(self) -> ir.DataflowGraph:
        """The nodes with outputs: the results stated, else what is named or not used further."""
        graph = self.body.copy()
        if self.results is not None:
            leaves = flatten(self.results)[0]
            graph.outputs = [self.names[name] for name in leaves if isinstance(name, str)]
        else:
            used = {x for node in graph.nodes for x in node.inputs}
            last = [v for node in graph.nodes for v in node.outputs if v not in used]
            named = [v for v in self.names.values() if v.node is not None]
            graph.outputs = list(dict.fromkeys([*named, *last]))
        return graph

    def text(self) -> str:
        """The nodes as Python."""
        return to_text(self.shown())

    __str__ = text

    def svg(self, expand: Collection[str] | bool = ()) -> str:
        """The nodes as a picture; `expand` names composites to look into, True all of them."""
        return to_svg(self.shown(), expand)

    _repr_svg_ = svg  # what notebooks ask for

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file, with its variables as they are now.

        Numbers the host supplies (a learning rate) are kept as they are now, under their names.
        """
        file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Any = None) -> Graph:
        """Read a graph that `save` wrote; nothing in the file is executed.

        Args:
            path: the file.
            device: where everything is to be; by default where it was.

        Values are fetched by name; `with graph:` opens it for more, gradients included.
        """
        return file.load(cls(), path, device)


def placeholder(
    shape: Any,
    dtype: DType | None = None,
    name: str | None = None,
    *,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An input of the graph that is open, to be fed at each run.

    A size may be None or a name: each run says what it is.

    >>> import adjoint as ad
    >>> with ad.Graph() as g:
    ...     x, y = ad.placeholder((2, 3), name="x"), ad.placeholder(("rows", 3), name="y")
    >>> g
    <Graph (x: float32[2, 3], y: float32[rows, 3]), 0 variables, 0 nodes>
    """
    trace = CONTEXT.capture
    if not isinstance(trace, Building):
        raise RuntimeError("placeholder: no graph is open. Use it inside `with Graph() as g:`.")
    return trace.owner.placeholder(shape, dtype, name, device=device, requires_grad=requires_grad)


give(Graph, file.__name__, Session.__module__)
