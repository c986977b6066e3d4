"""The derivative of an operation of one's own, as `register_autograd` states it.

Note [contexts of operations]
    `setup_context` is called right after the forward, without gradients, and only where a gradient
    is wanted: what it saves is all that is kept, and only that must not be written to before the
    backward. So on the tape a call is a node like that of an `autograd.Function`, which `attach`
    makes where other operations follow a plan; recordings and transforms of reverse mode attach
    the same way, each transform with the values of the level below. Those may be differentiated
    further out: what a context computes from them is no constant to the transforms around.

    Forward mode has no tape: it transposes the derivative, and makes a context for that alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.levels.function import (
    Function,
    FunctionCtx,
    attach_function,
    position,
)
from adjoint.engine.autodiff.levels.function_levels import attach_raised, below_level
from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.core.operations.dispatch import highest_level
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library.arguments import LIST, TENSOR, VALUE, Layout, filled
from adjoint.library.registered import observed

Operation = Any  # a `custom.CustomOpDef`, whose module imports this one


def put_on_tape(
    operation: Operation,
    layout: Layout,
    operands: Sequence[Any],
    outs: tuple[Any, ...],
    edges: list[Edge | None],
) -> None:
    """Make results those of a node, with what `setup_context` keeps."""
    function, args = _function(operation, layout), tuple(operands)
    needs = tuple(edge is not None for edge in edges)
    context = _context(layout, needs)
    level = highest_level(args)
    below = args if level is None else below_level(level, args)
    outs_below = outs if level is None else below_level(level, outs)
    recording = level is not None and level.outer_grad and CONTEXT.grad_enabled
    with CONTEXT.having(grad_enabled=recording):
        _set_up(operation, layout, context, below, outs_below)
    context.needs_input_grad = needs
    if level is None:
        attach_function(function, context, args, outs, edges, {})
    else:
        pairs = (*below, *outs_below), (*args, *outs)
        attach_raised(function, level, context, pairs, args, outs, edges)  # type: ignore[arg-type]


def derived(
    operation: Operation,
    layout: Layout,
    gs: Sequence[Any],
    operands: Sequence[Any],
    outs: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    """The cotangents of operands where there is no tape, by a context made for them."""
    context = _context(layout, needed)
    _set_up(operation, layout, context, operands, outs)
    context.needs_input_grad = tuple(needed)
    given = []
    for g, x in zip(gs, outs, strict=True):
        missing = g is None or position(context._silent, x) is not None
        given.append((zeros_like(x) if context._materialize else None) if missing else g)
    return _pulled(operation, layout, context, given)


class _OperationFunction(Function):
    """What the node of an operation asks for gradients; `layout` is without values."""

    operation: Operation
    layout: Layout

    @classmethod
    def pull_back(cls, ctx: Any, *grads: Any) -> Any:
        return _pulled(cls.operation, cls.layout, ctx, grads)


def _function(operation: Operation, layout: Layout) -> type[Function]:
    """The function of calls whose tensors are at these places; its node has PyTorch's name."""
    places = _places(layout)
    function = operation._functions.get(places)
    if function is None:
        form = operation._qualname.replace("::", "_")
        name = form.replace(".", "_") if "." in form else f"{form}_default"
        function = operation._functions[places] = type(
            f"GeneratedBackwardFor_{name}",
            (_OperationFunction,),
            {"operation": operation, "layout": places, "__module__": __name__},
        )
    return function


def _places(layout: Layout) -> Layout:
    """Where tensors are in a layout, without the other arguments' values."""
    return tuple((kind, None if kind == VALUE else content) for kind, content in layout)


def _by_argument(layout: Layout, needs: Sequence[bool]) -> tuple[Any, ...]:
    """Which gradients are wanted, argument by argument; of a list, a list."""
    return tuple(bool(n) if n is None else n for n in filled(_places(layout), needs))


def _context(layout: Layout, needs: Sequence[bool]) -> FunctionCtx:
    """A context for `setup_context`, which gets elements of lists one by one, as in PyTorch."""
    wanted = _by_argument(layout, needs)
    flat = [w for n in wanted for w in (n if isinstance(n, list) else (n,))]
    return FunctionCtx(tuple(map(bool, flat)))


def _set_up(
    operation: Operation,
    layout: Layout,
    context: FunctionCtx,
    operands: Sequence[Any],
    outs: Sequence[Any],
) -> None:
    """Have `setup_context`, if there is one, fill a context."""
    setup = observed(operation.__dict__, "_setup")
    if setup is None:
        return
    inputs = tuple(filled(layout, operands))
    output: Any = outs[0] if operation._kind is Tensor else (operation._kind or tuple)(outs)
    if "keyword_only_inputs" in inspect.signature(setup).parameters:
        names = operation._taken_by_name()
        first = len(inputs) - len(names)
        named = dict(zip(names, inputs[first:], strict=True))
        setup(ctx=context, inputs=inputs[:first], keyword_only_inputs=named, output=output)
    else:
        setup(context, inputs, output)
    if any(position(outs, t) is None for t in context._dirty):
        raise RuntimeError(
            f"{operation._qualname}: setup_context marked a tensor as dirty that is no result. An "
            "operation with a derivative writes to none of its arguments."
        )


def _pulled(
    operation: Operation, layout: Layout, context: FunctionCtx, grads: Sequence[Any]
) -> list[Any]:
    """What `backward` makes of the cotangents, for the tensors among the arguments."""
    backward = observed(operation.__dict__, "_backward")
    if backward is None:
        raise RuntimeError(
            f"Trying to backward through {operation._qualname}.default but no autograd formula was "
            "registered. Please use register_autograd to add one."
        )
    needs = context.needs_input_grad
    context.needs_input_grad = _by_argument(layout, needs)
    try:
        given = (list(grads),) if operation._kind is list else grads  # as results came, they go
        pulled = backward(context, *given)
    finally:
        context.needs_input_grad = needs
    return _by_operand(operation, layout, pulled if isinstance(pulled, tuple) else (pulled,))


def _by_operand(operation: Operation, layout: Layout, pulled: tuple[Any, ...]) -> list[Any]:
    """A derivative's results for the tensors among the arguments."""
    if len(pulled) > len(layout):
        raise RuntimeError(
            f"{operation._qualname}: its derivative returned {len(pulled)} gradients for "
            f"{len(layout)} arguments"
        )
    cotangents: list[Any] = []
    for (kind, count), g in zip(layout, (*pulled, *(None,) * len(layout)), strict=False):
        if kind == TENSOR:
            cotangents.append(g)
        elif kind == LIST:
            cotangents += [None] * count if g is None else list(g)
    return cotangents
