"""Nodes of the tape: what backward needs of one operation."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.autodiff.tape.saved import Packed, Unpacked, freed, stale
from adjoint.engine.core.device import CPU
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import DTYPE_OF, ONLY_DEVICE, Tensor, alias, meta_of
from adjoint.engine.tensor.writing.mutation import payload

_new_tuple = tuple.__new__
SEQUENCE = itertools.count(1)
Edge = tuple[Any, int]  # (a BackwardNode, which of its results) or (a leaf Tensor, 0)


class Extra:
    """What few nodes have: hooks, the place of the forward call, the user's metadata."""

    __slots__ = ("hooks", "metadata", "node_prehooks", "tensor_hooks", "trace", "where")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[..., Any]] = {}  # after the node
        self.node_prehooks: dict[int, Callable[..., Any]] = {}  # before it, on all cotangents
        self.tensor_hooks: dict[int, Any] = {}  # by result: tensor hooks and retained gradients
        self.trace: str | None = None  # anomaly mode: where the forward operation was called
        self.where: Any = None  # the same as a `Where`
        self.metadata: dict[Any, Any] = {}


class BackwardNode:
    """One recorded operation. Subclasses say how cotangents of results become operands'."""

    __slots__ = ("__weakref__", "edges", "extra", "outputs", "sequence")
    edges: Sequence[Edge | None]  # one per operand
    outputs: int  # how many results it has
    sequence: int
    extra: Extra | None
    is_written_by_users = False  # whether `apply` calls code of theirs
    fills_zeros = False  # whether it is that of a record which does
    keeps_saved_alone = False  # whether what it forgets in the end is `saved`, and no more
    is_write = False  # whether it is that of a write through a view
    # Whether operands that get no cotangent were not led to at all: Note [rules on the tape].
    leads_by_results = False

    def __init__(self, edges: Sequence[Edge | None], outputs: int) -> None:
        self.edges = edges
        self.outputs = outputs
        self.sequence = next(SEQUENCE)
        self.extra = None

    def name(self) -> str:
        """The operation, as PyTorch spells it."""
        return type(self).__name__

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        """Cotangents of the operands, None where not `needed` (None: all) or structurally zero."""
        raise NotImplementedError

    def release(self) -> None:
        """Forget what was saved."""

    @property
    def repeatable(self) -> bool:
        """Whether every backward does the same here: nothing is saved, nobody looks on."""
        return False

    def kept(self) -> Any:
        """What a backward may take from the node or change in it."""
        return None

    def put(self, saved: Any) -> None:
        """Have the node as it was, or came to be, when `saved` was taken."""

    def make_extra(self) -> Extra:
        """The node's extras, made on first use."""
        if self.extra is None:
            self.extra = Extra()
        return self.extra

    def route_through(self, tensor: Tensor) -> None:
        """Have the gradient of a result pass the result's own place: somebody looks at it there."""

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes this one passes gradients to."""
        return tuple(
            (None, 0) if e is None else (accumulator_of(e[0]), 0) if is_tensor(e[0]) else e
            for e in self.edges
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for whatever the user wants to keep with the node."""
        return self.make_extra().metadata

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_inputs, grad_outputs)` after this node runs in backward."""
        from adjoint.engine.autodiff.tape.hooks import Handle

        return Handle(self.make_extra().hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_outputs)` before this node runs in backward."""
        from adjoint.engine.autodiff.tape.hooks import Handle

        return Handle(self.make_extra().node_prehooks, fn)

    def _sequence_nr(self) -> int:
        return self.sequence

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class AccumulateGrad(BackwardNode):
    """Stands for a leaf in `next_functions`; its hooks run when the leaf's gradient arrives."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        super().__init__((), 1)
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"


def accumulator_of(leaf: Tensor) -> AccumulateGrad:
    """The node that stands for a leaf: the same one as long as somebody holds it or its hooks."""
    meta = meta_of(leaf)
    node = meta.accumulator() if meta.accumulator is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        node.extra = meta.leaf_extra = meta.leaf_extra or Extra()
        meta.accumulator = weakref.ref(node)
    return node


