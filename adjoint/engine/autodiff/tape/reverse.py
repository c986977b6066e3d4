"""backward and grad: asking the tape for gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.jvp_level import JvpLevel
from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.autodiff.tape.accumulate import claim
from adjoint.engine.autodiff.tape.dual_gradients import dual_gradients, dual_level_of
from adjoint.engine.autodiff.tape.engine import Backward
from adjoint.engine.autodiff.tape.kinks import zeros_behind
from adjoint.engine.autodiff.tape.node import (
    AccumulateGrad,
    Edge,
    accumulator_of,
    attach_constant,
    edge_of,
    sequence_now,
)
from adjoint.engine.autodiff.tape.packing import keep_overwritten, pack_saved
from adjoint.engine.autodiff.tape.tape import attach
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, dispatch, overriding
from adjoint.engine.core.operations.public import method
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import payload

HOOKS.attach = attach
HOOKS.attach_constant = attach_constant
HOOKS.keep_overwritten = keep_overwritten
HOOKS.pack_saved = pack_saved
HOOKS.sequence_now = sequence_now


def listed(x: Any) -> list[Any]:
    """One tensor or a sequence of them, as a list."""
    return [x] if x is None or is_tensor(x) or isinstance(x, GradientEdge) else list(x)


class GradientEdge(NamedTuple):
    """A place on the tape: a node and which of its results."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor arrives."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node = tensor.grad_fn
    return GradientEdge(accumulator_of(tensor) if node is None else node, tensor.output_nr)


def innermost_edge(x: Any) -> Edge | None:
    """The tape's edge of a tensor or GradientEdge; of a dual, its primal's."""
    if isinstance(x, GradientEdge):
        return (x.node.variable, 0) if isinstance(x.node, AccumulateGrad) else tuple(x)
    while is_tensor(x) and isinstance(x._storage.level, JvpLevel):
        x = payload(x).primal
    if is_tensor(x) and x.layout is not strided:
        x = x._elements  # a sparse tensor is where its elements are
    return edge_of(x)


# Of classes whose tensors are more than their elements: what makes a gradient one of them.
SHOWN_AS: dict[type[Any], Callable[[Any, Any], Any]] = {}


def gradient_of(x: Any, grad: Any) -> Any:
    """What arrived at a tensor's place as its gradient: that of a sparse tensor is sparse."""
    if grad is None or not is_tensor(x):
        return grad
    if SHOWN_AS and x.__class__ in SHOWN_AS:
        return SHOWN_AS[x.__class__](x, grad)
    if x.layout is strided:
        return grad
    return x.as_gradient(grad)


def level_of(x: Any) -> Any:
    """The transform a tensor belongs to, if any."""
    return x._storage.level if is_tensor(x) else None


def _seed(i: int, tensor: Any, grad: Any) -> Any:
    """The cotangent a root starts with."""
    if isinstance(tensor, GradientEdge):
        if grad is None:
            raise RuntimeError(f"a gradient must be given for output {i}, a GradientEdge")
        return claim(grad)
    if grad is None:
        if tensor._array.size != 1:
            raise ShapeError(
                "grad can be implicitly created only for scalar outputs; this one has shape "
                f"{tuple(tensor.shape)}. Pass `gradient`, or reduce it first."
            )
        if not tensor.dtype.is_floating_point:
            raise DTypeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{tensor.dtype.name}"
            )
        if CONTEXT.autocast is None:
            return tensor.new_ones(tensor.shape)
        with CONTEXT.having(autocast=None):  # which casts nothing here, and would be in the way
            return tensor.new_ones(tensor.shape)
    return fitting(i, tensor, grad)


def fitting(i: int, tensor: Any, grad: Any) -> Any:
    """The cotangent given for a root, in its dtype; refused where it does not fit."""
    if not is_tensor(grad):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    if grad.shape != tensor.shape:
        raise ShapeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {tuple(grad.shape)} and "
            f"output[{i}] has a shape of {tuple(tensor.shape)}."
        )
    if grad.dtype.is_complex != tensor.dtype.is_complex:
        raise DTypeError(
            "For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {grad.dtype.name} and "
            f"output[{i}] has a dtype of {tensor.dtype.name}."
        )
    if tensor.is_nested and grad.is_nested:
        grad = grad._elements  # those of a nested tensor are on the tape, not it
    return claim(grad) if grad.dtype is tensor.dtype else grad.to(tensor.dtype)


