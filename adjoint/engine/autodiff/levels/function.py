"""Custom operations: `autograd.Function` and its context."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adjoint.engine.autodiff.tape.accumulate import claim
from adjoint.engine.autodiff.tape.node import Edge, ErrorNode, TapeNode, edge_of
from adjoint.engine.autodiff.tape.saved import Packed, refuse_inference
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import fit
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor, alias
from adjoint.engine.tensor.writing.mutation import alias_on_tape, rebase


class FunctionCtx:
    """What `forward` leaves for `backward`: saved tensors, flags, any attribute."""

    # Names of our own are private: every other name is the user's.
    __slots__ = (
        "__dict__", "_dirty", "_fixed", "_level", "_materialize", "_node", "_silent", "_to_save",
        "needs_input_grad",
    )  # fmt: skip

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Any, ...] = ()
        self._fixed: tuple[Any, ...] | None = None  # saved tensors given outright
        self._dirty: tuple[Any, ...] = ()
        self._silent: tuple[Any, ...] = ()  # outputs without gradient
        self._materialize = True
        self._level: Any = None
        self._node: weakref.ref[FunctionNode] | None = None  # weak: the node holds the context

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs or outputs (or None) for `backward`, checked for writes since."""
        for i, t in enumerate(tensors):
            if t is not None and not is_tensor(t):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep inputs or outputs (or None) for `jvp`."""
        if not self._to_save:
            self.save_for_backward(*tensors)

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs `forward` wrote to; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs carry no gradient."""
        self._silent = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros rather than None for outputs that were not used."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, checked for writes since."""
        if self._fixed is not None:
            return self._fixed
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        node.require_saved()
        saved = node.saved or ()
        return tuple(node.load(k, self._level, node.results.get(k)) for k in range(len(saved)))

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`."""
        return self.saved_tensors


class FunctionNode(TapeNode):
    """A custom function on the tape."""

    __slots__ = ("ctx", "function", "in_specs", "out_specs", "results")
    is_written_by_users = True
    versions: list[int]

    def __init__(
        self, function: type[Function], ctx: FunctionCtx, edges: list[Edge | None]
    ) -> None:
        super().__init__(edges, 0)
        self.function = function
        self.ctx = ctx
        self.in_specs: list[Spec | None] = []
        self.out_specs: list[Spec | None] = []
        self.results: dict[int, int] = {}  # saved values that are results, and which
        self.saved = None
        self.versions = []
        ctx._node = weakref.ref(self)

    def __getattr__(self, name: str) -> Any:
        """The context's attributes, as in PyTorch, where the context is the node."""
        return getattr(object.__getattribute__(self, "ctx"), name)

    def keep(self, tensors: Sequence[Any], args: Sequence[Any], outs: Sequence[Any]) -> None:
        """Save tensors, those among the results off the tape."""
        self.saved = []
        for k, t in enumerate(tensors):
            if t is None:
                self.saved.append(None)
                self.versions.append(0)
                continue
            place = position(outs, t) if position(args, t) is None else None
            if place is not None and t._node is self:
                self.results[k] = place
            if t._storage.version < 0:
                raise refuse_inference()
            saved: Any = alias(t) if place is not None else t
            self.versions.append(t._storage.version)
            if CONTEXT.saved_hooks and not CONTEXT.levels:
                saved = Packed(t, edge_of(t) if place is None else None)
            self.saved.append(saved)

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        if needed is not None:
            self.ctx.needs_input_grad = tuple(needed)
        given = list(grads)
        if self.ctx._materialize:
            given = [
                zeros(s.shape, dtype=s.dtype, device=s.device) if g is None and s is not None else g
                for g, s in zip(given, self.out_specs, strict=True)
            ]
        # Inside a transform, `autograd.grad` goes along the same nodes as the transform itself, on
        # the level's tensors rather than those below: what was saved is as this run wants it.
        ctx, made_at = self.ctx, self.ctx._level
        ctx._level = level
        try:
            pulled = self.function.pull_back(ctx, *given)
        finally:
            ctx._level = made_at
        return self.checked(pulled if isinstance(pulled, (tuple, list)) else (pulled,))

    def checked(self, pulled: Sequence[Any]) -> list[Any]:
        """Gradients as the inputs want them, or an error that says what is wrong with them."""
        name, count = self.name(), len(self.in_specs)
        results = list(pulled)
        while len(results) > count and results[-1] is None:
            results.pop()
        if len(results) != count:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, "
                f"got {len(results)})"
            )
        for i, (g, spec) in enumerate(zip(results, self.in_specs, strict=True)):
            if g is None:
                continue
            if not is_tensor(g):
                raise TypeError(
                    f"expected Variable or None (got {type(g).__name__}) from {name} at index {i}"
                )
            if spec is None:
                raise RuntimeError(
                    f"function {name} returned a gradient different from None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
            if self.edges[i] is None:  # nobody asked for it
                results[i] = None
                continue
            if not sums_to(g.shape, spec.shape):
                raise ShapeError(
                    f"Function {name} returned an invalid gradient at index {i} - got "
                    f"{list(g.shape)} but expected shape compatible with {list(spec.shape)}"
                )
            # Who wrote the function may have it elsewhere too.
            results[i] = claim(fit(g, spec)) if spec.dtype.is_inexact else None
        return results


def sums_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a gradient of `shape` can be summed to `target`."""
    lead = len(shape) - len(target)
    return lead >= 0 and all(t in (s, 1) for s, t in zip(tuple(shape)[lead:], target, strict=True))


def position(values: Sequence[Any], value: Any) -> int | None:
    """The index of a tensor among values, by identity."""
    return next((i for i, v in enumerate(values) if v is value and is_tensor(v)), None)


class NotedOnContext(NamedTuple):
    """What forward told its context, in the values it was given and returned."""

    attributes: dict[str, Any]
    materialize: bool
    to_save: tuple[Any, ...]
    dirty: tuple[Any, ...]
    non_differentiable: tuple[Any, ...]


class VmapInfo(NamedTuple):
    """What a custom `vmap` is told."""

    batch_size: int
    randomness: str


class Function:
    """An operation with its own derivative.

    >>> import adjoint as ad
    >>> class Double(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = ad.tensor([1.0], requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are "
            "all static, so call them on the class: use .apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: `forward(ctx, *args)`, or `forward(*args)` with `setup_context`."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what `backward` needs, where `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: VmapInfo, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The result on batched arguments, with the dimension the batch ends up in."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Perform the operation."""
        if CONTEXT.capture is not None and CONTEXT.capture.closes:
            return CONTEXT.capture.custom(cls.__name__, lambda: cls._perform(args))
        return cls._perform(args)

    @classmethod
    def _perform(cls, args: tuple[Any, ...]) -> Any:
        if CONTEXT.levels:
            return HOOKS.call_at_levels(cls, args, (False,) * len(args))[0]
        return run_forward(cls, args, (False,) * len(args))[0]

    @classmethod
    def has_setup(cls) -> bool:
        """Whether forward and setup_context are apart."""
        return cls.setup_context is not Function.setup_context

    @classmethod
    def pull_back(cls, ctx: Any, *grads: Any) -> Any:
        """`backward`, under whichever of its names it was written."""
        overridden = cls.backward is not Function.backward
        return (cls.backward if overridden else cls.vjp)(ctx, *grads)


