"""What functions are on parts of tensors: tables by name, and rules for each kind.

See Note [operations on parts]. A rule brings its operands to placements in which each process can
work by itself, and says how the results lie. An operand that is whole, in work that is divided,
has its cotangents summed (`shared`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.tensor import names
from adjoint.distributed.tensor.dtensor import RULES, DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout, move, padded, shared
from adjoint.distributed.tensor.placement import Partial, Placement, Replicate, Shard
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import BoundsError, ShapeError
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.spec import wrap_dims
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import default_generator_of, defaults
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor

Function = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def run_on_parts(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of DTensors."""
    name = func.__name__
    rule = TABLE.get(name)
    if rule is not None:
        return rule(func, args, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return whole_in_place(func, args, kwargs)
    return whole(func, args, kwargs)


def call(func: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The function on plain tensors."""
    with having(subclasses=False):
        return func(*args, **kwargs)


def operands(args: Any, kwargs: Any) -> tuple[list[Any], Any, list[DTensor]]:
    """The leaves of a call's arguments, their structure, and the DTensors among them."""
    leaves, structure = flatten((args, kwargs))
    dtensors = [x for x in leaves if isinstance(x, DTensor)]
    meshes = [x.device_mesh for x in dtensors]
    if any(mesh != meshes[0] for mesh in meshes):
        raise RuntimeError(f"DTensor: operands lie on different meshes: {meshes}")
    return leaves, structure, dtensors


def refuse_mixed(name: str, leaves: list[Any]) -> None:
    """Refuse plain tensors, but for single numbers."""
    for leaf in leaves:
        if isinstance(leaf, Tensor) and not isinstance(leaf, DTensor) and leaf.ndim:
            raise RuntimeError(
                f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                f"DTensor before calling distributed operators! Received a plain tensor of shape "
                f"{tuple(leaf.shape)}; use distribute_tensor or DTensor.from_local."
            )


def wrapped(result: Any, layout: Callable[[Tensor], MeshLayout]) -> Any:
    """The tensors of a result as DTensors."""
    leaves, structure = flatten(result)
    placed = [as_dtensor(x, layout(x)) if isinstance(x, Tensor) else x for x in leaves]
    return unflatten(structure, placed)


# -- on the whole ------------------------------------------------------------------------------


def whole(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """By every process on whole tensors; the result is whole everywhere."""
    leaves, structure, dtensors = operands(args, kwargs)
    refuse_mixed(func.__name__, leaves)
    layout = dtensors[0]._layout
    given = [x.full_tensor() if isinstance(x, DTensor) else x for x in leaves]
    plain, named = unflatten(structure, given)
    pairs = [pair for pair in zip(leaves, given, strict=True) if isinstance(pair[0], DTensor)]
    seen = [g._storage.version for _, g in pairs]
    result = alike(func, layout, lambda: call(func, plain, named))
    for (x, gathered), version in zip(pairs, seen, strict=True):
        if gathered._storage.version != version and gathered._storage is not x._storage:
            raise NotImplementedError(
                f"{func.__name__}: it writes to a DTensor placed {x.placements}, of which it was "
                "given the gathered whole, so that would be lost. Use what does not write in place."
            )
    return wrapped(result, lambda x: layout.replicated(x.shape))


def alike(func: Function, layout: MeshLayout, work: Callable[[], Any]) -> Any:
    """What every process of a mesh computes; random numbers are the same on all."""
    if func.__name__ in names.DRAWS:
        return drawn_alike(layout, work)
    if CONTEXT.capture is not None:
        return work()
    generators = [default_generator_of(device) for device in defaults()]
    before = [g.position() for g in generators]
    result = work()
    if [g.position() for g in generators] == before:
        return result
    for generator, position in zip(generators, before, strict=True):  # it draws sometimes
        generator.move(*position)
    return drawn_alike(layout, work)


def drawn_alike(layout: MeshLayout, draw: Callable[[], Any]) -> Any:
    """The result of drawing random numbers, the same ones on every process of a mesh."""
    from adjoint.random import fork_rng, manual_seed

    seed = zeros(1, dtype=int64).random_(0, 1 << 62)
    for at in range(layout.mesh.ndim):
        broadcast(seed, group=layout.mesh.get_group(at), group_src=0)
    with fork_rng():
        manual_seed(int(seed.item()))
        return draw()


def whole_in_place(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A change of the whole, of which each process keeps its part."""
    target = args[0]
    if not isinstance(target, DTensor):
        raise RuntimeError(
            f"{func.__name__}: a plain tensor cannot be written from a DTensor. Use full_tensor()."
        )
    _refuse_tracked(func.__name__, args, kwargs)
    with no_grad():
        whole_before = target.full_tensor()
        changed = whole_before.new_empty(whole_before.shape)
        leaves, structure, _ = operands(args[1:], kwargs)
        given = [x.full_tensor() if isinstance(x, DTensor) else x for x in leaves]
        rest, named = unflatten(structure, given)
        alike(func, target._layout, lambda: call(func, (changed.copy_(whole_before), *rest), named))
        layout = target._layout
        part_of(target).copy_(move(changed, layout.replicated(), layout))
    return target


def _refuse_tracked(name: str, args: Any, kwargs: Any) -> None:
    if not CONTEXT.grad_enabled:
        return
    if args[0].requires_grad:
        raise RuntimeError(
            f"{name}: a DTensor that requires a gradient cannot be changed in place. Do it under "
            "no_grad()."
        )
    if any(isinstance(x, Tensor) and x.requires_grad for x in flatten((args, kwargs))[0]):
        raise NotImplementedError(
            f"{name}: in place on a DTensor, its operands cannot be differentiated. Use "
            f"{name.strip('_')}."
        )


# -- element by element ------------------------------------------------------------------------


def _without_sums(placements: Sequence[Placement]) -> list[Placement]:
    return [Replicate() if p.is_partial() else p for p in placements]


def _broadcast(shapes: list[Any]) -> tuple[int, ...]:
    rank = max(len(s) for s in shapes)
    out = []
    for d in range(-rank, 0):
        sizes = {s[d] for s in shapes if len(s) >= -d}
        out.append(next(iter(sizes - {1}), 1))
    return tuple(out)


def _fit(
    x: DTensor, target: Sequence[Placement], shape: tuple[int, ...], order: tuple[int, ...]
) -> Tensor:
    """An operand's part for work placed so, on results of a shape."""
    wanted: list[Placement] = []
    copied = []
    for at, placement in enumerate(target):
        if not isinstance(placement, Shard):
            wanted.append(Replicate())
            continue
        dim = placement.dim - (len(shape) - x.ndim)
        if dim < 0 or (x.shape[dim] == 1 and shape[placement.dim] != 1):
            wanted.append(Replicate())
            copied.append(at)
        else:
            wanted.append(Shard(dim))
    then = x._layout.with_placements(wanted, order)
    return shared(move(part_of(x), x._layout, then), then, copied)


def pointwise(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of corresponding elements."""
    if kwargs.get("out") is not None:
        raise NotImplementedError(f"{func.__name__}: out= is not supported for DTensors")
    if func.__name__ == "where" and len(args) + len(kwargs) == 1:
        return whole(func, args, kwargs)  # the places of what is not zero
    leaves, structure, dtensors = operands(args, kwargs)
    refuse_mixed(func.__name__, leaves)
    # A single number that is followed is whole everywhere: its cotangents are summed.
    leaves = [
        DTensor.from_local(x, dtensors[0].device_mesh)
        if isinstance(x, Tensor) and x.requires_grad and not isinstance(x, DTensor)
        else x
        for x in leaves
    ]
    shape = _broadcast([x.shape for x in dtensors])
    full = [x for x in dtensors if tuple(x.shape) == shape] or dtensors
    lead = max(full, key=lambda x: sum(p.is_shard() for p in x._layout.placements))
    if tuple(lead.shape) == shape:
        target = _without_sums(lead._layout.placements)
    else:
        target = [Replicate()] * lead.device_mesh.ndim
    order = lead._layout.order
    given = [_fit(x, target, shape, order) if isinstance(x, DTensor) else x for x in leaves]
    plain, named = unflatten(structure, given)
    layout = lead._layout.like(target, shape)
    return wrapped(call(func, plain, named), lambda _: layout)


def pointwise_in_place(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A change of each element from corresponding ones."""
    target = args[0]
    leaves, structure, dtensors = operands(args[1:], kwargs)
    refuse_mixed(func.__name__, [x for x in leaves if x is not target])
    if not isinstance(target, DTensor):
        raise RuntimeError(f"{func.__name__}: a plain tensor cannot be written from a DTensor")
    if any(p.is_partial() for p in target._layout.placements):
        raise RuntimeError(
            f"{func.__name__}: a DTensor placed {target.placements} cannot be changed in place: it "
            "is a sum that is not made yet. Use redistribute first."
        )
    _refuse_tracked(func.__name__, args, kwargs)
    if dtensors and _broadcast([x.shape for x in (target, *dtensors)]) != tuple(target.shape):
        raise ShapeError(
            f"{func.__name__}: operands of {[tuple(x.shape) for x in dtensors]} do not fit in "
            f"{tuple(target.shape)}"
        )
    shape = tuple(target.shape)
    placed, order = target._layout.placements, target._layout.order
    given = [_fit(x, placed, shape, order) if isinstance(x, DTensor) else x for x in leaves]
    rest, named = unflatten(structure, given)
    call(func, (part_of(target), *rest), named)
    return target


def each_part(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same function of each part."""
    given = [part_of(x) if isinstance(x, DTensor) else x for x in args]
    out = call(func, given, kwargs)
    if _rounds_sums(args[0], out):
        return each_whole_part(func, args, kwargs)
    return wrapped(out, lambda _: args[0]._layout)


def _rounds_sums(x: DTensor, out: Any) -> bool:
    """Whether terms of a sum that is not made yet have become whole numbers, or truths."""
    if not any(p.is_partial() for p in x._layout.placements) or not isinstance(out, Tensor):
        return False
    now, then = x.dtype, out.dtype
    kept = then is now or then.is_complex or (then.is_floating_point and not now.is_complex)
    return not kept


def each_whole_part(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same function of each part, sums made first."""
    layout = args[0]._layout.with_placements(_without_sums(args[0]._layout.placements))
    local = move(part_of(args[0]), args[0]._layout, layout)
    return wrapped(call(func, (local, *args[1:]), kwargs), lambda _: layout)


def itself(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is asked of, or done to, the object."""
    return call(func, args, kwargs)


# -- sums and products --------------------------------------------------------------------------


def total(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """sum and mean: over a divided dimension, sums that are to be made."""
    if not args or kwargs.keys() - {"dim", "keepdim", "dtype"} or len(args) > 3:
        return whole(func, args, kwargs)
    x, dims, keep, dtype = _reduction(func.__name__, *args, **kwargs)
    layout, kind = x._layout, dtype or x.dtype
    exact = func.__name__ == "sum" or kind.is_floating_point or kind.is_complex
    sums = [p for p in layout.placements if p.is_partial()]
    if not exact or not x.ndim or any(p != Partial() for p in sums) or (sums and dtype):
        return whole(func, args, kwargs)
    local = part_of(x).sum(dims, keepdim=keep, dtype=dtype)
    placements: list[Placement] = []
    for placement in layout.placements:
        if not isinstance(placement, Shard):
            placements.append(placement)
        elif placement.dim in dims:
            placements.append(Partial())
        else:
            before = 0 if keep else sum(d < placement.dim for d in dims)
            placements.append(Shard(placement.dim - before))
    shape_left = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
    if func.__name__ == "mean":
        count = 1
        for d in dims:
            count *= x.shape[d]
        local = local / count
    return as_dtensor(local, layout.like(placements, shape_left))


def _reduction(
    name: str, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> tuple[Any, tuple[int, ...], bool, Any]:
    every = tuple(range(input.ndim))
    if dim is None or dim == ():
        return input, every, keepdim, dtype
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return input, wrap_dims(name, dims, input.ndim) if input.ndim else dims, keepdim, dtype


def product(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Matrix products: rows, columns or the inner dimension may be divided."""
    linear = func.__name__ == "linear"
    if linear:
        kwargs = {key: kwargs[key] for key in ("input", "weight", "bias") if key in kwargs}
    x, w, *rest = [*args, *kwargs.values()]
    bias = rest[0] if rest else None
    leaves = [operand for operand in (x, w, bias) if operand is not None]
    refuse_mixed(func.__name__, leaves)
    if any(not isinstance(t, DTensor) for t in leaves) or x.ndim < 2 or w.ndim != 2:
        return whole(func, args, kwargs)
    inner, outer = (1, 0) if linear else (0, 1)  # of w
    last = x.ndim - 1
    plans = [
        _product_plan(a, b, last, inner, outer)
        for a, b in zip(x._layout.placements, w._layout.placements, strict=True)
    ]
    x_then = x._layout.with_placements([p[0] for p in plans])
    w_then = w._layout.with_placements([p[1] for p in plans], x._layout.order)
    results = [p[2] for p in plans]
    divided = [at for at, p in enumerate(results) if not p.is_replicate()]
    x_copied = [at for at in divided if x_then.placements[at].is_replicate()]
    w_copied = [at for at in divided if w_then.placements[at].is_replicate()]
    left = shared(move(part_of(x), x._layout, x_then), x_then, x_copied)
    right = shared(move(part_of(w), w._layout, w_then), w_then, w_copied)
    out_shape = (*x.shape[:-1], w.shape[outer])
    layout = x._layout.like(results, out_shape)
    out = as_dtensor(call(func, (left, right), {}), layout)
    return out if bias is None else out + bias


def _product_plan(
    x: Placement, w: Placement, last: int, inner: int, outer: int
) -> tuple[Placement, Placement, Placement]:
    """How the operands have to lie along a mesh dimension, and how the result then lies."""
    whole_one = Replicate()
    rows = isinstance(x, Shard) and x.dim < last
    if isinstance(x, Shard) and x.dim == last and isinstance(w, Shard) and w.dim == inner:
        return x, w, Partial()
    if rows and w.is_replicate():
        return x, w, x
    if isinstance(w, Shard) and w.dim == outer and not rows:
        return whole_one, w, Shard(last)
    if rows:
        return x, whole_one, x
    return whole_one, whole_one, whole_one


def embedding(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Rows of a table by their numbers: the table, or the numbers, may be divided."""
    named = dict(zip(_EMBEDDING, args, strict=False)) | kwargs
    index, table = named.pop("input"), named.pop("weight")
    padding = named.pop("padding_idx", None)
    simple = isinstance(table, DTensor) and table.device_mesh.ndim == 1
    if isinstance(index, Tensor) and not isinstance(index, DTensor) and simple:
        index = as_dtensor(index, table._layout.replicated(index.shape))
    named.pop("norm_type", None)  # of max_norm
    options = any(value not in (None, False) for value in named.values())
    if not simple or options or (padding is not None and not -len(table) <= padding < len(table)):
        return whole(func, (index, table), kwargs_of(args, kwargs))
    if padding is not None:
        padding %= len(table)
    kind, layout = table._layout.placements[0], table._layout
    shape = (*index.shape, table.shape[1])
    if kind == Shard(0) and index._layout.placements[0].is_replicate():
        first, local = layout.starts()[0], part_of(table)
        require_inside(part_of(index), len(table))
        place = part_of(index) - first
        inside = (place >= 0) & (place < local.shape[0])
        kept = None if padding is None else padding - first
        if kept is not None and not 0 <= kept < local.shape[0]:
            kept = None
        local = padded(local, 0, max(1, local.shape[0]))  # a process may have no rows
        rows = call(func, (place.clamp(0, local.shape[0] - 1), local, kept), {})
        out = rows * inside.unsqueeze(-1).to(rows.dtype)
        return as_dtensor(out, layout.like([Partial()], shape))
    if kind == Shard(1) and index._layout.placements[0].is_replicate():
        out = call(func, (part_of(index), part_of(table), padding), {})
        return as_dtensor(out, layout.like([Shard(index.ndim)], shape))
    if kind.is_replicate() and index._layout.placements[0].is_shard():
        out = call(func, (part_of(index), shared(part_of(table), layout, [0]), padding), {})
        return as_dtensor(out, layout.like(index._layout.placements, shape))
    return whole(func, (index, table), kwargs_of(args, kwargs))


_EMBEDDING = (
    "input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
)  # fmt: skip


def kwargs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a call of `embedding`, by name."""
    named = dict(zip(_EMBEDDING, args, strict=False)) | kwargs
    return {key: value for key, value in named.items() if key not in ("input", "weight")}


def require_inside(index: Tensor, rows: int) -> None:
    """Refuse numbers of rows that no process has; a GPU is not waited for."""
    if index.device.type != "cpu" or CONTEXT.capture is not None or not index.numel():
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= rows:
        wrong = low if low < 0 else high
        raise BoundsError(f"embedding: index {wrong} is out of bounds for a table of {rows} rows")


# -- along dimensions, and rearranged ------------------------------------------------------------


def along(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function along one dimension: each process has whole lines, if others are divided."""
    x = args[0]
    at = 2 if func.__name__ == "normalize" else 1
    dim = kwargs.get("dim", args[at] if len(args) > at else None)
    others = (*args[1:], *kwargs.values())
    if not isinstance(dim, int) or not x.ndim or any(isinstance(a, Tensor) for a in others):
        return whole(func, args, kwargs)
    placements = [
        Replicate() if p.is_partial() or p == Shard(dim % x.ndim) else p
        for p in x._layout.placements
    ]
    layout = x._layout.with_placements(placements)
    local = move(part_of(x), x._layout, layout)
    return wrapped(call(func, (local, *args[1:]), kwargs), lambda _: layout)


def last_dimensions(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """layer_norm and rms_norm: of the last dimensions, which have to be whole."""
    named = dict(zip(("input", "normalized_shape", "weight", "bias", "eps"), args, strict=False))
    if func.__name__ == "rms_norm":
        named = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False))
    named |= kwargs
    x = named.pop("input")
    refuse_mixed(func.__name__, [x, named.get("weight"), named.get("bias")])
    if not isinstance(x, DTensor):
        return whole(func, args, kwargs)
    free = x.ndim - len(named["normalized_shape"])
    placements = [
        p if isinstance(p, Shard) and p.dim < free else Replicate() for p in x._layout.placements
    ]
    divided = [at for at, p in enumerate(placements) if p.is_shard()]
    layout = x._layout.with_placements(placements)
    for key in ("weight", "bias"):
        parameter = named.get(key)
        if isinstance(parameter, DTensor):
            named[key] = shared(parameter.full_tensor(), parameter._layout, divided)
    out = call(func, (move(part_of(x), x._layout, layout),), named)
    return as_dtensor(out, layout)


def permuted(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dimensions in another order."""
    x = args[0]
    places = list(range(x.ndim))
    if func.__name__ in ("t", "T"):
        order = places[::-1]
    elif func.__name__ in ("transpose", "swapaxes"):
        a, b = (*args[1:], *kwargs.values())
        order = list(places)
        order[a], order[b] = order[b], order[a]
    else:
        given = args[1:] if args[1:] and isinstance(args[1], int) else (*args[1:], *kwargs.values())
        dims = given if given and isinstance(given[0], int) else given[0]
        order = [d % x.ndim for d in dims]
    placements: list[Placement] = [
        Shard(order.index(p.dim)) if isinstance(p, Shard) else p for p in x._layout.placements
    ]
    local = call(func, (part_of(x), *args[1:]), kwargs)
    shape = [x.shape[d] for d in order]
    return as_dtensor(local, x._layout.like(placements, shape))


def backward(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Backward from a loss: each process from its part of it."""
    loss, *rest = args
    given = rest[0] if rest else kwargs.pop("gradient", None)
    if loss.ndim and given is None:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if isinstance(given, DTensor):
        given = part_of(given.redistribute(placements=_without_sums(loss.placements)))
    call(func, (part_of(loss), given, *rest[1:]), kwargs)


def question(answer: Callable[..., Any]) -> Any:
    """A rule for a function that is told by the shape alone."""

    def rule(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return answer(*args, **kwargs)

    return rule


def _size(x: DTensor, dim: int | None = None) -> Any:
    return x.shape if dim is None else x.shape[dim]


def register_hook(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A hook that is given the gradient as a DTensor."""
    x, hook = args

    def with_dtensor(grad: Tensor) -> Any:
        changed = hook(as_dtensor(grad, x._layout))
        return part_of(changed) if isinstance(changed, DTensor) else changed

    return call(func, (x, with_dtensor), kwargs)


def value(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Python value of the whole tensor."""
    leaves, structure, _ = operands(args, kwargs)
    refuse_mixed(func.__name__, leaves)
    given = [x.full_tensor() if isinstance(x, DTensor) else x for x in leaves]
    return call(func, *unflatten(structure, given))


_VALUES = "item tolist numpy __bool__ __float__ __int__ __index__ equal allclose".split()
TABLE: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(names.POINTWISE, pointwise),
    **dict.fromkeys(names.POINTWISE_IN_PLACE, pointwise_in_place),
    **dict.fromkeys(names.OF_EACH_PART, each_part),
    **dict.fromkeys(names.OF_EACH_WHOLE_PART, each_whole_part),
    **dict.fromkeys(names.OF_ITSELF, itself),
    **dict.fromkeys(names.PRODUCTS, product),
    **dict.fromkeys(names.ALONG, along),
    **dict.fromkeys(("sum", "mean"), total),
    **dict.fromkeys(("layer_norm", "rms_norm"), last_dimensions),
    **dict.fromkeys(("t", "transpose", "swapaxes", "permute"), permuted),
    **dict.fromkeys(_VALUES, value),
    "__setitem__": whole_in_place,
    "embedding": embedding,
    "backward": backward,
    "register_hook": register_hook,
    "size": question(_size),
    "dim": question(lambda x: len(x.shape)),
    "ndimension": question(lambda x: len(x.shape)),
    "numel": question(lambda x: x.shape.numel()),
    "nelement": question(lambda x: x.shape.numel()),
    "stride": question(DTensor.stride),
}
RULES.run = run_on_parts
