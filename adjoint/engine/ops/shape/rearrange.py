"""Copies in another order: flips, rolls, rotations, repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import integer

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.layout import contiguous_format
from adjoint.engine.core.operations.families import (
    depends_on_values,
    linear,
    primitive,
    sized_by_values,
)
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec, wrap_dim, wrap_dims
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import ints, listed
from adjoint.engine.ops.index.index import INDEX

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


def _same_spec(x: Spec, **_: Any) -> Spec:
    return x


FLIP: Record = linear(
    "flip",
    _same_spec,
    lambda g, dims: FLIP(g, dims=dims),
    keeps_layout=True,
    batched_params=lambda params, size: {"dims": tuple(d + 1 for d in params["dims"])},
    native_check=True,
    fragment="plain",
    selects=True,
)
ROLL: Record = linear(
    "roll",
    _same_spec,
    lambda g, shifts, dims: ROLL(g, shifts=tuple(-s for s in shifts), dims=dims),
    keeps_layout="images",
    batched_params=lambda params, size: {
        "shifts": params["shifts"],
        "dims": tuple(d + 1 for d in params["dims"]),
    },
    native_check=True,
    fragment="computed",
    selects=True,
)


@public()
def flip(input: Tensor, dims: Any) -> Tensor:
    """A copy with elements in reverse order along `dims`.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([1, 2, 3]).flip(0)
        tensor([3, 2, 1])
    """
    wrapped = wrap_dims("flip", listed(dims), max(input.ndim, 1))
    return FLIP(input, dims=wrapped if input.ndim else ())


@method(name="flip")
def flip_method(self: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """A copy with elements in reverse order along `dims`."""
    return flip(self, ints("flip", args, dims))


@public(method=True)
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise ShapeError("fliplr: Input must be >= 2-d.")
    return flip(input, (1,))


@public(method=True)
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise ShapeError("flipud: Input must be >= 1-d.")
    return flip(input, (0,))


@public(method=True)
def roll(input: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """Elements moved along `dims`, those that fall off coming back at the other end.

    >>> import adjoint as ad
    >>> ad.arange(4).roll(1)
    tensor([3, 0, 1, 2])
    """
    by, along = ints("roll", listed(shifts)), ints("roll", listed(dims))
    if not by:
        raise RuntimeError("roll: `shifts` required")
    if not along and len(by) == 1:
        return roll(input.reshape(-1), by, 0).reshape(input.shape)
    if len(by) != len(along):
        raise ShapeError(
            f"roll: shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}"
        )
    wrapped = tuple(wrap_dim("roll", d, input.ndim) for d in along)
    if not input.ndim:
        raise ShapeIndexError("roll: Dimension specified as 0 but tensor has no dimensions")
    return ROLL(input, shifts=by, dims=wrapped)


@public(method=True)
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Rotated by `k` quarter turns in the plane of two dimensions."""
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise ShapeError(f"rot90: expected total dims >= 2, but got total dims = {input.ndim}")
    if len({wrap_dim("rot90", d, input.ndim) for d in dims}) < 2:
        raise RuntimeError(
            "rot90: expected rotation dims to be different, but got dim0 = "
            f"{dims[0]} and dim1 = {dims[1]}"
        )
    a, b = wrap_dims("rot90", dims, input.ndim)
    match k % 4:
        case 1:
            return flip(input, (b,)).transpose(a, b)
        case 2:
            return flip(input, (a, b))
        case 3:
            return flip(input, (a,)).transpose(a, b)
        case _:
            return input.clone(memory_format=contiguous_format)


# -- repeats ------------------------------------------------------------------------------------


@method
def repeat(self: Tensor, *args: Any, repeats: Any = None) -> Tensor:
    """Copies of the tensor side by side, so many along each dimension."""
    times = ints("repeat", args, repeats)
    added = len(times) - self.ndim
    if added < 0:
        raise ShapeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of "
            f"dimensions of tensor: received {len(times)} for {self.ndim} dimensions"
        )
    if any(t < 0 for t in times):
        raise ShapeError(f"repeat: trying to create tensor with negative dimension: {list(times)}")
    shape = (*(1,) * added, *self.shape)
    apart = [n for size in shape for n in (1, size)]
    wide = [n for pair in zip(times, shape, strict=True) for n in pair]
    whole = [t * n for t, n in zip(times, shape, strict=True)]
    copied = self.reshape(apart).expand(wide).clone(memory_format=contiguous_format)
    return copied.reshape(whole)