def _roots(tensors: list[Any], grads: list[Any]) -> list[tuple[Edge, Any]]:
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    roots: list[tuple[Edge, Any]] = []
    for i, (tensor, grad) in enumerate(zip(tensors, grads, strict=True)):
        edge = innermost_edge(tensor)
        if edge is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn. "
                "Nothing that it was computed from requires grad, or the way there leads through "
                "no_grad, detach, item or an operation without a derivative, such as argmax."
            )
        roots.append((edge, _seed(i, tensor, grad)))
    return roots


def _inputs(given: Any, name: str) -> list[Any]:
    """What to differentiate with respect to: a tensor or edge, several, or a dict of them."""
    if type(given) in (dict, TrackedDict):
        return list(given.values())
    if isinstance(given, Mapping):
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {type(given).__name__}. Other "
            "Mapping types are not supported."
        )
    return listed(given)


def _taken_over(function: Any, of: Any, by: Any, cotangents: Any, **options: Any) -> Any:
    """What tensors of classes with a `__torch_function__` make of a derivative; else `PASS`.

    As in PyTorch the cotangents' classes have no say.
    """
    given = [_several(of), () if by is None else _several(by)]
    asked = overriding((*given[0], *given[1]), {})
    if all(module_of(type(x)).startswith("adjoint.") for x in asked):  # whose rules are ours
        return PASS
    OVERRIDES.enlist()
    if function is grad:
        return dispatch(grad, tuple(given), {"grad_outputs": cotangents, **options})
    inputs = None if by is None else given[1]
    return dispatch(
        backward, (given[0],), {"grad_tensors": cotangents, **options, "inputs": inputs}
    )


