"""Views that rearrange dimensions: exchanging, moving, adding, dropping, merging, splitting."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError, warn_user
from adjoint.engine.core.operations.public import method, prop, public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Size, wrap_dim, wrap_dims
from adjoint.engine.core.spec import broadcast_shapes as _broadcast_shapes
from adjoint.engine.ops.common.arguments import ints, listed, whole
from adjoint.engine.ops.shape.views import PERMUTE, RESHAPE, resolve_shape

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


# -- exchanging and moving ----------------------------------------------------------------------


@public(method=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[1, 2], [3, 4]]).transpose(0, 1)
        tensor([[1, 3],
                [2, 4]])
    """
    ndim = input.ndim
    a, b = wrap_dim("transpose", dim0, ndim), wrap_dim("transpose", dim1, ndim)
    order = list(range(ndim))
    if ndim:
        order[a], order[b] = order[b], order[a]
    return PERMUTE(input, dims=tuple(order))


@public(method=True)
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """A view with two dimensions exchanged (NumPy's name)."""
    return transpose(input, axis0, axis1)


@public(method=True)
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged."""
    return transpose(input, dim0, dim1)


@public(method=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; fewer dimensions are left as they are."""
    if input.ndim > 2:
        raise ShapeError(
            f"t: expects a tensor with <= 2 dimensions, but self is {input.ndim}D. Use transpose."
        )
    if input.ndim == 2:
        return PERMUTE(input, dims=(1, 0))
    return RESHAPE(input, shape=tuple(input.shape))


@prop
def T(self: Tensor) -> Tensor:
    """A view with all dimensions in reverse order."""
    if self.ndim != 2:
        warn_user(
            "T: reversing a tensor of other than 2 dimensions is deprecated. Use .mT for batches "
            "of matrices or .permute(*range(x.ndim - 1, -1, -1))."
        )
    return PERMUTE(self, dims=tuple(reversed(range(self.ndim))))


def _matrices(name: str, self: Tensor) -> Tensor:
    if self.ndim == 1:
        raise ShapeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    if self.ndim == 0:
        warn_user(f"Tensor.{name} is deprecated on 0-D tensors, where it is the identity.")
        return self
    return transpose(self, -2, -1)


@prop
def mT(self: Tensor) -> Tensor:
    """Each matrix transposed."""
    return _matrices("mT", self)


