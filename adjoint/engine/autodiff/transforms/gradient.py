"""Reverse mode as function transforms: grad, grad_and_value, vjp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.stack import entered, leave, next_depth
from adjoint.engine.autodiff.tape.engine import Backward
from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.autodiff.tape.reverse import fitting
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import make_argument, make_level_tensor, payload

Argnums = int | tuple[int, ...]


def watch(name: str, level: GradLevel, tree: Any) -> tuple[Any, list[Tensor]]:
    """The tree with each tensor as one of the level's, and those tensors."""
    leaves, structure = flatten(tree)
    if HOOKS.sparse is not None:
        HOOKS.sparse.refuse_in(name, structure)
    watched: list[Tensor] = []
    for i, x in enumerate(leaves):
        if not is_tensor(x):
            raise ValueError(
                f"{name}: expected all inputs to be differentiated to be Tensors, received "
                f"{type(x).__name__}"
            )
        if not x.dtype.is_inexact:
            raise DTypeError(
                f"{name}: only Tensors of floating point and complex dtype can require gradients, "
                f"received {x.dtype.name}"
            )
        leaves[i] = make_argument(level, make_level_tensor(level, x._spec, x))
        leaves[i]._requires_grad = True
        watched.append(leaves[i])
    return unflatten(structure, leaves), watched


def pull_back_through(
    level: GradLevel, outputs: Sequence[Any], cotangents: Sequence[Any], inputs: list[Tensor],
    *, retain: bool,
) -> list[Any]:  # fmt: skip
    """Cotangents of `inputs`; zeros where an output does not depend on them."""
    run = Backward(
        retain_graph=retain,
        create_graph=False,
        targets=[(x, 0) for x in inputs],
        accumulate=False,
        level=level,
    )
    roots = []
    for out, g in zip(outputs, cotangents, strict=True):
        edge = edge_of(out) if is_tensor(out) and out._storage.level is level else None
        if edge is not None:
            roots.append((edge, g))
    with CONTEXT.having(grad_enabled=level.outer_grad):
        run.run(roots)
        grads = [run.gradients.get((x, 0)) for x in inputs]
        return [
            payload(x).new_zeros(x.shape) if g is None else g
            for x, g in zip(inputs, grads, strict=True)
        ]


def pick(name: str, args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments to differentiate by."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(chosen, tuple) or not all(isinstance(i, int) for i in chosen):
        raise RuntimeError(
            f"{name}: argnums should be int or Tuple[int, ...], received {type(argnums).__name__}"
        )
    if not chosen:
        raise RuntimeError(f"{name}: argnums must not be empty")
    for i in chosen:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{name}: got argnum={i}, but only {len(args)} positional inputs")
    if len({i % len(args) for i in chosen}) != len(chosen):
        raise RuntimeError(f"{name}: argnums elements must be unique, received {argnums}")
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in chosen)


def replace(args: tuple[Any, ...], argnums: Argnums, values: Any) -> tuple[Any, ...]:
    """The arguments with the picked ones exchanged."""
    new = list(args)
    if isinstance(argnums, int):
        new[argnums] = values
    else:
        for i, v in zip(argnums, values, strict=True):
            new[i] = v
    return tuple(new)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of a function's result."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function returning (gradient, value) of a scalar function."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = pick("grad", args, argnums)
        with entered(GradLevel(next_depth()), grad_enabled=True) as level:
            watched_tree, watched = watch("grad", level, chosen)
            result = func(*replace(args, argnums, watched_tree), **kwargs)
            value, aux = split_aux("grad", result, has_aux)
            if not is_tensor(value):
                raise RuntimeError(
                    "grad: expected f(*args) to return a tensor, received type "
                    f"{type(value).__name__}"
                )
            if value.ndim:
                raise ShapeError(
                    "grad: expected f(*args) to return a scalar tensor, received a tensor with "
                    f"{value.ndim} dims. Did you forget to call .sum()?"
                )
            seed = leave(level, value)
            grads = pull_back_through(level, [value], [seed.new_ones(())], watched, retain=False)
            gradient = unflatten(flatten(chosen)[1], grads)
            return (gradient, (seed, leave(level, aux))) if has_aux else (gradient, seed)

    return wrapped


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function computing the gradient of a scalar function.

    >>> import adjoint as ad
    >>> ad.func.grad(ad.func.grad(ad.sin))(ad.tensor(0.0))
    tensor(-0.)
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function returning (value, gradient): `grad_and_value` in the other order."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return value, gradient

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and the function that pulls cotangents back through it.

    >>> import adjoint as ad
    >>> out, pull_back = ad.func.vjp(ad.sin, ad.tensor([0.0]))
    >>> pull_back(ad.tensor([3.0]))
    (tensor([3.]),)
    """
    return vjp_at(GradLevel(next_depth()), func, primals, has_aux=has_aux)


def vjp_at(level: GradLevel, func: Callable[..., Any], primals: Any, *, has_aux: bool) -> Any:
    """`vjp` by a given level."""
    level.outer_grad = CONTEXT.grad_enabled
    with CONTEXT.having(levels=(*CONTEXT.levels, level), grad_enabled=True):
        watched_tree, watched = watch("vjp", level, primals)
        value, aux = split_aux("vjp", func(*watched_tree), has_aux)
        outputs, structure = flatten(value)
        for o in outputs:
            if not is_tensor(o):
                raise RuntimeError(
                    "vjp: expected f(*primals) to return only tensors, received type "
                    f"{type(o).__name__}"
                )
            if not o.dtype.is_inexact:
                raise DTypeError(
                    "vjp: all outputs of f must be floating-point or complex Tensors, received "
                    f"one of {o.dtype.name}. Return it as aux (has_aux=True)."
                )
        out = leave(level, value)
        aux = leave(level, aux)
    primal_structure = flatten(primals)[1]

    def pull_back(cotangents: Any, retain_graph: bool = True) -> Any:
        gs, received = flatten(cotangents)
        if received != structure:
            raise RuntimeError(
                "vjp: expected pytree structure of cotangents to be the same as pytree structure "
                f"of outputs to the function; received {received}, wanted {structure}"
            )
        fit = [fitting(i, o, g) for i, (o, g) in enumerate(zip(outputs, gs, strict=True))]
        pulled = pull_back_through(level, outputs, fit, watched, retain=retain_graph)
        return tuple(unflatten(primal_structure, pulled))

    return (out, pull_back, aux) if has_aux else (out, pull_back)
