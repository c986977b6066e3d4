"""What code sees of unknown sizes while a graph is open, and checks of each call of a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.operations.overrides import THREAD, having
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.record.sources import Host, State
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.graph.session.dimension import Dimension, plain, shown
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, Sizes, SizeScope, is_extent
from adjoint.engine.graph.sizes.resizing import Describe, Rebuild, first_difference, resized
from adjoint.engine.graph.sizes.unknown_sizes import UnknownSizes
from adjoint.engine.ops.shape.convert import CLONE
from adjoint.engine.ops.shape.views import apply_chain
from adjoint.engine.tensor.overriding import ASKED, enter_mode
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor

_TAPE = frozenset({"backward", "requires_grad_", "retain_grad", "register_hook"})  # no nodes


def _engine_asks(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("adjoint.engine.")


_SHAPE: Any = vars(Tensor)["shape"]


def _shape(self: Tensor) -> Size:
    """The sizes of the dimensions."""
    shape: Size = _SHAPE.__get__(self)
    if type(self._array) is not Window or _engine_asks(sys._getframe(1)):
        return shape
    return shown(shape) if any(map(_unknown, shape)) else shape


_LENGTH: Any = vars(Tensor)["__len__"]


def _length(self: Tensor) -> int:
    first: Any = self._array.shape[:1] if type(self._array) is Window else ()
    if any(map(_unknown, first)):
        Dimension(first[0]).__index__()
    return int(_LENGTH(self))


def _unknown(n: Any) -> bool:
    return isinstance(n, Extent) and n.scope.labels is not None


class Watching:
    """While a graph with unknown sizes is open: what code sees of them, and checks of each call."""

    count = 0  # of those under way, in all threads

    def __init__(self, trace: Trace, sizes: UnknownSizes) -> None:
        self.trace = trace
        self.sizes = sizes
        self.active = False

    def enter(self) -> None:
        """Begin, outside of the modes there are."""
        self.active = True
        THREAD.modes = (self, *THREAD.modes)
        enter_mode(1)
        self._count(1)

    def leave(self) -> None:
        """End."""
        self.active = False
        THREAD.modes = tuple(mode for mode in THREAD.modes if mode is not self)
        enter_mode(-1)
        self._count(-1)

    @classmethod
    def _count(cls, by: int) -> None:
        Watching.count += by
        watched = Watching.count > 0
        asked: Any = Tensor
        asked.shape = property(_shape) if watched else ASKED["shape"][0]
        asked.__len__ = _length if watched else _LENGTH

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function on extents, and once more at other sizes."""
        args, kwargs = plain((args, kwargs or {}), self.sizes.scope)
        given = [x for x in flatten((args, kwargs))[0] if is_tensor(x)]
        own = [x for x in given if x._storage.trace is self.trace]
        if CONTEXT.capture is not self.trace or func.__name__ in _TAPE:
            return shown(func(*args, **kwargs))
        sized = any(_unknown(n) for x in own for n in x._array.shape)
        if not sized and not _has_extents((args, kwargs)):
            return func(*args, **kwargs)
        for x in own:
            self.trace.value_of(x)  # views are derived before the call's own nodes
        call = _RepeatableCall(func, args, kwargs, self.trace)
        result = func(*args, **kwargs)
        call.made(result)
        try:
            self.sizes.check(
                lambda sizes, scope: call.differs(self.sizes.scope.complete(sizes), scope),
                _named(func),
            )
        except ValueError:
            call.take_back()
            raise
        return shown(result)