def _conjugated(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.is_complex else x


@prop
def mH(self: Tensor) -> Tensor:
    """Each matrix conjugated and transposed."""
    return _conjugated(_matrices("mH", self))


@prop
def H(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor. "
            "For batches of matrices, consider using tensor.mH"
        )
    return _conjugated(_matrices("H", self))


@public(method=True)
def adjoint(input: Tensor) -> Tensor:
    """Each matrix conjugated and transposed."""
    return _conjugated(_matrices("adjoint()", input))


@public(method=True, aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with dimensions moved to new places, the others keeping their order.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 3, 4).movedim(0, -1).shape
        adjoint.Size([3, 4, 2])
    """
    ndim = input.ndim
    src = tuple([whole("movedim", "source", d) for d in listed(source)])
    dst = tuple([whole("movedim", "destination", d) for d in listed(destination)])
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(src)} dims) should "
            f"contain the same number of dims as destination ({list(dst)} dims)"
        )
    src, dst = wrap_dims("movedim", src, ndim), wrap_dims("movedim", dst, ndim)
    rest = iter([d for d in range(ndim) if d not in src])
    placed = dict(zip(dst, src, strict=True))
    return PERMUTE(
        input, dims=tuple([placed[d] if d in placed else next(rest) for d in range(ndim)])
    )


# -- dimensions of size 1 -----------------------------------------------------------------------


@public(method=True)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without dimensions of size 1 (all, or those given).

    Example:
        >>> import adjoint as ad
        >>> ad.ones(1, 3, 1).squeeze().shape
        adjoint.Size([3])
    """
    shape = input._array.shape
    dims = range(len(shape)) if dim is None else wrap_dims("squeeze", listed(dim), len(shape))
    return RESHAPE(input, shape=tuple([n for d, n in enumerate(shape) if n != 1 or d not in dims]))


@public(method=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 at `dim`.

    >>> import adjoint as ad
    >>> ad.ones(2, 3).unsqueeze(-1).shape
    adjoint.Size([2, 3, 1])
    """
    shape = input._array.shape
    d = wrap_dim("unsqueeze", dim, len(shape) + 1)
    return RESHAPE(input, shape=(*shape[:d], 1, *shape[d:]))


def _of_tensors(fn: Any, tensors: tuple[Any, ...]) -> Any:
    """A function of one tensor, of several, or of a list of them."""
    if len(tensors) == 1 and is_tensor(tensors[0]):
        return fn(tensors[0])
    many = tensors[0] if len(tensors) == 1 else tensors
    return tuple(fn(x) for x in many)


@public()
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _of_tensors(lambda x: x.reshape(1) if x.ndim == 0 else x, tensors)


@public()
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions, new ones in front."""

    def widen(x: Tensor) -> Tensor:
        return x.reshape(1, 1) if x.ndim == 0 else x.unsqueeze(0) if x.ndim == 1 else x

    return _of_tensors(widen, tensors)


@public()
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions."""

    def widen(x: Tensor) -> Tensor:
        if x.ndim == 0:
            return x.reshape(1, 1, 1)
        if x.ndim == 1:
            return x.unsqueeze(0).unsqueeze(-1)
        return x.unsqueeze(-1) if x.ndim == 2 else x

    return _of_tensors(widen, tensors)


# -- merging and splitting ----------------------------------------------------------------------


@public(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` merged into one; a view where strides allow.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 3, 4).flatten(1).shape
        adjoint.Size([2, 12])
    """
    shape = input._array.shape
    ndim = len(shape)
    a, b = wrap_dim("flatten", start_dim, ndim), wrap_dim("flatten", end_dim, ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if ndim == 0:
        return input.reshape(1)
    if a == b:
        return input
    return input.reshape((*shape[:a], prod(shape[a : b + 1]), *shape[b + 1 :]))


@public(method=True)
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension; a view where the tensor is contiguous."""
    return input.contiguous().view(-1)


@public(method=True)
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension split into several; one of the sizes may be -1.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 12).unflatten(1, (3, -1)).shape
        adjoint.Size([2, 3, 4])
    """
    d = wrap_dim("unflatten", dim, input.ndim)
    parts = ints("unflatten", (sizes,))
    if not parts:
        raise ShapeError("unflatten: sizes must be non-empty")
    if not input.ndim:
        raise ShapeError("unflatten: a 0-d tensor has no dimension to split")
    try:
        parts = resolve_shape("unflatten", input.shape[d], parts)
    except RuntimeError as error:
        raise ShapeError(
            f"unflatten: Provided sizes {list(parts)} don't multiply up to the size of dim {d} "
            f"({input.shape[d]}) in the input tensor"
        ) from error
    return input.view((*input.shape[:d], *parts, *input.shape[d + 1 :]))


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of `other`."""
    return self.reshape(other.shape)


@method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view` with the shape of `other`."""
    return self.view(other.shape)


# -- broadcasting -------------------------------------------------------------------------------


@method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of `other`."""
    return self.expand(other.shape)


@public()
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """`input` expanded to a shape.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([1, 2]).broadcast_to(2, 2)
        tensor([[1, 2],
                [1, 2]])
    """
    return input.expand(size)


@method(name="broadcast_to")
def broadcast_to_method(self: Tensor, *args: Any, size: Any = None) -> Tensor:
    """The tensor expanded to a shape."""
    return self.expand(ints("broadcast_to", args, size))


@public()
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that operands of these shapes broadcast to.

    >>> import adjoint as ad
    >>> ad.broadcast_shapes((2, 1), (3,))
    adjoint.Size([2, 3])
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    for shape in given:
        for n in shape:
            if n < 0:
                raise ShapeError(
                    f"broadcast_shapes: trying to create tensor with negative dimension {n}"
                )
    return Size(_broadcast_shapes("broadcast_shapes", *given))


@public()
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to their common shape; those that have it are handed back themselves.

    Example:
        >>> import adjoint as ad
        >>> [part.shape for part in ad.broadcast_tensors(ad.ones(3, 1), ad.ones(2))]
        [adjoint.Size([3, 2]), adjoint.Size([3, 2])]
    """
    many = tensors[0] if len(tensors) == 1 and not is_tensor(tensors[0]) else tensors
    shapes = [tuple(x.shape) for x in many]
    shape = _broadcast_shapes("broadcast_tensors", *shapes)
    pairs = zip(many, shapes, strict=True)
    return tuple([x if own == shape else x.expand(shape) for x, own in pairs])