class TapeNode(BackwardNode):
    """A node that keeps tensors, each with the version it had."""

    __slots__ = ("saved", "versions")
    # Tensors (or whatever an operand was), a list where there are any; None once released.
    saved: list[Any] | tuple[()] | None
    versions: Sequence[int]

    def load(self, k: int, level: Any, output: int | None) -> Any:
        """The k-th saved value, provided nobody has written to it since.

        An output was kept off the tape, else the node and its result would hold each other; here
        it is put back. On behalf of a transform's tape (`level`), payloads are what is wanted.
        """
        tensor = self.saved[k]  # type: ignore[index]
        if not is_tensor(tensor):
            if tensor.__class__ is Unpacked:
                return tensor.value
            if tensor.__class__ is not Packed:
                return tensor
            edge, tensor = tensor.edge, tensor.load()
            if output is None and edge is not None:
                return placed(tensor, edge)
        elif tensor._storage.version != self.versions[k]:
            raise stale(tensor, self.versions[k], self.name())
        if level is not None:
            if tensor._storage.level is level:
                return payload(tensor)
            return tensor
        if output is None or not CONTEXT.grad_enabled or not tensor.dtype.is_inexact:
            return tensor
        tensor = alias(tensor)
        tensor._node, tensor._nr, tensor._requires_grad = self, output, True
        return tensor

    def require_saved(self) -> None:
        """Refuse to run again after the saved values were freed."""
        if self.saved is None:
            raise freed(self.name())

    def release(self) -> None:
        self.saved = None

    def kept(self) -> Any:
        return self.saved

    def put(self, saved: Any) -> None:
        self.saved = saved


class ConstantNode(BackwardNode):
    """A tracked tensor overwritten by a constant: what it was has a gradient of zero."""

    __slots__ = ()

    def name(self) -> str:
        return "CopyBackwards"

    @property
    def repeatable(self) -> bool:
        return self.extra is None

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        if grads[0] is None or (needed is not None and not needed[0]):
            return (None,)
        return (grads[0].new_zeros(grads[0].shape),)


class IdentityNode(BackwardNode):
    """Passes a cotangent on as it is."""

    __slots__ = ()

    def name(self) -> str:
        return "AliasBackward0"

    @property
    def repeatable(self) -> bool:
        return self.extra is None

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        return (grads[0],)


class ErrorNode(BackwardNode):
    """Refuses to be differentiated, with the reason; `called` as the node it stands for was."""

    __slots__ = ("called", "message")

    def __init__(self, message: str, edges: Sequence[Edge | None], called: str = "Error") -> None:
        super().__init__(edges, 1)
        self.message = message
        self.called = called

    def name(self) -> str:
        return self.called

    def __repr__(self) -> str:
        return f"<{self.called} object at {id(self):#x}>"

    def fresh(self) -> ErrorNode:
        """A node like this without hooks: itself, unless somebody registered some."""
        return self if self.extra is None else ErrorNode(self.message, (), self.called)

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        raise RuntimeError(self.message)


def edge_of(x: Any) -> Edge | None:
    """Where the gradient of an operand goes."""
    if not is_tensor(x) or not x.requires_grad:
        return None
    return (x, 0) if x._node is None else (x._node, x._nr)


def placed(tensor: Tensor, edge: Edge) -> Tensor:
    """A copy of the window whose gradient goes along `edge`."""
    out = alias(tensor)
    target, nr = edge
    if is_tensor(target):
        target, nr = IdentityNode((edge,), 1), 0
    out._node, out._nr, out._requires_grad = target, nr, True
    return out


def attach_constant(target: Tensor, before: Tensor) -> None:
    """A tracked tensor now holds a constant; it stays tracked, and what was `before` gets zeros."""
    target._node, target._nr = ConstantNode((edge_of(before),), 1), 0


def sequence_now() -> int:
    """A number larger than that of every node so far."""
    return next(SEQUENCE)


# Specs of operands, each tuple once: most steps ask for the same, and nodes keep them.
SHARED_SPECS: dict[tuple[Spec | None, ...], tuple[Spec | None, ...]] = {}
SHARED_AT_MOST = 4096  # of them; then they are forgotten


def specs_of(operands: tuple[Any, ...]) -> tuple[Spec | None, ...]:
    """Operands' specs; None for what is no tensor."""
    specs: list[Any] = []
    known = True  # a symbol is not asked for its hash
    for x in operands:
        if isinstance(x, TensorBase):
            array = x._array
            if array.__class__ is ndarray:  # as `_spec` has it, inline
                specs.append(_new_tuple(Spec, (array.shape, DTYPE_OF[array.dtype], CPU)))
            elif (only := ONLY_DEVICE.get(array.__class__)) is not None:
                specs.append(_new_tuple(Spec, (tuple(array.shape), DTYPE_OF[array.dtype], only)))
            else:
                specs.append(x._spec)  # type: ignore[attr-defined]
                known = False
        else:
            specs.append(None)
    made = tuple(specs)
    if not known:
        return made
    shared = SHARED_SPECS.get(made)
    if shared is not None:
        return shared
    if len(SHARED_SPECS) >= SHARED_AT_MOST:
        SHARED_SPECS.clear()
    SHARED_SPECS[made] = made
    return made
