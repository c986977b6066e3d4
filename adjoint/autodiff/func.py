"""Functional transforms: grad, vjp, jvp, vmap, jacobians, hessian. They nest freely."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.autodiff.engine import Backward
from adjoint.autodiff.grad_level import GradLevel
from adjoint.autodiff.jvp_level import Dual, JvpLevel
from adjoint.autodiff.node import edge_of
from adjoint.autodiff.stack import entered, leave, next_depth
from adjoint.autodiff.vmap_level import VmapLevel
from adjoint.core.context import CONTEXT
from adjoint.core.record import is_tensor
from adjoint.core.tree import flatten, map_tree, unflatten
from adjoint.tensor.mutation import make_level_tensor, payload
from adjoint.tensor.tensor import Tensor


def _watch(level: GradLevel, tree: Any) -> tuple[Any, list[Tensor]]:
    leaves, structure = flatten(tree)
    watched: list[Tensor] = []
    for i, x in enumerate(leaves):
        if not is_tensor(x):
            raise ValueError(
                f"grad: expected tensors to differentiate, received {type(x).__name__}"
            )
        leaves[i] = make_level_tensor(level, x._spec, x)
        leaves[i]._requires_grad = x.dtype.is_inexact
        watched.append(leaves[i])
    return unflatten(structure, leaves), watched


def _pull_back(
    level: GradLevel,
    outputs: list[Any],
    cotangents: list[Any],
    inputs: list[Tensor],
    *,
    retain: bool,
) -> list[Any]:
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
        found = [run.found.get((x, 0)) for x in inputs]
        return [
            payload(x).new_zeros(x.shape) if g is None else g
            for x, g in zip(inputs, found, strict=True)
        ]


def _pick(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def _replace(args: tuple[Any, ...], argnums: int | tuple[int, ...], values: Any) -> tuple[Any, ...]:
    new = list(args)
    if isinstance(argnums, int):
        new[argnums] = values
    else:
        for i, v in zip(argnums, values, strict=True):
            new[i] = v
    return tuple(new)


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function returning (gradient, value) of a scalar function."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with entered(GradLevel(next_depth()), grad_enabled=True) as level:
            watched_tree, watched = _watch(level, _pick(args, argnums))
            result = func(*_replace(args, argnums, watched_tree), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not is_tensor(value):
                raise RuntimeError(
                    f"grad: the function must return a tensor, received {type(value).__name__}"
                )
            if value.ndim:
                raise RuntimeError(
                    f"grad: the function must return a scalar, received shape {tuple(value.shape)}"
                )
            seed = leave(level, value)
            grads = _pull_back(level, [value], [seed.new_ones(())], watched, retain=False)
            _, structure = flatten(_pick(args, argnums))
            gradient = unflatten(structure, grads)
            value = leave(level, value)
            return (gradient, (value, leave(level, aux))) if has_aux else (gradient, value)

    return wrapped


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
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


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and the function that pulls cotangents back through it."""
    level = GradLevel(next_depth())
    level.outer_grad = CONTEXT.grad_enabled
    with CONTEXT.having(levels=(*CONTEXT.levels, level), grad_enabled=True):
        watched_tree, watched = _watch(level, primals)
        result = func(*watched_tree)
        value, aux = result if has_aux else (result, None)
        outputs, structure = flatten(value)
        out = leave(level, value)
        aux = leave(level, aux)

    def pull_back(cotangents: Any, retain_graph: bool = True) -> Any:
        gs, got = flatten(cotangents)
        if got != structure:
            raise RuntimeError(
                "vjp: the cotangents must have the structure of the function's result"
            )
        with CONTEXT.having(levels=(*CONTEXT.levels, level)):
            pulled = _pull_back(level, outputs, gs, watched, retain=retain_graph)
        return tuple(unflatten(flatten(primals)[1], pulled))

    return (out, pull_back, aux) if has_aux else (out, pull_back)


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
    with entered(JvpLevel(next_depth()), grad_enabled=None) as level:
        flat, structure = flatten(tuple(primals))
        ts, t_structure = flatten(tuple(tangents))
        if structure != t_structure:
            raise RuntimeError("jvp: primals and tangents must have the same structure")
        duals = [
            make_level_tensor(level, x._spec, Dual(x, t)) for x, t in zip(flat, ts, strict=True)
        ]
        result = func(*unflatten(structure, duals))
        value, aux = result if has_aux else (result, None)

        def part(x: Any, index: int) -> Any:
            if not is_tensor(x):
                return x
            if x._storage.level is not level:
                if index and strict:
                    raise RuntimeError(
                        "jvp: with strict=True every output must depend on the inputs"
                    )
                return x.new_zeros(x.shape) if index else x
            pair = payload(x)
            if index and pair.tangent is None:
                return pair.primal.new_zeros(x.shape)
            return pair[index]

        out = map_tree(lambda x: part(x, 0), value)
        tangent = map_tree(lambda x: part(x, 1), value)
        aux = map_tree(lambda x: part(x, 0), aux)
    return (out, tangent, aux) if has_aux else (out, tangent)


