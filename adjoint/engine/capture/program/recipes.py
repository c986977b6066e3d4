"""How a program's call makes the objects its function returned, from the graph's results.

Note [results]
    Tensors that share a traced storage share memory in the results too: the storage's value comes
    back as one fresh root, and each tensor is the root itself, an alias or a view of it. A root on
    the tape is a result of the program's one node (see `derivative`), and views of it are made
    with recording on, as the function made them; an alias or view that was off the tape stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.sources import Argument, Source
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.ops.shape.select import select
from adjoint.engine.ops.shape.views import apply_chain
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import NO_GRAD, Tensor, alias, root_of, wrap


class OutsideTensor:
    """A tensor from outside the trace: an argument, by its position, or one that is always it."""

    __slots__ = ("position", "tensor")

    def __init__(self, position: int | None, tensor: Tensor | None) -> None:
        self.position = position
        self.tensor = tensor

    def of(self, leaves: Sequence[Any]) -> Any:
        """The tensor in a call with these arguments."""
        return self.tensor if self.position is None else leaves[self.position]


@dataclass(frozen=True, slots=True)
class Root:
    """A fresh tensor: an output of the graph, with its place on the tape."""

    output: int
    seed: int | None = None  # which result of the program's node it is


@dataclass(frozen=True, slots=True)
class Constant:
    """A result that is the same object at each call."""

    value: Any

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        return self.value.get() if isinstance(self.value, HostScalar) else self.value


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument handed back."""

    position: int

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        return leaves[self.position]


@dataclass(frozen=True, slots=True)
class OutsideView:
    """A view of storage from outside, off the tape, made again from what it views."""

    source: Source
    chain: tuple[Any, ...]
    leaf: bool

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        if isinstance(self.source, Argument) and not self.source.whole:
            base = alias(leaves[self.source.position])
        else:
            base = wrap(self.source.array(leaves))
            base._storage = self.source.storage(leaves)
        with CONTEXT.having(grad_enabled=False):
            out = apply_chain(base, self.chain)
        out._requires_grad = self.leaf
        return out


@dataclass(frozen=True, slots=True)
class Viewed:
    """A view, on the tape, of a tensor from outside."""

    base: OutsideTensor
    chain: tuple[Any, ...]

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        return apply_chain(self.base.of(leaves), self.chain)


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor the program computes: one of the roots, or a window on it."""

    root: int
    chain: tuple[Any, ...]
    tracked: bool  # on the tape as the root is
    leaf: bool = False  # wants a gradient of its own: `requires_grad_()` in the function
    itself: bool = False  # the root, not an alias of it

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        out = roots[self.root]
        if self.tracked:
            return out if self.itself else apply_chain(out, self.chain)
        if not self.itself:
            with CONTEXT.having(grad_enabled=False):
                out = apply_chain(alias(out), self.chain)
        out._requires_grad = self.leaf
        return out


@dataclass(frozen=True, slots=True)
class PickedElement:
    """A view at an index that the program computes: `x[i]` with a 0-d tensor i."""

    base: Recipe
    index: int  # the root that holds it
    dim: int
    chain: tuple[Any, ...]
    tracked: bool

    def make(self, leaves: Sequence[Any], roots: list[Tensor]) -> Any:
        base = self.base.make(leaves, roots)
        with CONTEXT.having(grad_enabled=CONTEXT.grad_enabled and self.tracked):
            return apply_chain(select(base, self.dim, int(roots[self.index])), self.chain)


Recipe = Constant | Passed | OutsideView | Viewed | Made | PickedElement


def _view_leaf(view: Tensor, root: Tensor) -> Tensor:
    """What a view from outside takes its gradient to: its root, or a view of that, made a leaf.

    `base[:2].requires_grad_()` wants a gradient of its own; the tape leads there from views of it.
    """
    if root.requires_grad:
        return root
    place: Any = view._node
    while place is not None and not is_tensor(place):
        edges = [edge for edge in place.edges if edge is not None]
        place = edges[0][0] if len(edges) == 1 else None
    if place is None or place._storage is not view._storage or not _begins(view, place):
        raise CaptureError(
            f"compile: {users_line()}: the function returns a view of a tensor from outside whose "
            "gradient goes elsewhere than to that tensor. Return a clone() of the view."
        )
    return place


def _begins(view: Tensor, base: Tensor) -> bool:
    """Whether a view's chain goes on from that of another window of its storage."""
    return len(base._chain) <= len(view._chain) and all(
        a is b for a, b in zip(base._chain, view._chain, strict=False)
    )


