"""vmap: a function mapped over a dimension of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import LEAF, TreeDef, flatten, unflatten
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.writing.mutation import make_argument, payload

# What a library put in place of PyTorch's steps of vmap, all or none (Note [replaced steps]).
STEPS: dict[str, Callable[..., Any]] = {}
STEP_NAMES = ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched")


def broadcast_dims(dims: Any, structure: TreeDef) -> list[Any] | None:
    """One entry per leaf from a prefix of the tree; None where it does not fit."""
    if dims is None or isinstance(dims, int):
        return [dims] * structure.num_leaves
    if structure.kind is None:
        return None
    _, given = flatten(dims)
    same_kind = given.kind is structure.kind or {given.kind, structure.kind} == {list, tuple}
    if (
        not same_kind
        or len(given.children) != len(structure.children)
        or (given.keys != structure.keys)
    ):
        return None
    parts = dims.values() if isinstance(dims, dict) else dims
    if given.keys and not isinstance(dims, dict):
        parts = [getattr(dims, k) for k in given.keys]
    flat: list[Any] = []
    for part, child in zip(parts, structure.children, strict=True):
        entries = broadcast_dims(part, child)
        if entries is None:
            return None
        flat += entries
    return flat


def _in_dims(in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], TreeDef]:
    """Leaves, a checked dimension per leaf, and the structure of the arguments."""
    where = f"vmap(f, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{where}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    dims = broadcast_dims(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(
                f"{where}: got in_dim={d} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if not is_tensor(x):
            raise ValueError(
                f"{where}: got in_dim={d} for an input but the input is of type {type(x)}. We "
                "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -x.ndim <= d < x.ndim:
            raise ShapeValueError(
                f"{where}: got in_dim={d} for some input, but that input is a Tensor of "
                f"dimensionality {x.ndim} so expected in_dim to satisfy "
                f"-{x.ndim} <= in_dim < {x.ndim}."
            )
        dims[i] = d % x.ndim
    return leaves, dims, structure


def _batch_size(leaves: list[Any], dims: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: at least one input must be mapped over; in_dims are all None")
    if any(s != sizes[0] for s in sizes):
        raise ShapeValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _in_chunks(
    once: Callable[[list[Any], int], tuple[Any, ...]],
    moved: list[Any],
    dims: list[Any],
    size: int,
    step: int,
) -> tuple[Any, ...]:
    """What `once` gives for the whole batch, from `step` members at a time."""
    pieces = []
    for start in range(0, size, step):
        length = min(step, size - start)
        piece = [
            x if d is None else x.narrow(0, start, length) for x, d in zip(moved, dims, strict=True)
        ]
        pieces.append(once(piece, length))
    _, places, structure = pieces[0]
    for _, _, other in pieces:
        if other != structure:
            raise ValueError(
                f"vmap: the function returned {structure} for one chunk and {other} "
                "for another. Return the same structure, with dict keys in one order."
            )
    columns = zip(*(outs for outs, _, _ in pieces), strict=True)
    outs = [
        column[0] if place is None else cat(list(column))
        for column, place in zip(columns, places, strict=True)
    ]
    return outs, places, structure


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
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(STEPS) == len(STEP_NAMES):
            size, dims, leaves, structure = STEPS["_process_batched_inputs"](in_dims, args, func)
            if chunk_size is None:
                return _by_steps(func, leaves, dims, structure, kwargs, size, out_dims, randomness)
            _refuse_chunks(leaves, dims)
        leaves, dims, structure = _in_dims(in_dims, args)
        size = _batch_size(leaves, dims)
        moved = [x.movedim(d, 0) if d else x for x, d in zip(leaves, dims, strict=True)]
        step = size if chunk_size is None else chunk_size

        def once(leaves: list[Any], length: int) -> tuple[Any, ...]:
            return _once(func, leaves, dims, structure, kwargs, length, out_dims, randomness)

        if step >= size:
            outs, places, out_structure = once(moved, size)
        else:
            outs, places, out_structure = _in_chunks(once, moved, dims, size, step)
        placed = [x.movedim(0, d) if d else x for x, d in zip(outs, places, strict=True)]
        return unflatten(out_structure, placed)

    return wrapped


# Note [replaced steps]: PyTorch's vmap is made of three functions of a module, and tensordict
# replaces them, so that a tensordict is a leaf that adds and removes its own dimension. Ours then
# goes through these, as PyTorch's does.
def _by_steps(
    func: Any, leaves: Any, dims: Any, structure: Any, kwargs: Any, size: int, out_dims: Any,
    randomness: str,
) -> Any:  # fmt: skip
    """`vmap` through the steps that a library put in the place of PyTorch's."""
    with entered(VmapLevel(next_depth(), size, randomness)) as level:
        inputs = STEPS["_create_batched_inputs"](dims, leaves, level.depth, structure)
        outputs = func(*inputs, **kwargs)
        return STEPS["_unwrap_batched"](outputs, out_dims, level.depth, size, func)


def _refuse_chunks(leaves: list[Any], dims: list[Any]) -> None:
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is not None and not is_tensor(leaf):
            raise NotImplementedError(
                f"vmap: chunk_size is for tensors and their containers, received a "
                f"{type(leaf).__name__}. Map over all of it at once."
            )


def _once(
    func: Any, moved: Any, dims: Any, structure: Any, kwargs: Any, size: int, out_dims: Any,
    randomness: str,
) -> tuple[list[Any], list[Any], TreeDef]:  # fmt: skip
    """Results with the batch in front, where it should go in each, and their structure."""
    with entered(VmapLevel(next_depth(), size, randomness)) as level:
        inputs = [
            x if d is None else make_argument(level, level.wrap_payload(x))
            for x, d in zip(moved, dims, strict=True)
        ]
        flat, out_structure = flatten(func(*unflatten(structure, inputs), **kwargs))
        places = _out_dims(out_dims, out_structure)
        outs = []
        for x, place in zip(flat, places, strict=True):
            if not is_tensor(x):
                raise ValueError(
                    f"vmap: the mapped function must only return Tensors, got type {type(x)}. Did "
                    "you mean to set out_dims= to None for that output?"
                )
            value = payload(x) if x._storage.level is level else None
            if place is None:
                if value is not None:
                    raise ValueError(
                        "vmap: out_dims is None for an output that is mapped over. Give the "
                        "dimension its batch should take."
                    )
                outs.append(x)
            else:
                outs.append(level.lift(x) if value is None else value)
        return outs, places, out_structure


def _out_dims(out_dims: Any, structure: TreeDef) -> list[Any]:
    if structure == LEAF and isinstance(out_dims, (tuple, list)) and len(out_dims) == 1:
        out_dims = out_dims[0]
    places = broadcast_dims(out_dims, structure)
    if places is None or not all(p is None or isinstance(p, int) for p in places):
        raise ValueError(
            f"vmap: out_dims={out_dims!r} is not compatible with the structure of the outputs, "
            f"{structure}"
        )
    return places