def _flat_dims(dims: Any, structure: Any, args: tuple[Any, ...]) -> list[int | None]:
    """One in_dim per leaf, from an int, None, or a (partial) tree of them."""
    if dims is None or isinstance(dims, int):
        return [dims] * structure.num_leaves
    if len(dims) != len(args):
        raise ValueError(
            f"vmap: in_dims has {len(dims)} entries for {len(args)} arguments: {dims!r}"
        )
    flat: list[int | None] = []
    for d, arg in zip(dims, args, strict=True):
        count = flatten(arg)[1].num_leaves
        if d is None or isinstance(d, int):
            flat += [d] * count
        else:
            flat += flatten(d)[0]
    return flat


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map a function over a dimension of its arguments.

    >>> import adjoint as ad
    >>> ad.func.vmap(ad.dot)(ad.ones(2, 3), ad.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"vmap: randomness must be 'error', 'different' or 'same', received {randomness!r}"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten(args)
        dims = _flat_dims(in_dims, structure, args)
        sizes = {x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
        if not sizes:
            raise ValueError("vmap: at least one input must be mapped over")
        if len(sizes) > 1:
            raise ValueError(f"vmap: the mapped dimension has different sizes: {sorted(sizes)}")
        size = sizes.pop()
        moved = [x if d is None else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        if chunk_size is None or chunk_size >= size:
            return _vmap_once(func, moved, dims, structure, kwargs, size, out_dims, randomness)
        return _vmap_chunks(
            func, moved, dims, structure, kwargs, size, out_dims, randomness, chunk_size
        )

    return wrapped


def _vmap_chunks(
    func: Any,
    moved: Any,
    dims: Any,
    structure: Any,
    kwargs: Any,
    size: int,
    out_dims: Any,
    randomness: str,
    chunk: int,
) -> Any:
    from adjoint.ops.join import cat

    parts = []
    for start in range(0, size, chunk):
        length = min(chunk, size - start)
        piece = [
            x if d is None else x.narrow(0, start, length) for x, d in zip(moved, dims, strict=True)
        ]
        parts.append(_vmap_once(func, piece, dims, structure, kwargs, length, 0, randomness))
    whole = map_tree(lambda *xs: cat(xs), *parts)
    flat, out_structure = flatten(whole)
    places = _out_places(out_dims, out_structure)
    return unflatten(out_structure, [x.movedim(0, d) for x, d in zip(flat, places, strict=True)])


def _out_places(out_dims: Any, structure: Any) -> list[int]:
    return [out_dims] * structure.num_leaves if isinstance(out_dims, int) else flatten(out_dims)[0]


def _vmap_once(
    func: Any,
    moved: Any,
    dims: Any,
    structure: Any,
    kwargs: Any,
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    with entered(VmapLevel(next_depth(), size, randomness)) as level:
        inputs = [
            x if d is None else level.wrap_payload(x) for x, d in zip(moved, dims, strict=True)
        ]
        result = func(*unflatten(structure, inputs), **kwargs)
        flat, out_structure = flatten(result)
        places = _out_places(out_dims, out_structure)
        outs = []
        for x, place in zip(flat, places, strict=True):
            if not is_tensor(x):
                raise ValueError(
                    f"vmap: the function must return tensors, received {type(x).__name__}"
                )
            value = payload(x) if x._storage.level is level else None
            if place is None:
                if value is not None:
                    raise ValueError("vmap: out_dims is None for an output that is mapped over")
                outs.append(x)
                continue
            value = level.lift(x) if value is None else value
            outs.append(value.movedim(0, place) if place else value)
        return unflatten(out_structure, outs)


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, one row per output element."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        chosen = _pick(args, argnums)
        inner = lambda *xs: func(
            *_replace(args, argnums, xs[0] if isinstance(argnums, int) else xs)
        )
        primals = (chosen,) if isinstance(argnums, int) else chosen
        made = vjp(inner, *primals, has_aux=has_aux)
        out, pull_back = made[0], made[1]
        outs, out_structure = flatten(out)
        jacobians = []
        for i, o in enumerate(outs):
            n = o.numel()
            basis = o.new_eye(n).reshape((n, *o.shape))

            def pull_one(g: Any, i: int = i) -> Any:
                gs = [g if j == i else other.new_zeros(other.shape) for j, other in enumerate(outs)]
                return pull_back(unflatten(out_structure, gs))

            rows = vmap(pull_one, chunk_size=chunk_size)(basis)
            shaped = map_tree(lambda r, o=o: r.reshape((*o.shape, *r.shape[1:])), rows)
            jacobians.append(shaped[0] if isinstance(argnums, int) else shaped)
        result = unflatten(out_structure, jacobians)
        return (result, made[2]) if has_aux else result

    return wrapped


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The Jacobian by forward mode, one column per input element."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        chosen = _pick(args, argnums)
        leaves, structure = flatten(chosen)
        columns: list[Any] = []
        aux = None
        for i, x in enumerate(leaves):
            n = x.numel()
            basis = x.new_eye(n).reshape((n, *x.shape))

            def push_one(t: Any, i: int = i) -> Any:
                ts = [t if j == i else y.new_zeros(y.shape) for j, y in enumerate(leaves)]

                def inner(*xs: Any) -> Any:
                    return func(*_replace(args, argnums, unflatten(structure, xs)))

                pushed = jvp(inner, tuple(leaves), tuple(ts), has_aux=has_aux)
                return (pushed[1], pushed[2]) if has_aux else pushed[1]

            pushed = vmap(push_one, randomness=randomness)(basis)
            if has_aux:
                pushed, aux = pushed
                aux = map_tree(lambda a: a.select(0, 0), aux)
            columns.append(
                map_tree(lambda c, x=x: c.movedim(0, -1).reshape((*c.shape[1:], *x.shape)), pushed)
            )
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


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)
