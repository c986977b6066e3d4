"""Jacobians and Hessians as function transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.transforms.batching import vmap
from adjoint.engine.autodiff.transforms.forward import jvp
from adjoint.engine.autodiff.transforms.gradient import Argnums, pick, replace, vjp
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten, map_tree, unflatten


def basis_of(x: Any) -> Any:
    """The unit vectors of the space of x, stacked in front."""
    n = x.numel()
    return x.new_eye(n).reshape((n, *x.shape))


def _require_real(name: str, which: str, tensors: list[Any]) -> None:
    """Refuse complex numbers: one number cannot say how a function of them changes."""
    for i, x in enumerate(tensors):
        if is_tensor(x) and x.dtype.is_complex:
            raise DTypeError(
                f"{name}: Expected all {which} to be real but received complex tensor at "
                f"flattened input idx: {i}. Differentiate by view_as_real of it."
            )


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, one row per output element.

    >>> import adjoint as ad
    >>> ad.func.jacrev(ad.sin)(ad.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0, received {chunk_size}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = pick("jacrev", args, argnums)
        one = isinstance(argnums, int)
        _require_real("jacrev", "inputs", flatten(chosen)[0])

        def inner(*xs: Any) -> Any:
            return func(*replace(args, argnums, xs[0] if one else xs), **kwargs)

        results = vjp(inner, *((chosen,) if one else chosen), has_aux=has_aux)
        out, pull_back = results[0], results[1]
        outs, out_structure = flatten(out)
        _require_real("jacrev", "outputs", outs)
        jacobians = []
        for i, o in enumerate(outs):

            def pull_one(g: Any, i: int = i) -> Any:
                gs = [g if j == i else other.new_zeros(other.shape) for j, other in enumerate(outs)]
                return pull_back(unflatten(out_structure, gs))

            rows = vmap(pull_one, chunk_size=chunk_size)(basis_of(o))
            shaped = map_tree(lambda r, o=o: r.reshape((*o.shape, *r.shape[1:])), rows)
            jacobians.append(shaped[0] if one else shaped)
        result = unflatten(out_structure, jacobians)
        return (result, results[2]) if has_aux else result

    return wrapped


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The Jacobian by forward mode, one column per input element."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = pick("jacfwd", args, argnums)
        leaves, structure = flatten(chosen)
        for x in leaves:
            if not is_tensor(x):
                raise ValueError(
                    f"jacfwd: expected tensors to differentiate by, received {type(x).__name__}"
                )
        _require_real("jacfwd", "inputs", leaves)

        def inner(*xs: Any) -> Any:
            return func(*replace(args, argnums, unflatten(structure, xs)), **kwargs)

        columns: list[Any] = []
        aux = None
        for i, x in enumerate(leaves):

            def push_one(t: Any, i: int = i) -> Any:
                ts = [t if j == i else y.new_zeros(y.shape) for j, y in enumerate(leaves)]
                pushed = jvp(inner, tuple(leaves), tuple(ts), has_aux=has_aux)
                return (pushed[1], pushed[2]) if has_aux else pushed[1]

            out_dims = (-1, None) if has_aux else -1
            pushed = vmap(push_one, out_dims=out_dims, randomness=randomness)(basis_of(x))
            if has_aux:
                pushed, aux = pushed
            columns.append(map_tree(lambda c, x=x: c.reshape((*c.shape[:-1], *x.shape)), pushed))
        flat_columns = [flatten(c)[0] for c in columns]
        out_structure = flatten(columns[0])[1]
        result = unflatten(
            out_structure,
            [
                unflatten(structure, [c[k] for c in flat_columns])
                for k in range(out_structure.num_leaves)
            ],
        )
        return (result, aux) if has_aux else result

    return wrapped


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward over reverse.

    >>> import adjoint as ad
    >>> ad.func.hessian(lambda x: (x * x).sum())(ad.ones(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
