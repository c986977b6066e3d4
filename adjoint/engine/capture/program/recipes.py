"""How a program's call makes the objects its function returned, from the graph's results.

Note [results]
    A tensor is a window on a storage of its own making or from outside (`Made`, `OutsideView`), or
    a view that the tape follows from another tensor (`View`), its base. Tensors that share a traced
    storage share memory in the results too: the storage's value comes back as one fresh root, and
    one tensor is the root itself. What is on the tape is a result of the program's one node (see
    `derivative`); views are made of their bases, recording on or off as the function had it, so
    that a later write through any of them is seen by the tape where eager execution sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.graph.record.sources import CallArgument, Source
from adjoint.engine.ops.shape.select import select
from adjoint.engine.ops.shape.views import apply_chain
from adjoint.engine.tensor.tensor import Tensor, alias, wrap


class OutsideTensor:
    """A tensor from outside the trace: an argument, by its position, or one that is always it."""

    __slots__ = ("position", "tensor")

    def __init__(self, position: int | None, tensor: Tensor | None) -> None:
        self.position = position
        self.tensor = tensor

    def of(self, leaves: Sequence[Any]) -> Any:
        """The tensor in a call with these arguments."""
        return self.tensor if self.position is None else leaves[self.position]


def tensor_on(source: Source, leaves: Sequence[Any]) -> Tensor:
    """A tensor on the memory of a source."""
    if isinstance(source, CallArgument) and not source.whole:
        return alias(leaves[source.position])
    tensor = wrap(source.array(leaves))
    tensor._storage = source.storage(leaves)
    return tensor


class Making:
    """A call that makes its results: arguments, roots, what is made so far, the tape."""

    __slots__ = ("leaves", "put_on_tape", "results", "roots")

    def __init__(
        self,
        leaves: Sequence[Any],
        roots: list[Tensor],
        put_on_tape: Callable[[Tensor, int], None],
    ) -> None:
        self.leaves = leaves
        self.roots = roots
        self.results: list[Any] = []
        self.put_on_tape = put_on_tape  # a tensor, as a result of the program's node


@dataclass(frozen=True, slots=True)
class Root:
    """A fresh tensor: an output of the graph, with its place on the tape."""

    output: int
    seed: int | None = None  # which result of the program's node it is
    strides: tuple[int, ...] | None = None  # where they are known not to be row-major
    inference: bool = False  # made in inference mode, by a function that is called outside of it


@dataclass(frozen=True, slots=True)
class Constant:
    """A result that is the same object at each call."""

    value: Any

    def make(self, call: Making) -> Any:
        return self.value.get() if isinstance(self.value, HostScalar) else self.value


@dataclass(frozen=True, slots=True)
class ReturnedArgument:
    """An argument handed back."""

    position: int

    def make(self, call: Making) -> Any:
        return call.leaves[self.position]


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient that a tensor has when the call begins."""

    holder: OutsideTensor

    def make(self, call: Making) -> Any:
        return self.holder.of(call.leaves)._grad_meta.grad


@dataclass(frozen=True, slots=True)
class OutsideView:
    """A window on storage from outside that is no view to the tape: `detach()`, `.data`."""

    source: Source
    chain: tuple[Any, ...]
    leaf: bool  # wants a gradient of its own: `requires_grad_()` in the function
    seed: int | None = None  # which result of the program's node it is, if it was put on the tape

    def make(self, call: Making) -> Any:
        base = tensor_on(self.source, call.leaves)
        return _on_its_own(base, self.chain, self.leaf, self.seed, call)


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor the program computes: one of the roots, or a window on it."""

    root: int
    chain: tuple[Any, ...]
    seed: int | None = None
    leaf: bool = False
    itself: bool = False  # the root, not an alias of it

    def make(self, call: Making) -> Any:
        root = call.roots[self.root]
        if self.itself:
            root._requires_grad = root._requires_grad or self.leaf
            return root
        return _on_its_own(alias(root), self.chain, self.leaf, self.seed, call)


def _on_its_own(
    base: Tensor, chain: tuple[Any, ...], leaf: bool, seed: int | None, call: Making
) -> Tensor:
    """What a chain of views shows, as a tensor that is a view of none."""
    out = base
    if chain:
        with CONTEXT.having(grad_enabled=False):
            out = apply_chain(base, chain)
    out._base = None
    out._requires_grad = leaf
    if seed is not None:
        call.put_on_tape(out, seed)
    return out


@dataclass(frozen=True, slots=True)
class View:
    """A view of another tensor, which the tape knows as such."""

    base: int  # the number of its recipe
    chain: tuple[Any, ...]
    recording: bool  # whether it was made with gradients on
    tracked: bool
    leaf: bool = False

    def make(self, call: Making) -> Any:
        base = call.results[self.base]
        if CONTEXT.grad_enabled is self.recording:
            out = apply_chain(base, self.chain)
        else:
            with CONTEXT.having(grad_enabled=self.recording):
                out = apply_chain(base, self.chain)
        if self.leaf or not self.tracked:
            out._node, out._nr, out._requires_grad = None, 0, self.leaf
        return out


@dataclass(frozen=True, slots=True)
class PickedElement:
    """A view at an index that the program computes: `x[i]` with a 0-d tensor i."""

    base: int  # the number of its recipe
    index: int  # the root that holds it
    dim: int
    chain: tuple[Any, ...]
    tracked: bool

    def make(self, call: Making) -> Any:
        base = call.results[self.base]
        with CONTEXT.having(grad_enabled=CONTEXT.grad_enabled and self.tracked):
            place = int(call.roots[self.index])
            return apply_chain(select(base, self.dim, place), self.chain)


Recipe = Constant | ReturnedArgument | Gradient | OutsideView | Made | View | PickedElement


@dataclass(frozen=True, slots=True)
class CallResults:
    """What a program's call gives back."""

    structure: TreeDef
    leaves: list[int]  # which recipe makes each leaf of what is returned
    recipes: list[Recipe]
    roots: list[Root]
    kinds: list[tuple[int, type, dict[str, Any]]]  # results of subclasses, with attributes
    late: list[list[int]]  # per tensor that shows other memory, the recipes that are made after it
    retained: list[int]  # results that keep the gradients that arrive at them