def _named(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__name__", func)).strip("_")


def _has_extents(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(map(_has_extents, x))
    if isinstance(x, dict):
        return any(map(_has_extents, x.values()))
    return any(map(is_extent, (x.start, x.stop, x.step))) if isinstance(x, slice) else is_extent(x)


class _RepeatableCall:
    """A call of a function on tensors of a graph, which can be made again at other sizes."""

    def __init__(self, func: Callable[..., Any], args: Any, kwargs: Any, trace: Trace) -> None:
        self.func, self.args, self.kwargs, self.trace = func, args, kwargs, trace
        self.start = len(trace.graph.nodes)
        self.draws = dict(trace.draws)
        self.nodes: list[Node] = []
        self.result: Any = None

    def made(self, result: Any) -> None:
        """Note what the call recorded."""
        self.result = self._described(result, self.trace)
        self.nodes = self.trace.graph.nodes[self.start :]

    def take_back(self) -> None:
        """Have the graph as before the call."""
        del self.trace.graph.nodes[self.start :]
        gone = set(self.nodes)
        views = self.trace.views
        self.trace.views = {k: view for k, view in views.items() if view[0].node not in gone}

    def _described(self, result: Any, trace: Trace) -> list[Any]:
        """A result's leaves: of tensors their values."""
        return [trace.value_of(x) if is_tensor(x) else x for x in flatten(result)[0]]

    def differs(self, sizes: Sizes, scope: SizeScope | None) -> str | None:
        """How the call at other sizes differs from its nodes there; None if it does not."""
        trace = Trace()
        trace.draws = {generator: resized(n, sizes) for generator, n in self.draws.items()}
        twins = _Twins(sizes, scope, trace, self.trace)
        try:
            with having(modes=()), CONTEXT.having(capture=trace):
                args, kwargs = twins(self.args), twins(self.kwargs)
                start = len(trace.graph.nodes)
                result = self._described(self.func(*args, **kwargs), trace)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            trace.undo()
        there = _Nodes(sizes, set())
        foretold = there.nodes(self.nodes), [there(x) for x in self.result]
        counts = len(self.nodes), len(trace.graph.nodes) - start
        if counts[0] != counts[1]:
            return f"{counts[0]} operations at one size, {counts[1]} at another"
        other = _Nodes(sizes, set())
        recorded = other.nodes(trace.graph.nodes[start:]), [other(x) for x in result]
        here = _described(*foretold, self.trace, there)
        return first_difference(here, _described(*recorded, trace, other), "it")


def _described(nodes: list[Node], result: list[Any], trace: Trace, at: Callable[[Any], Any]) -> Any:
    describe = DescribeRecording(trace, trace.graph.inputs, at)
    return describe.nodes(nodes), tuple([describe(x) for x in result])


class DescribeRecording(Describe):
    """Nodes with what their inputs are: numbers of the host, tensors that are always the same."""

    def __init__(self, trace: Trace, inputs: list[Value], at: Callable[[Any], Any]) -> None:
        super().__init__()
        self.sources = {v: at(source) for v, source in zip(inputs, trace.sources, strict=True)}

    def __call__(self, x: Any) -> Any:
        if isinstance(x, Value) and isinstance(source := self.sources.get(x), (State, Host)):
            return ("source", self(source))
        return super().__call__(x)


class _Nodes(Rebuild):
    """Nodes of a graph at other sizes, whatever their inputs are."""

    def nodes(self, nodes: list[Node]) -> list[Node]:
        self.lazy = False
        return [self._node(node) for node in nodes]

    def _node(self, node: Node) -> Node:
        inputs = tuple([self(x) for x in node.inputs])
        twin = Node(node.record, inputs, self(node.params), self(node.subgraph))
        for old in node.outputs:
            new = type(old)(old.name, self(old.spec), twin)
            twin.outputs += (new,)
            self.memo[id(old)] = new
            self.alive.append(old)
        return twin


class _Twins(Rebuild):
    """Arguments of a call at other sizes: stand-ins for the graph's tensors."""

    def __init__(
        self, sizes: Sizes, scope: SizeScope | None, trace: Trace, original: Trace
    ) -> None:
        super().__init__(sizes, set())
        self.scope = scope
        self.trace = trace
        self.original = original
        self.roots: dict[int, Tensor] = {}

    def number(self, x: Extent | ExtentFloat) -> Any:
        return super().number(x) if self.scope is None else x.moved(self.sizes, self.scope)

    def _object(self, x: Any) -> Any:
        if is_tensor(x):
            return self._tensor(x) if x._storage.trace is self.original else x
        return super()._object(x)

    def _tensor(self, x: Tensor) -> Tensor:
        storage = x._storage
        root = self.roots.get(storage.identity)
        if root is None:
            cell = self.original.cells[storage.identity]
            spec: Spec = self(cell.value.spec)
            flag = x.requires_grad
            root = self.trace.stand_in(len(self.roots), spec, requires_grad=flag)
            if flag and not x.is_leaf:
                root = CLONE(root)
            self.roots[storage.identity] = root
        tensor = apply_chain(root, self(x._chain))
        self.trace.value_of(tensor)
        return tensor
