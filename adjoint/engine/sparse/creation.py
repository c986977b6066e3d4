"""Making sparse tensors: of positions and elements, or of the nonzero elements of a dense one."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType, int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import sparse_coo
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.convert import _TYPE_NAMES
from adjoint.engine.sparse.coo import CooTensor, make, picked
from adjoint.engine.sparse.products import masked
from adjoint.engine.sparse.tensor import SparseTensor, conversion
from adjoint.engine.tensor.tensor import Tensor

Size = tuple[int, ...]


def as_tensor(data: Any, dtype: Any, device: Any) -> Tensor:
    """Data as a tensor, sharing its memory where it is one already."""
    if not is_tensor(data):
        return HOOKS.array.tensor(data, dtype=dtype, device=device)
    return data.to(device=device or data.device, dtype=dtype or data.dtype)


def as_elements(values: Any, dtype: Any, device: Any, *, requires_grad: bool) -> Tensor:
    """The elements of a new tensor: a leaf if asked for, else with the history of `values`."""
    elements = as_tensor(values, dtype, device)
    if elements.ndim == 0:
        elements = elements.reshape((1,))
    if requires_grad or not elements.requires_grad:
        return elements.detach().requires_grad_(requires_grad)
    return elements.view_as(elements)  # a step of its own, so that the sparse tensor is no leaf


@public()
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor of coordinates and elements; elements with the same coordinates add up.

    Args:
        indices: (sparse_dim, nnz), where each element is.
        values: (nnz, ...), the elements; further dimensions are dense ones.
        size: the shape; by default just large enough.
        is_coalesced: states that coordinates are sorted and none is repeated.

    Example:
        >>> import adjoint as ad
        >>> x = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> x
        tensor(indices=tensor([[0, 1, 1],
                               [2, 0, 2]]),
               values=tensor([3., 4., 5.]),
               size=(2, 3), nnz=3, layout=adjoint.sparse_coo)
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
    """
    if values is None:  # only a size, under either name
        return _empty(tuple(indices if size is None else size), dtype, device, requires_grad)
    elements = as_elements(values, dtype, device, requires_grad=requires_grad)
    coordinates = as_tensor(indices, int64, device or elements.device)
    if coordinates.ndim == 1 and not coordinates.shape[0]:
        coordinates = coordinates.reshape((0 if size is None else len(size), 0))
    check_coordinates(coordinates, elements)
    size = _fitting(coordinates, elements) if size is None else tuple(size)
    check_shape(coordinates, elements, size)
    check_bounds(coordinates, size)
    return make(coordinates.detach(), elements, size, coalesced=bool(is_coalesced))


def _empty(size: Size, dtype: Any, device: Any, requires_grad: bool) -> CooTensor:
    elements = HOOKS.array.tensor([], dtype=dtype, device=device, requires_grad=requires_grad)
    return make(elements.new_zeros((len(size), 0), dtype=int64), elements, size, coalesced=True)


def check_coordinates(coordinates: Tensor, elements: Tensor) -> None:
    """Refuse coordinates that are not one column for each element."""
    if coordinates.ndim != 2:
        raise ShapeError(
            "indices must be sparse_dim x nnz, but got: "
            f"{list(coordinates.shape)}. Give one row of indices for each sparse dimension."
        )
    if coordinates.shape[1] != elements.shape[0]:
        raise ShapeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{coordinates.shape[1]}, nnz from values: {elements.shape[0]}"
        )


def _fitting(coordinates: Tensor, elements: Tensor) -> Size:
    """The smallest size that has room for the coordinates."""
    if not coordinates.shape[1]:
        return (*(0,) * coordinates.shape[0], *elements.shape[1:])
    return (*(n + 1 for n in coordinates.amax(1).tolist()), *elements.shape[1:])


def check_shape(coordinates: Tensor, elements: Tensor, size: Size) -> None:
    """Refuse a size that does not fit the parts."""
    rank, dense = coordinates.shape[0], elements.ndim - 1
    if len(size) != rank + dense:
        raise ShapeError(
            "sparse_coo_tensor: 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) "
            f"= {len(size)}, sparse_dim = {rank}, dense_dim = {dense}"
        )
    if tuple(size[rank:]) != tuple(elements.shape[1:]):
        raise ShapeError(
            f"sparse_coo_tensor: values have shape {list(elements.shape)}, which does not end in "
            f"the dense part of the size {list(size)}"
        )