@public()
def tile(input: Tensor, dims: Any) -> Tensor:
    """`repeat`, missing numbers of repetitions being 1.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([1, 2]).tile(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = ints("tile", (dims,))
    return input.repeat((1,) * (input.ndim - len(times)) + times)


@method(name="tile")
def tile_method(self: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """`repeat`, missing numbers of repetitions being 1."""
    return tile(self, ints("tile", args, dims))


# Which element each place of a `repeat_interleave` shows; `total` is the sum of the repeats.
REPEAT_INDICES = primitive(
    "repeat_indices", lambda x, total: Spec((total,), x.dtype, x.device), None
)


# The same where the sum is not known: on a GPU in eager mode, which is waited for once.
_refuse = depends_on_values("repeat_interleave", "Give its size: output_size=.")
REPEATED = primitive(
    "repeated",
    sized_by_values(_refuse, lambda size, x: Spec((size(),), x.dtype, x.device)),
    None,
    batch=_refuse,
    native_check=True,
)
NEGATIVE_REPEATS = "repeat_interleave: repeats can not be negative"


def _repeated_indices(repeats: Tensor, output_size: int | None) -> Tensor:
    if repeats.ndim != 1 or repeats.dtype.name not in ("int64", "int32"):
        kind = RuntimeError if repeats.ndim != 1 else NotImplementedError
        raise kind(
            "repeat_interleave: repeats must be a 0-dim or 1-dim int32 or int64 tensor, received "
            f"{repeats._spec}"
        )
    if output_size is None and CONTEXT.settled and repeats._array.__class__ in DEVICE_LAYOUTS:
        return REPEATED(repeats)
    if output_size is None:
        if repeats.numel() and (repeats < 0).any().item():
            raise RuntimeError(NEGATIVE_REPEATS)
        output_size = int(repeats.sum().item())
    return REPEAT_INDICES(repeats, total=output_size)


@public(method=True)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or slice along `dim`) repeated in place.

    >>> import adjoint as ad
    >>> ad.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        return _repeated_indices(input, output_size)
    x = input
    if dim is None:
        x, dim = x.reshape(-1), 0
    d = wrap_dim("repeat_interleave", dim, x.ndim)
    if not x.ndim:
        x = x.reshape(1)
    if is_tensor(repeats) and repeats.ndim == 1 and repeats.shape[0] == 1:
        repeats = repeats.reshape(())
    if isinstance(repeats, integer):
        repeats = int(repeats)
    if not is_tensor(repeats) and not isinstance(repeats, int):
        raise TypeError(
            f"repeat_interleave: repeats must be an int or a Tensor, received {type(repeats)}"
        )
    if is_tensor(repeats) and repeats.ndim == 0:
        repeats = int(repeats.item())
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError(
                f"repeat_interleave: repeats can not be negative, received {repeats}"
            )
        wide = (*x.shape[: d + 1], repeats, *x.shape[d + 1 :])
        whole = (*x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1 :])
        if output_size is not None and output_size != whole[d]:
            raise ShapeError(
                f"repeat_interleave: Invalid output_size, expected {whole[d]} but got {output_size}"
            )
        return x.unsqueeze(d + 1).expand(wide).clone(memory_format=contiguous_format).reshape(whole)
    if repeats.ndim == 1 and repeats.shape[0] != x.shape[d]:
        raise ShapeError(
            f"repeat_interleave: repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.shape[0]} and input.size({d}) = {x.shape[d]}"
        )
    chosen = _repeated_indices(repeats, output_size).to(int64)
    return INDEX(x, chosen, dims=(d,))


@public(method=True, out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product.

    Example:
        >>> import adjoint as ad
        >>> ad.kron(ad.eye(2, dtype=ad.long), ad.tensor([1, 2]))
        tensor([[1, 2, 0, 0],
                [0, 0, 1, 2]])
    """
    rank = max(input.ndim, other.ndim)
    a = (*(1,) * (rank - input.ndim), *input.shape)
    b = (*(1,) * (rank - other.ndim), *other.shape)
    left = input.reshape([n for size in a for n in (size, 1)])
    right = other.reshape([n for size in b for n in (1, size)])
    return (left * right).reshape([m * n for m, n in zip(a, b, strict=True)])
