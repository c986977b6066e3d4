"""Putting tensors together."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.errors import DeviceError, ShapeError, warn_user
from adjoint.engine.core.operations.families import device_of, linear
from adjoint.engine.core.operations.met_calls import is_followed
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.common.channels import channels_last, channels_second, goes_by_channels
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.shape.dims import atleast_1d, atleast_2d, atleast_3d
from adjoint.engine.ops.shape.triangular import triangle

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _cat_infer(*xs: Spec, dim: int) -> Spec:
    first = xs[0].shape
    for i, x in enumerate(xs):
        if len(x.shape) != len(first):
            raise ShapeError(
                f"cat: tensors must have same number of dimensions: got {len(first)} and "
                f"{len(x.shape)} (tensor number {i})"
            )
        if any(a != b for d, (a, b) in enumerate(zip(x.shape, first, strict=True)) if d != dim):
            raise ShapeError(
                f"cat: sizes of tensors must match except in dimension {dim}. Expected {first}, "
                f"received {x.shape} for tensor number {i} in the list."
            )
    shape = (*first[:dim], sum(x.shape[dim] for x in xs), *first[dim + 1 :])
    return Spec(shape, common_dtype(xs), device_of("cat", xs))


def _cat_transpose(g: Tensor, x_specs: Sequence[Spec], position: int, dim: int) -> Tensor:
    start = sum(s.shape[dim] for s in x_specs[:position])
    return g.narrow(dim, start, x_specs[position].shape[dim])


def _cat_by_channels(*xs: Tensor, dim: int) -> Tensor | None:
    """Images whose channels all lie innermost, joined in that order."""
    if not all(map(goes_by_channels, xs)):
        return None
    rank = xs[0].ndim
    place = (0, rank - 1, *range(1, rank - 1))[dim]
    return channels_second(CAT(*map(channels_last, xs), dim=place))


CAT: Record = linear(
    "cat",
    _cat_infer,
    _cat_transpose,
    operands=("*xs",),
    keeps_layout="joined",
    by_channels=_cat_by_channels,
    batched_params=lambda params, size: {"dim": params["dim"] + 1},
    native_check=True,
    rounding="exact",
    fragment="plain",
    in_steps=True,
)


def _stack_infer(*xs: Spec, dim: int) -> Spec:
    first = xs[0].shape
    for i, x in enumerate(xs):
        if x.shape != first:
            raise ShapeError(
                f"stack: expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(x.shape)} at entry {i}"
            )
    shape = (*first[:dim], len(xs), *first[dim:])
    return Spec(shape, common_dtype(xs), device_of("stack", xs))


# A primitive of its own: as a `cat` of unsqueezed tensors it would cost a view for each.
STACK = linear(
    "stack",
    _stack_infer,
    lambda g, position, dim: g.select(dim, position),
    operands=("*xs",),
    keeps_layout="stacked",
    batched_params=lambda params, size: {"dim": params["dim"] + 1},
    native_check=True,
    rounding="exact",
    fragment="plain",
    in_steps=True,
)


# Tensors from which on, and elements of each up to which, looking at them is what stacking takes.
MANY, FEW = 6, 4096


def _plain_arrays(tensors: Any) -> list[Any] | None:
    """The arrays of many tensors of the CPU's that nobody looks at; None where it is not so simple.

    On the general way each operand is looked at several times over: for programs that fit, its
    device, its dtype, its place on the tape.
    """
    if tensors.__class__ not in (list, tuple) or len(tensors) < MANY:
        return None
    if not CONTEXT.plain or LISTENERS or OVERRIDES.active:
        return None
    for kind in {x.__class__ for x in tensors}:
        if not issubclass(kind, TensorBase):
            return None
    if CONTEXT.grad_enabled:  # few are asked: those of which the tape may know
        for x in [x for x in tensors if x._requires_grad or x._base is not None]:
            if is_followed(x):
                return None
    arrays = [x._array for x in tensors]
    if {array.__class__ for array in arrays} != {ndarray}:
        return None
    dtype = arrays[0].dtype
    return None if [array for array in arrays if array.dtype is not dtype] else arrays


def _stacked_at_once(tensors: Any, dim: int) -> Tensor | None:
    """Many little tensors stacked by the record's kernel alone: a batch of examples is.

    None where it is not so simple.
    """
    arrays = _plain_arrays(tensors)
    if arrays is None:
        return None
    first = arrays[0]
    size = first.size
    if not 0 < size <= FEW or (not first.ndim and any(array.ndim for array in arrays)):
        return None
    # Of as many elements, in as many dimensions, equal in all but one as NumPy sees to: one shape.
    if [array for array in arrays if array.size != size]:
        return None
    place = wrap_dim("stack", dim, first.ndim + 1)
    try:
        stacked: Tensor = HOOKS.array.computed(STACK, arrays, dim=place)
    except (ValueError, IndexError):  # as it is, it says what is wrong
        return None
    return stacked


def _joined_at_once(tensors: Any, dim: int) -> Tensor | None:
    """The same of tensors side by side, of at least two dimensions."""
    arrays = _plain_arrays(tensors)
    if arrays is None or {array.ndim for array in arrays} != {arrays[0].ndim}:
        return None
    ndim = arrays[0].ndim
    if ndim < 2 or dim.__class__ is not int or not -ndim <= dim < ndim:
        return None
    if not dim % ndim and arrays[0].size > FEW:  # long pieces, which all cores copy
        return None
    try:
        joined: Tensor = HOOKS.array.computed(CAT, arrays, dim=dim % ndim)
    except (ValueError, IndexError):  # as it is, it says what is wrong
        return None
    return joined


def _listed(name: str, tensors: Any, shaped: Any = None) -> list[Any]:
    """The tensors to join, at least one, `shaped` first, then all of one dtype."""
    if is_tensor(tensors):
        raise TypeError(f"{name}: expected a tuple or list of Tensors, received one Tensor")
    many = list(tensors)
    mixed, dtype = False, None
    for x in many:
        if not isinstance(x, TensorBase):
            i = next(i for i, x in enumerate(many) if not is_tensor(x))
            raise TypeError(f"{name}: expected Tensor as element {i}, received {type(x).__name__}")
        own = x._array.dtype
        if dtype is None:
            dtype = own
        elif own is not dtype and own != dtype:
            mixed = True
    if not many:
        kind = ValueError if name == "cat" else RuntimeError
        raise kind(f"{name}: expected a non-empty list of Tensors")
    if shaped is not None:
        many = [shaped(x) for x in many]
    if not mixed:
        return many
    common = common_dtype(many)
    return [x.to(common) for x in many]


def _without_empty(many: list[Any], dim: int) -> list[Any]:
    """Those that are not empty vectors; one that is differentiated stays, as none of a slice."""
    kept = [x for x in many if x._array.shape != (0,)]
    if not kept:
        return many
    shape = list(kept[0]._array.shape)
    shape[wrap_dim("cat", dim, len(shape))] = 0
    return [
        x if x._array.shape != (0,) else x.reshape(shape)
        for x in many
        if x._array.shape != (0,) or x.requires_grad
    ]


def _cat(tensors: Any, dim: int) -> Tensor:
    joined = _joined_at_once(tensors, dim)
    if joined is not None:
        return joined
    many = _listed("cat", tensors)
    shapes = [x._array.shape for x in many]
    if () in shapes:
        raise ShapeError(
            f"cat: zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated"
        )
    if (0,) in shapes:  # a leniency PyTorch keeps: such a tensor joins any others
        many = _without_empty(many, dim)
        many[0] = many[0].contiguous()  # with such a one, results lie row by row
    return CAT(*many, dim=wrap_dim("cat", dim, many[0].ndim))


@public(out=True, aliases=("concat",))
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along an existing dimension.

    >>> import adjoint as ad
    >>> ad.cat([ad.zeros(1, 2), ad.ones(1, 2)])
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _cat(tensors, dim)


@public(out=True)
def concatenate(tensors: Any, dim: int = 0, axis: int | None = None) -> Tensor:
    """`cat`; `axis` is NumPy's name of `dim`."""
    return _cat(tensors, dim if axis is None else axis)