def check_bounds(coordinates: Tensor, size: Size) -> None:
    """Refuse coordinates outside a tensor of this size."""
    rank = coordinates.shape[0]
    if not coordinates.shape[1] or not rank or CONTEXT.capture is not None:
        return
    low, high = coordinates.amin(1).tolist(), coordinates.amax(1).tolist()
    for dim, (least, most) in enumerate(zip(low, high, strict=True)):
        if least < 0 or most >= size[dim]:
            raise RuntimeError(
                f"sparse_coo_tensor: indices along dimension {dim} run from {least} to {most}, "
                f"but the size there is {size[dim]}"
            )


# -- from dense tensors -------------------------------------------------------------------------


@method
def to_sparse(
    self: Tensor,
    sparse_dim: Any = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """The nonzero elements as a sparse tensor: with coordinates, or in the layout given.

    >>> import adjoint as ad
    >>> ad.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    layout = sparse_dim if layout is None and not isinstance(sparse_dim, int) else layout
    if layout is not None and layout is not sparse_coo:
        return _by_lines(self, layout, blocksize, dense_dim or 0)
    rank = sparse_dim if isinstance(sparse_dim, int) else self.ndim
    if not 0 < rank <= self.ndim:
        raise RuntimeError(
            f"to_sparse: sparse_dim must be from 1 to {self.ndim}, received {sparse_dim}"
        )
    nonzero = self.detach() != 0
    if rank < self.ndim:
        nonzero = nonzero.flatten(rank).any(-1)
    coordinates = nonzero.nonzero().t().contiguous()
    blank = make(coordinates, self.new_zeros((coordinates.shape[1], *self.shape[rank:])),
                 tuple(self.shape), coalesced=True)  # fmt: skip
    return blank.with_elements(picked(self, blank))


def _by_lines(x: Tensor, layout: Any, blocksize: Any, dense: int) -> Any:
    """The nonzero elements of matrices in another layout; what is before them is a batch."""
    convert, name = conversion("to_sparse", layout), f"to_{layout.name}"
    if x.ndim < 2 or not 0 <= dense <= x.ndim - 2:
        raise RuntimeError(
            f"{name}: dense_dim argument must be in [0,{x.ndim - 2}] range, but {dense} is given "
            f"for a tensor of {x.ndim} dimensions"
        )
    return convert(to_sparse(x, x.ndim - dense), blocksize, x.ndim - dense - 2)


@method
def to_sparse_coo(self: Tensor) -> Any:
    """The nonzero elements with their coordinates."""
    return to_sparse(self)


@method
def sparse_mask(self: Tensor, mask: Any) -> Any:
    """The elements at the positions that a sparse tensor keeps."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError(f"sparse_mask: expected a sparse mask, received {mask._spec}")
    if mask.shape != self.shape:
        raise ShapeError(
            f"sparse_mask: the mask has shape {list(mask.shape)}, the tensor {list(self.shape)}"
        )
    return masked(self, mask)


@method
def dense_dim(self: Tensor) -> int:
    """How many dimensions are dense: all of them."""
    return self.ndim


@method
def sparse_dim(self: Tensor) -> int:
    """How many dimensions are indexed: none."""
    return 0


def only_sparse(name: str, layout: str) -> None:
    """Refuse a question that only tensors of some layout answer, as PyTorch does."""

    def refuse(self: Tensor) -> Any:
        received = self.layout.name.title().replace("_", "")  # sparse_csr: SparseCsr
        raise RuntimeError(f"{name} expected sparse {layout} tensor layout but got {received}")

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: the tensor is not sparse ({layout})."
    method(refuse)


for _name in ("coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz"):
    only_sparse(_name, "coordinate")


# -- PyTorch's constructors of old --------------------------------------------------------------


class SparseKind(type):
    """The type of `sparse.FloatTensor` and the like: makes tensors, knows them by dtype."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if len(args) > 1 and is_tensor(args[0]):
            return sparse_coo_tensor(*args, dtype=cls.dtype, device=device)
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return sparse_coo_tensor(size=tuple(sizes) or (0,), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, CooTensor) and instance.dtype is cls.dtype


KINDS = {
    f"{name}Tensor": SparseKind(
        f"{name}Tensor",
        (),
        {
            "dtype": dtype,
            "__module__": "torch.sparse",
            "__doc__": f"Sparse {dtype.name} tensors (PyTorch's old form).",
        },
    )
    for dtype, name in _TYPE_NAMES.items()
    if not dtype.is_complex
}

__all__ = ["KINDS", "sparse_coo_tensor"]