_node_classes: dict[type, type[FunctionNode]] = {}


def node_class_of(cls: type[Function]) -> type[FunctionNode]:
    """The node class named after a function."""
    node_class = _node_classes.get(cls)
    if node_class is None:
        node_class = _node_classes[cls] = type(
            f"{cls.__name__}Backward", (FunctionNode,), {"__slots__": (), "__module__": __name__}
        )
    return node_class


def as_tuple(out: Any) -> tuple[Any, ...]:
    """Several results, or one."""
    return out if isinstance(out, tuple) else (out,)


def run_forward(
    cls: type[Function], args: tuple[Any, ...], needs: tuple[bool, ...]
) -> tuple[Any, NotedOnContext]:
    """Forward on plain values, recorded as one node. `needs`: inputs tracked further up."""
    recording = CONTEXT.grad_enabled and not CONTEXT.inference
    edges = [edge_of(a) if recording else None for a in args]
    ctx = FunctionCtx(tuple(e is not None or n for e, n in zip(edges, needs, strict=True)))
    befores = {id(a): alias_on_tape(a) for a in args if is_tensor(a) and a._base is not None}
    with CONTEXT.having(grad_enabled=False):
        if cls.has_setup():
            out = cls.forward(*args)
            cls.setup_context(ctx, args, out)
        else:
            out = cls.forward(ctx, *args)
    outs = as_tuple(out)
    for t in ctx._dirty:
        if position(outs, t) is None:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
    outs, noted = attach_function(cls, ctx, args, outs, edges, befores)
    return (outs if isinstance(out, tuple) else outs[0]), noted