class Outputs:
    """Collects the graph's outputs, the roots made of them, and the recipes that refer to these."""

    def __init__(self, trace: Trace, leaves: list[Any]) -> None:
        self.trace = trace
        self.positions = {id(x): i for i, x in reversed([*enumerate(leaves)])}
        self.indices: dict[Value, int] = {}
        self.roots: list[Root] = []
        self.recipes: list[Recipe] = []
        self.seeds: list[tuple[Any, int]] = []  # (node, nr) in the trace and the output it is of
        self._root_of: dict[int, int] = {}
        self._recipe_of: dict[int, int] = {}
        self._kept: list[Any] = []  # so that ids stay unique

    def index(self, value: Value) -> int:
        """The number of a graph output."""
        return self.indices.setdefault(value, len(self.indices))

    def ref(self, tensor: Tensor) -> OutsideTensor:
        """How later calls find a tensor from outside."""
        position = self.positions.get(id(tensor))
        return OutsideTensor(position, tensor if position is None else None)

    def seed(self, tensor: Tensor, value: Value) -> int | None:
        """Make a tensor's place on the tape a result of the program's node."""
        node = tensor._node
        if node is None or node.sequence <= self.trace.start:
            return None
        place = ((node, tensor._nr), self.index(value))
        if place not in self.seeds:
            self.seeds.append(place)
        return self.seeds.index(place)

    def recipe(self, x: Any) -> int:
        """The number of the recipe for something the function returned or stored."""
        found = self._recipe_of.get(id(x))
        if found is None:
            found = self._recipe_of[id(x)] = len(self.recipes)
            self._kept.append(x)
            self.recipes.append(self._describe(x))
        return found

    def tensors(self) -> list[Tensor]:
        """The tensors there are recipes for."""
        return [x for x in list(self._kept) if is_tensor(x) and id(x) in self._recipe_of]

    def returns(self, x: Any) -> bool:
        """Whether there is a recipe for this very object."""
        return id(x) in self._recipe_of

    def _describe(self, x: Any) -> Recipe:
        if not is_tensor(x):
            return Constant(x)
        if id(x) in self.positions:
            return Passed(self.positions[id(x)])
        if type(x._array) is not Window and id(x) not in self.trace.aliases:
            return Constant(x)  # a tensor from outside, itself
        tracked = x.requires_grad
        picked = self.trace.picked(x)
        if picked is not None:
            index = self._root(picked.index._storage, self.trace.value_of(picked.index), None)
            source = self._describe(picked.source)
            return PickedElement(source, index, picked.dim, x._chain, tracked)
        base = x if x._base is None or x._base[1] is NO_GRAD else root_of(x)
        cell = self.trace.cell(x)
        if cell.source is not None:
            if tracked and base is not x:
                base = _view_leaf(x, base)
                return Viewed(self.ref(base), x._chain[len(base._chain) :])
            return OutsideView(cell.source, self.trace._rest(x, cell), tracked)
        if tracked and base._node is not None and (base._chain or not base.requires_grad):
            # Its place on the tape is not the root's: it becomes a root of its own.
            return Made(self._root(x, self.trace.value_of(x), x), (), tracked=True)
        leaf = tracked and base._node is None
        on_tape = tracked and not leaf
        root = self._root(x._storage, cell.value, base if on_tape else None)
        return Made(root, x._chain, on_tape, leaf)

    def _root(self, key: Any, value: Value, tracked: Tensor | None) -> int:
        """The number of the root for a storage; on the tape if `tracked` is."""
        self._kept.append(key)
        number = self._root_of.setdefault(id(key), len(self.roots))
        if number == len(self.roots):
            self.roots.append(Root(self.index(value)))
        if tracked is not None:
            self.roots[number] = Root(self.roots[number].output, self.seed(tracked, value))
        return number

    def finish(self) -> None:
        """Let one tensor be each root's own object: the first that is all of it, tape and all."""
        taken: set[int] = set()
        for i, recipe in enumerate(self.recipes):
            if type(recipe) is not Made or recipe.chain or recipe.root in taken:
                continue
            if recipe.tracked == (self.roots[recipe.root].seed is not None):
                taken.add(recipe.root)
                self.recipes[i] = replace(recipe, itself=True)