def _several(given: Any) -> tuple[Any, ...]:
    """What is differentiated, or by what, one by one."""
    if isinstance(given, Mapping):
        return tuple(given.values())
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def _edge_of(given: Any) -> Edge:
    """Where a tensor or edge that is differentiated by stands on the tape."""
    edge = innermost_edge(given)
    if edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edge


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` in the leaves' `.grad`.

    Args:
        tensors: what is differentiated.
        grad_tensors: the gradients with respect to these; of a single element, 1 unless given.
        retain_graph: whether the graph is kept for another backward, `create_graph` unless given.
        create_graph: whether the gradients are on a graph themselves.
        grad_variables: PyTorch's old name for `grad_tensors`.
        inputs: the tensors whose gradients are accumulated, all leaves unless given.
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    options: dict[str, Any] = {"retain_graph": retain_graph, "create_graph": create_graph}
    taken = _taken_over(backward, tensors, inputs, grad_tensors, **options)
    if taken is not PASS:
        return
    roots = listed(tensors)
    if CONTEXT.levels and any(isinstance(level_of(t), (GradLevel, VmapLevel)) for t in roots):
        raise RuntimeError(
            "backward() called inside a function transform. This is not supported: use func.grad "
            "or func.vjp instead, or call backward() outside of the transform."
        )
    grads = [None] * len(roots) if grad_tensors is None else listed(grad_tensors)
    targets = None
    if inputs is not None:
        chosen = _inputs(inputs, "backward")
        if not chosen:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        targets = []
        for t in chosen:
            targets.append(_edge_of(t))
            if is_tensor(t):
                t.retain_grad()  # what is no leaf keeps its gradient too
    run = Backward(
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=targets,
        accumulate=True,
        level=None,
    )
    _carry_out(run, roots, grads, create_graph)


@method(name="backward")
def backward_method(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor in the leaves' `.grad`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, returned rather than accumulated.

    A tuple; of a dict of inputs, a dict.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> ad.autograd.grad(x * x, x)
    (tensor(6.),)
    >>> ad.autograd.grad(x * x, {"x": x})
    {'x': tensor(6.)}
    """
    options: dict[str, Any] = {
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "only_inputs": only_inputs,
        "allow_unused": allow_unused,
        "is_grads_batched": is_grads_batched,
        "materialize_grads": materialize_grads,
    }
    taken = _taken_over(grad, outputs, inputs, grad_outputs, **options)
    if taken is not PASS:
        return dict(zip(inputs, taken, strict=True)) if isinstance(inputs, Mapping) else taken
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    roots = listed(outputs)
    chosen = _inputs(inputs, "grad")
    if not chosen:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = [None] * len(roots) if grad_outputs is None else listed(grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    dual = dual_level_of([*roots, *grads]) if CONTEXT.levels else None
    if dual is None:
        results = _gradients(roots, chosen, grads, retain, create_graph, is_grads_batched)
    elif is_grads_batched:
        raise RuntimeError("grad: is_grads_batched is not supported for dual tensors")
    else:
        results = dual_gradients(grad, dual, roots, chosen, grads, retain, create_graph)
    if materialize_grads:
        results = [
            t.new_zeros(t.shape, requires_grad=create_graph) if g is None else g
            for t, g in zip(chosen, results, strict=True)
        ]
    elif not allow_unused:
        _refuse_unused(results)
    if isinstance(inputs, Mapping):
        return dict(zip(inputs, results, strict=True))
    return tuple(results)


def _gradients(
    roots: list[Any],
    chosen: list[Any],
    grads: list[Any],
    retain_graph: bool,
    create_graph: bool,
    batched: bool,
) -> list[Any]:
    """What one run backwards leaves at each chosen place."""
    edges: list[Edge] = []
    for t in chosen:
        if is_tensor(t) and t.grad_fn is not None:
            t.grad_fn.route_through(t)
        edges.append(_edge_of(t))
    run = Backward(
        retain_graph=retain_graph,
        create_graph=create_graph,
        targets=edges,
        accumulate=False,
        level=None,
    )
    pull = _run_batched if batched else _run
    pulled = pull(run, roots, grads, chosen, edges, create_graph)
    return [_writable(gradient_of(t, g)) for t, g in zip(chosen, pulled, strict=True)]


def _writable(grad: Any) -> Any:
    """A gradient handed out is the caller's to write to: none whose elements share their places."""
    if not is_tensor(grad) or grad.layout is not strided or 0 not in grad._array.strides:
        return grad
    steps = zip(grad._array.strides, grad._array.shape, strict=True)
    return grad.contiguous() if any(step == 0 and n > 1 for step, n in steps) else grad


def _refuse_unused(gradients: list[Any]) -> None:
    """Raise where something was differentiated by that the outputs do not depend on."""
    unused = next((i for i, g in enumerate(gradients) if g is None), None)
    if unused is not None:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )


def _carry_out(run: Backward, roots: list[Any], grads: list[Any], create_graph: bool) -> None:
    """Run it, and leave grad mode as it was.

    Not by `with`: a KeyboardInterrupt may come where its end is entered, before anything is done.
    """
    before = CONTEXT.grad_enabled
    try:
        CONTEXT.grad_enabled = create_graph
        run.run(_roots(roots, grads))
    finally:
        CONTEXT.grad_enabled = before


def _pulled(run: Backward, chosen: list[Any], edges: list[Edge], create_graph: bool) -> list[Any]:
    """What arrived at each place; zeros behind a kink (Note [kinks]), None where nothing did."""
    pulled: list[Any] = []
    for t, e in zip(chosen, edges, strict=True):
        grad = run.gradients.get(e)
        if e not in run.gradients and e in run.zeros and is_tensor(t) and t.layout is strided:
            grad = zeros_behind(t, e, run.zeros[e] and create_graph)
        pulled.append(grad)
    return pulled


def _run(
    run: Backward,
    roots: list[Any],
    grads: list[Any],
    chosen: list[Any],
    edges: list[Edge],
    create_graph: bool,
) -> list[Any]:
    _carry_out(run, roots, grads, create_graph)
    return _pulled(run, chosen, edges, create_graph)


def _run_batched(
    run: Backward,
    roots: list[Any],
    grads: list[Any],
    chosen: list[Any],
    edges: list[Edge],
    create_graph: bool,
) -> list[Any]:
    """`grads` have one more dimension in front: a batch of cotangents, pulled back at once."""
    sizes = {g.shape[0] for g in grads if g is not None}
    if len(sizes) != 1:
        raise ShapeError(
            "grad: with is_grads_batched every grad_output needs the same first dimension, "
            f"received sizes {sorted(sizes)}"
        )
    with entered(VmapLevel(next_depth(), sizes.pop(), "error"), grad_enabled=create_graph) as level:
        wrapped = [None if g is None else level.wrap_payload(g) for g in grads]
        run.run(_roots(roots, wrapped))
        pulled = _pulled(run, chosen, edges, create_graph)
        return [
            g if g is None else payload(g) if g._storage.level is level else level.lift(g)
            for g in pulled
        ]
