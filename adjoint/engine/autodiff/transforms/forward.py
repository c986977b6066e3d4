"""Forward mode as function transforms: jvp, linearize, hvp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.jvp_level import Dual, JvpLevel
from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.transforms.gradient import grad, split_aux, vjp, vjp_at
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten, map_tree, unflatten
from adjoint.engine.tensor.writing.mutation import make_argument, make_level_tensor, payload


def _check(name: str, flat: list[Any], ts: list[Any]) -> None:
    for x, t in zip(flat, ts, strict=True):
        if not is_tensor(x) or not is_tensor(t):
            kind = type(t if is_tensor(x) else x).__name__
            raise RuntimeError(
                f"{name}: expected primals and tangents to be Tensors, received {kind}"
            )
        if x.shape != t.shape:
            raise ShapeError(
                f"{name}: a tangent has shape {tuple(t.shape)} but its primal {tuple(x.shape)}. "
                "They must be the same."
            )
        for what, tensor in (("primal", x), ("tangent", t)):
            if not tensor.dtype.is_inexact:
                raise ValueError(
                    f"{name}: expected {what} to be floating point or complex, but got: "
                    f"{tensor.dtype.name}"
                )


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of a function and its derivative along `tangents`.

    >>> import adjoint as ad
    >>> ad.func.jvp(ad.sin, (ad.tensor(0.0),), (ad.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError(
            f"jvp: expected primals to be a tuple with at least one, received {primals!r}"
        )
    flat, structure = flatten(primals)
    ts, t_structure = flatten(tangents)
    if structure != t_structure:
        raise RuntimeError("jvp: primals and tangents must have the same structure")
    _check("jvp", flat, ts)
    with entered(JvpLevel(next_depth())) as level:
        level.tangents_on_tape = any(t.requires_grad for t in ts)
        duals = [
            make_argument(level, make_level_tensor(level, x._spec, Dual(x, t)))
            for x, t in zip(flat, ts, strict=True)
        ]
        value, aux = split_aux("jvp", func(*unflatten(structure, duals)), has_aux)
        out = map_tree(lambda x: primal_of(level, x), value)
        tangent = map_tree(lambda x: tangent_of(level, x, strict=strict), value)
        aux = map_tree(lambda x: primal_of(level, x), aux)
    return (out, tangent, aux) if has_aux else (out, tangent)


def primal_of(level: JvpLevel, x: Any) -> Any:
    """The value of a dual, or of what is none."""
    return payload(x).primal if is_tensor(x) and x._storage.level is level else x


def tangent_of(level: JvpLevel, x: Any, *, strict: bool) -> Any:
    """The tangent of a dual, zeros where there is none."""
    if not is_tensor(x):
        raise RuntimeError(
            f"jvp: expected f(*primals) to return only tensors, received {type(x).__name__}"
        )
    dual = level.dual(x)
    if dual.tangent is not None:
        return dual.tangent
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): the output of f is independent of the "
            "inputs. This is not allowed with strict=True."
        )
    return dual.primal.new_zeros(x.shape)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and its derivative there as a linear function of tangents.

    The function itself runs once: its vjp is linear in the cotangents, and the vjp of that is the
    derivative.

    >>> import adjoint as ad
    >>> out, push = ad.func.linearize(ad.sin, ad.tensor(0.0))
    >>> push(ad.tensor(3.0))
    tensor(3.)
    """
    level = GradLevel(next_depth(), always=True)  # no_grad does not concern forward mode
    out, pull_back = vjp_at(level, func, primals, has_aux=False)
    zeros = map_tree(lambda o: o.new_zeros(o.shape), out)
    level.outer_grad = True  # pulling back is what is differentiated next
    _, push = vjp(pull_back, zeros)
    structure = flatten(primals)[1]

    def jvp_fn(*tangents: Any) -> Any:
        if flatten(tangents)[1] != structure:
            raise RuntimeError(
                "linearize: tangents must have the structure of the primals it was made with"
            )
        _check("linearize", flatten(primals)[0], flatten(tangents)[0])
        return push(tangents)[0]

    return out, jvp_fn


def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The Hessian of a scalar function times a vector, forward over reverse.

    >>> import adjoint as ad
    >>> ad.func.hvp(lambda x: (x * x * x).sum(), (ad.tensor([2.0]),), (ad.tensor([1.0]),))
    tensor([12.])
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(func, argnums), primals, tangents)[1]