def attach_function(
    cls: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    outs: tuple[Any, ...],
    edges: list[Edge | None],
    befores: dict[int, Tensor],
) -> tuple[tuple[Any, ...], NotedOnContext]:
    """Make the results of a function its node's, if any input's gradient is wanted."""
    dirty, silent, saved = ctx._dirty, ctx._silent, ctx._to_save
    if not any(edges):
        return outs, NotedOnContext(ctx.__dict__, ctx._materialize, saved, dirty, silent)
    ctx._dirty = ctx._silent = ctx._to_save = ()  # results among them would hold their own node
    node = node_class_of(cls)(cls, ctx, edges)
    node.outputs = len(outs)
    node.in_specs = [a._spec if is_tensor(a) else None for a in args]
    node.out_specs = [o._spec if is_tensor(o) else None for o in outs]
    if CONTEXT.anomaly:
        from adjoint.engine.autodiff.tape.anomaly import call_site

        node.make_extra().trace = call_site()
    placed = []
    for nr, out in enumerate(outs):
        if not is_tensor(out):
            placed.append(out)
            continue
        written = position(dirty, out) is not None
        given = position(args, out) is not None or out._node is not None
        shown = alias(out) if given and not written else out
        if position(silent, out) is None and out.dtype.is_inexact:
            _place(node, nr, shown, befores, written=written)
        placed.append(shown)
    saved, silent = (_moved(ts, outs, placed, args) for ts in (saved, silent))
    node.keep(saved, args, placed)
    return tuple(placed), NotedOnContext(ctx.__dict__, ctx._materialize, saved, dirty, silent)


def _place(
    node: FunctionNode, nr: int, out: Tensor, befores: dict[int, Tensor], *, written: bool
) -> None:
    """Put one result on the tape."""
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(out)
    if written and id(out) in befores:  # a view was written to: its base gets the new history
        value = alias(out)
        value._node, value._nr, value._requires_grad = node, nr, True
        rebase(out, value, befores[id(out)])
        return
    if written and out._requires_grad and out._node is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    out._node, out._nr, out._requires_grad = node, nr, True


def _moved(
    tensors: Sequence[Any], old: Sequence[Any], new: Sequence[Any], args: Sequence[Any]
) -> tuple[Any, ...]:
    """Tensors, those among the old results replaced by the new ones."""
    moved = []
    for t in tensors:
        place = position(old, t) if position(args, t) is None else None
        moved.append(t if place is None else new[place])
    return tuple(moved)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` that must not itself be differentiated."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with CONTEXT.having(grad_enabled=False):
            pulled = fn(ctx, *grads)
        tracked = [edge_of(g) for g in grads] if CONTEXT.grad_enabled else []
        if not any(tracked):
            return pulled
        refuse = ErrorNode(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            [e for e in tracked if e is not None],
        )

        def guard(g: Any) -> Any:
            if not is_tensor(g):
                return g
            out = alias(g)
            out._node, out._nr, out._requires_grad = refuse, 0, True
            return out

        return tuple(map(guard, pulled)) if isinstance(pulled, tuple) else guard(pulled)

    return wrapped
