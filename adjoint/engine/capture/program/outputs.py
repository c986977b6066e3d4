"""What a recording's results are made of: the graph's outputs, roots, and recipes for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.engine.capture.program.layouts import unless_packed
from adjoint.engine.capture.program.recipes import (
    CallResults,
    Constant,
    Gradient,
    Made,
    OutsideTensor,
    OutsideView,
    PickedElement,
    Recipe,
    ReturnedArgument,
    Root,
    View,
)
from adjoint.engine.capture.python.plain import is_plain
from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.ops.shape.convert import CLONE
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import NO_GRAD, Tensor, root_of


class Outputs:
    """Collects the graph's outputs, the roots made of them, and the recipes that refer to these."""

    def __init__(self, trace: Trace, leaves: Sequence[Any], reached: Sequence[Tensor] = ()) -> None:
        self.trace = trace
        self.outside = {id(x): x for x in (*leaves, *reached) if is_tensor(x)}
        seen = [(grad, holder) for holder, grad in trace.grads_seen.items() if grad is not None]
        # Gradients that were found, by id, and the tensors whose they are.
        self.gradients = {id(g): holder for g, holder in seen if id(g) not in self.outside}
        self.outside |= {id(grad): grad for grad, _ in seen}
        self.positions = {id(x): i for i, x in reversed([*enumerate(leaves)])}
        self.indices: dict[Value, int] = {}
        self.roots: list[Root] = []
        self.recipes: list[Recipe] = []
        self.seeds: list[tuple[Any, int]] = []  # (node, nr) in the trace and the output it is of
        self.made_leaves: dict[int, int] = {}  # recipes of leaves made inside, by id
        self._root_of: dict[int, int] = {}
        self._shown: set[Value] = set()  # what a root is made of
        self._recipe_of: dict[int, int] = {}
        self._described: list[Any] = []  # what each recipe is for
        self._alive: list[Any] = []  # storages, so that ids stay unique

    def index(self, value: Value) -> int:
        """The number of a graph output."""
        return self.indices.setdefault(value, len(self.indices))

    def ref(self, tensor: Tensor) -> OutsideTensor:
        """How later calls find a tensor from outside."""
        position = self.positions.get(id(tensor))
        return OutsideTensor(position, tensor if position is None else None)

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor was there before the trace."""
        return id(tensor) in self.positions or self.trace.was_there(tensor)

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
        """The number of the recipe for something the function returned or stored.

        What a recipe refers to comes before it.
        """
        if is_tensor(x) and not self.is_outside(x):
            self.trace.cell(x)  # refuses what cannot be told
        return self._recipe(x)

    def _recipe(self, x: Any) -> int:
        number = self._recipe_of.get(id(x))
        if number is None:
            described = self._describe(x)
            number = self._recipe_of[id(x)] = len(self.recipes)
            self._described.append(x)
            self.recipes.append(described)
            if is_tensor(x) and x._requires_grad and x._node is None and not self.is_outside(x):
                self.made_leaves[id(x)] = number
        return number

    def at_place(self, place: tuple[Any, int]) -> Tensor | None:
        """A tensor that the function found at a place of the tape."""
        matching = [x for x in self.outside.values() if (x._node, x._nr) == place]
        return matching[0] if matching else None

    def tensors(self) -> list[Tensor]:
        """The tensors there are recipes for."""
        return [x for x in list(self._described) if is_tensor(x)]

    def returns(self, x: Any) -> bool:
        """Whether there is a recipe for this very object."""
        return id(x) in self._recipe_of

    def _describe(self, x: Any) -> Recipe:
        if not is_tensor(x):
            return Constant(x)
        if id(x) in self.positions:
            return ReturnedArgument(self.positions[id(x)])
        if id(x) in self.gradients:
            return Gradient(self.ref(self.gradients[id(x)]))
        if self.trace.was_there(x):
            return Constant(x)  # a tensor from outside, itself
        tracked = x.requires_grad  # brings its place on the tape up to date
        picked = self.trace.picked(x)
        if picked is not None:
            index = self._root(picked.index._storage, self.trace.value_of(picked.index))
            source = self.recipe(picked.source)
            return PickedElement(source, index, picked.dim, x._chain, tracked)
        cell = self.trace.cell(x)
        if x._base is not None:
            return self._view(x, tracked)
        seed = self.seed(x, self.trace.value_of(x)) if tracked else None
        leaf = tracked and x._node is None
        if tracked and not leaf and seed is None:
            raise CaptureError(
                f"compile: {users_line()}: the function returns or keeps a tensor that shows one "
                "from outside and has its place on the tape. Return that tensor itself, or a "
                "clone() of it."
            )
        if cell.source is not None:
            return OutsideView(cell.source, self.trace._rest(x, cell), leaf, seed)
        root = self._root(x._storage, cell.value)
        if cell.window is not None:  # though this shows a part of it
            strides = unless_packed(cell.window.shape, cell.window.strides)
            self.roots[root] = replace(self.roots[root], strides=strides)
        return Made(root, x._chain, seed, leaf)

    def _view(self, x: Tensor, tracked: bool) -> Recipe:
        """The recipe for a view that the tape knows as such."""
        base, recording = root_of(x), x._base[1] is not NO_GRAD  # type: ignore[index]
        leaf = tracked and x._node is None
        if tracked and not leaf:
            if not (recording and base.requires_grad):
                base = _leaf_behind(x)
            recording = True  # views of a view made without gradients are marked as that is
        base = self._taken_of(x, base)
        _, before = self._then(base, x)
        with self.trace.reshapes.unpaired():  # its elements are not looked at
            number = self._recipe(base)
        return View(number, x._chain[len(before) :], recording, tracked, leaf)

    def _then(self, base: Tensor, x: Tensor) -> tuple[int, tuple[Any, ...]]:
        """After how many steps a view was taken of its base, and which chain that had then.

        A base from outside may come to show other memory, step by step.
        """
        if id(base) not in self.trace.rebound_ids:
            return 0, base._chain
        windows = [(0, *self._window_before(base))]
        for k, step in enumerate(self.trace.rebound):
            if step.shown is x:  # what a step shows was taken before it
                break
            if step.tensor is base and step.shown._base is None:  # else it is the base of no view
                windows.append((k + 1, step.shown._storage, step.shown._chain))
        identity = x._storage.identity
        fits = [
            (stage, chain)
            for stage, storage, chain in windows
            if storage.identity == identity and _begins(x, chain)
        ]
        if not fits:
            raise CaptureError(
                f"compile: {users_line()}: the function returns or keeps a view of a tensor from "
                "outside that shows other memory now. Return a clone() of the view."
            )
        return max(fits, key=lambda fit: len(fit[1]))

    def _window_before(self, tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
        """Storage and chain of a tensor from outside, as the call finds it."""
        if id(tensor) not in self.trace.rebound_ids:
            return tensor._storage, tensor._chain
        _, storage, chain = self.trace.journal[tensor][-1]
        return storage, chain

    def _taken_of(self, x: Tensor, base: Tensor) -> Tensor:
        """What the function took a view of: `base`, or a view of that from outside.

        An argument may be a view of another tensor in other calls.
        """
        if not self.trace.was_there(base):
            return base
        best, length = base, -1
        for given in self.outside.values():
            storage, chain = self._window_before(given)
            if storage is not x._storage or not self._is_of(given, base):
                continue
            if length < len(chain) and _begins(x, chain):
                best, length = given, len(chain)
        return best

    def _is_of(self, given: Tensor, base: Tensor) -> bool:
        """Whether a tensor from outside is a base, or was a view of it when the call began."""
        journal = self.trace.journal.get(given)
        viewed = given._base if journal is None else journal[3]
        while given is not base and viewed is not None:
            given = viewed[0]
            viewed = given._base
        return given is base

    def _root(self, key: Any, value: Value) -> int:
        """The number of the root for a storage."""
        self._alive.append(key)
        number = self._root_of.setdefault(id(key), len(self.roots))
        if number == len(self.roots):
            if value in self._shown:  # by other memory: `b.copy_(a)`, where both outlive the call
                (value,) = self.trace.graph.add_node(
                    CLONE, (value,), {"strides": "same"}, (value.spec,)
                )
            self._shown.add(value)
            inference = isinstance(key, Storage) and key.version < 0 and not CONTEXT.inference
            self.roots.append(Root(self.index(value), inference=inference))
        return number

    def _kinds(self) -> list[tuple[int, type, dict[str, Any]]]:
        """Results of subclasses of Tensor, and what the framework noted in them."""
        kinds = []
        for i, x in enumerate(self._described):
            if not is_tensor(x) or self.is_outside(x):
                continue
            noted = {name: value for name, value in x.__dict__.items() if is_plain(value)}
            if type(x) is not Tensor or noted:
                kinds.append((i, type(x), noted))
        return kinds

    def _late(self) -> list[list[int]]:
        """For each tensor that came to show other memory, the recipes that are made after it."""
        steps = self.trace.rebound
        late_recipes: list[list[int]] = [[] for _ in steps]
        stages = [0] * len(self.recipes)
        for i, (recipe, x) in enumerate(zip(self.recipes, self._described, strict=True)):
            if not isinstance(recipe, (View, PickedElement)):
                continue
            stages[i] = stages[recipe.base]
            if isinstance(recipe, View):
                stages[i] = max(stages[i], self._then(self._described[recipe.base], x)[0])
            if stages[i]:
                late_recipes[stages[i] - 1].append(i)
        return late_recipes

    def results(self, structure: TreeDef, leaves: list[int]) -> CallResults:
        """What a call gives back; `leaves` are the recipes of what the function returned."""
        own = [x for x in self.tensors() if x.retains_grad and id(x) not in self.positions]
        return CallResults(
            structure=structure,
            leaves=leaves,
            recipes=self.recipes,
            roots=self.roots,
            kinds=self._kinds(),
            late=self._late(),
            retained=[self.recipe(x) for x in own],
        )

    def finish(self) -> None:
        """Let one tensor be each root's own object: the first that is all of it."""
        taken: set[int] = set()
        for i, recipe in enumerate(self.recipes):
            if type(recipe) is Made and not recipe.chain and recipe.root not in taken:
                taken.add(recipe.root)
                root = self.roots[recipe.root]
                self.roots[recipe.root] = replace(root, seed=recipe.seed)
                self.recipes[i] = replace(recipe, itself=True, seed=None)


def _leaf_behind(view: Tensor) -> Tensor:
    """What a view takes its gradient to where its root wants none: a view of that, made a leaf.

    `base[:2].requires_grad_()` wants a gradient of its own; the tape leads there from views of it.
    """
    behind: Any = view._node  # nodes, and at last the leaf
    while behind is not None and not is_tensor(behind):
        edges = [edge for edge in behind.edges if edge is not None]
        behind = edges[0][0] if len(edges) == 1 else None
    if behind is None or behind._storage is not view._storage or not _begins(view, behind._chain):
        raise CaptureError(
            f"compile: {users_line()}: the function returns a view of a tensor whose gradient goes "
            "elsewhere than to that tensor. Return a clone() of the view."
        )
    return behind


def _begins(view: Tensor, chain: tuple[Any, ...]) -> bool:
    """Whether a view's chain goes on from another."""
    return len(chain) <= len(view._chain) and all(
        a is b for a, b in zip(chain, view._chain, strict=False)
    )