@public(out=True)
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension.

    Example:
        >>> import adjoint as ad
        >>> ad.stack([ad.tensor([1, 2]), ad.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    joined = _stacked_at_once(tensors, dim)
    if joined is not None:
        return joined
    many = _listed("stack", tensors)
    return STACK(*many, dim=wrap_dim("stack", dim, many[0].ndim + 1))


@public(out=True)
def hstack(tensors: Any) -> Tensor:
    """Side by side: along dimension 1, or 0 for vectors."""
    many = _listed("hstack", tensors, atleast_1d)
    return _cat(many, 0 if many[0].ndim == 1 else 1)


@public(out=True, aliases=("row_stack",))
def vstack(tensors: Any) -> Tensor:
    """One above the other: along dimension 0 of matrices, vectors being rows."""
    return _cat(_listed("vstack", tensors, atleast_2d), 0)


@public(out=True)
def dstack(tensors: Any) -> Tensor:
    """Along dimension 2."""
    return _cat(_listed("dstack", tensors, atleast_3d), 2)


@public(out=True)
def column_stack(tensors: Any) -> Tensor:
    """Side by side as columns, vectors becoming columns first."""
    return hstack(_listed("column_stack", tensors, _as_columns))


def _as_columns(x: Tensor) -> Tensor:
    return x.reshape(x.numel(), 1) if x.ndim <= 1 else x


@public()
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given ones along its diagonal."""
    if not tensors:
        return zeros(1, 0)
    for i, x in enumerate(tensors):
        if is_tensor(x) and x.ndim > 2:
            raise ShapeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{x.ndim} dimensions"
            )
    blocks = [atleast_2d(x) for x in _listed("block_diag", tensors)]
    width = sum(b.shape[1] for b in blocks)
    rows, left = [], 0
    for b in blocks:
        rows.append(b.constant_pad(((0, 0), (left, width - left - b.shape[1])), 0))
        left += b.shape[1]
    return CAT(*rows, dim=0)


@public()
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids from vectors; `indexing` is "ij" (rows first) or "xy".

    Example:
        >>> import adjoint as ad
        >>> rows, columns = ad.meshgrid(ad.arange(2), ad.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    many = list(tensors[0]) if len(tensors) == 1 and not is_tensor(tensors[0]) else list(tensors)
    if not many:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_user(
            "meshgrid: in an upcoming release, it will be required to pass the indexing argument. "
            'Pass indexing="ij" for the present behaviour.'
        )
        return meshgrid(*tensors, indexing="ij")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for x in many:
        if x.ndim > 1:
            raise ShapeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got {x.ndim}D"
            )
        if x.dtype is not many[0].dtype or x.device != many[0].device:
            raise DeviceError("meshgrid expects all tensors to have the same dtype and device")
    swap = indexing == "xy" and len(many) >= 2
    if swap:
        many[0], many[1] = many[1], many[0]
    shape = [x.numel() for x in many]
    rank = len(many)
    grids = [
        x.reshape([-1 if d == i else 1 for d in range(rank)] if x.numel() else
                  [shape[i] if d == i else 1 for d in range(rank)]).expand(shape)
        for i, x in enumerate(many)
    ]  # fmt: skip
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@public()
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    many = list(tensors[0]) if len(tensors) == 1 and not is_tensor(tensors[0]) else list(tensors)
    for x in many:
        if x.ndim != 1:
            raise ShapeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(many) == 1:
        return many[0]
    return stack([g.reshape(-1) for g in meshgrid(*many, indexing="ij")], 1)


@public()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, as rows."""
    if input.ndim != 1:
        raise ShapeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_zeros((0,))
    if r == 2:
        pairs = triangle(input.shape[0], 0 if with_replacement else 1, input.device)
        return input[pairs.t().contiguous()]
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = pick(range(input.shape[0]), r)
    flat = array("q", itertools.chain.from_iterable(rows))
    return input[HOOKS.array.index_tensor(flat, input.device)].reshape(len(flat) // r, r)
