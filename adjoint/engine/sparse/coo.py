"""CooTensor: elements with their coordinates, in any order; repeated ones add up.

Note [coalescing]
    Coordinates are turned into one number each, the position in a dense tensor of the sparse
    dimensions. Sorting these gives the order, equal neighbours are one element, and a running
    count of the changes says which: elements are then added up by index_put. How many remain
    depends on the data, so a capture, which must know every size, cannot coalesce.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.layout import Layout, sparse_coo
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.sparse.tensor import SparseTensor, bare
from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


class CooTensor(SparseTensor):
    """A tensor of layout `sparse_coo`.

    The first `sparse_dim` dimensions are indexed: column k of `_coordinates` says where element k
    is. The other dimensions are those of each element.
    """

    __slots__ = ("_coalesced", "_coordinates")
    _coalesced: bool
    _coordinates: Tensor  # (sparse_dim, nnz), int64

    # -- the layout ---------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """`sparse_coo`."""
        return sparse_coo

    @property
    def is_sparse(self) -> bool:
        """True: the layout is `sparse_coo`."""
        return True

    def with_elements(self, elements: Tensor) -> CooTensor:
        return make(self._coordinates, elements, tuple(self.shape), self._coalesced)

    def tensors(self) -> tuple[Tensor, ...]:
        return (self._coordinates, self._elements)

    def rest(self) -> tuple[Any, ...]:
        return (tuple(self.shape), self._coalesced)

    @staticmethod
    def assemble(*parts: Any) -> CooTensor:
        return make(*parts)

    def shown(self) -> dict[str, Tensor]:
        """What is printed, by name."""
        return {"indices": self._coordinates, "values": self._elements}

    def moved(self, device: Any) -> CooTensor:
        elements = self._elements.to(device)
        if elements is self._elements:
            return self
        return make(self._coordinates.to(device), elements, tuple(self.shape), self._coalesced)

    # -- parts --------------------------------------------------------------------------------

    def _indices(self) -> Tensor:
        """The coordinates of the elements kept: (sparse_dim, nnz)."""
        return self._coordinates

    def is_coalesced(self) -> bool:
        """Whether coordinates are sorted and none is repeated."""
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> CooTensor:
        """State that the tensor is coalesced; the caller must know."""
        self._coalesced = coalesced
        return self

    def indices(self) -> Tensor:
        """The coordinates of a coalesced tensor's elements."""
        self._require_coalesced("indices")
        return self._coordinates

    def values(self) -> Tensor:
        """The elements of a coalesced tensor."""
        self._require_coalesced("values")
        return self._elements

    def _require_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def new(self, *args: Any) -> Any:
        """A sparse tensor of indices, elements and sizes, or of none (PyTorch's old form)."""
        create = PUBLIC["", "sparse_coo_tensor"].fn
        if not args or not isinstance(args[0], Tensor):
            sizes = args[0] if args and isinstance(args[0], tuple) else args or (0,)
            return create(sizes, dtype=self.dtype, device=self.device)
        return create(*args, dtype=self.dtype, device=self.device)

    def coalesce(self) -> CooTensor:
        """The tensor with coordinates sorted and repeated ones added up.

        Example:
            >>> import adjoint as ad
            >>> x = ad.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 3.0], (3,))
            >>> x.coalesce().values()
            tensor([2., 4.])
        """
        if self._coalesced:
            return self
        refuse_capture("coalesce")
        size, rank = tuple(self.shape), self.sparse_dim()
        keys = positions(self._coordinates, size[:rank])
        unique_keys, place = keys.unique(return_inverse=True)
        elements = self._elements
        total = elements.new_zeros((unique_keys.shape[0], *elements.shape[1:]))
        summed = INDEX_PUT(total, elements, place, dims=(0,), accumulate=True)
        return make(coordinates_of(unique_keys, size[:rank]), summed, size, coalesced=True)

    # -- conversion ---------------------------------------------------------------------------

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        zeros = self._elements.new_zeros(tuple(self.shape))
        dense = added(zeros, self)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse_coo(self) -> CooTensor:
        """The tensor itself."""
        return self

    def at(self) -> tuple[Tensor, ...]:
        return tuple(self._coordinates.unbind(0))

    def spread(self) -> CooTensor:
        return self

    def in_order(self) -> CooTensor:
        return self

    def in_layout(self, sparse: CooTensor) -> CooTensor:
        return sparse

    # -- the tape -----------------------------------------------------------------------------

    def as_gradient(self, elements: Tensor) -> CooTensor:
        """A gradient of the elements as one of this tensor.

        Repeated coordinates stand for one element, whose gradient each of them carries: it is
        stated once, not added up.
        """
        if self._coalesced:
            return self.with_elements(elements)
        total = self.with_elements(elements).coalesce()
        often = self.with_elements(elements.new_ones(elements.shape)).coalesce()
        return total.with_elements(total._elements / often._elements)

    # -- writing ------------------------------------------------------------------------------

    def zero_(self) -> CooTensor:
        """Drop every element."""
        none = make(
            self._coordinates[:, :0], self._elements.detach()[:0], tuple(self.shape), coalesced=True
        )
        return self.take(none)

    def mul_(self, other: Any) -> CooTensor:
        """In-place form of `mul`: the elements are written to where they are."""
        return self._scale("mul_", other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> CooTensor:
        """In-place form of `div`."""
        if rounding_mode is not None:
            return self.take(self.div(other, rounding_mode=rounding_mode))
        return self._scale("div_", other)

    def _scale(self, name: str, other: Any) -> CooTensor:
        if isinstance(other, Tensor) and (other.ndim or isinstance(other, SparseTensor)):
            return self.take(getattr(self, name[:-1])(other))
        getattr(self._elements, name)(other)
        self._storage.version += 1
        return self

    __imul__ = mul_
    __itruediv__ = div_


def make(coordinates: Tensor, elements: Tensor, size: Shape, coalesced: bool) -> CooTensor:
    """A tensor of parts that are known to fit."""
    tensor: CooTensor = bare(CooTensor, elements, tuple(size))
    tensor._coordinates = coordinates
    tensor._coalesced = coalesced or (elements.shape[0] < 2)
    return tensor


def refuse_capture(name: str) -> None:
    """Refuse what gives as many elements as the data say, inside a capture."""
    if CONTEXT.capture is not None:
        raise CaptureError(
            f"{name}: how many elements a sparse tensor keeps, at {users_line()}, depends on its "
            "data, which are not known inside a capture. Do this before the captured function is "
            "called; for embeddings, pass sparse=False."
        )


def positions(coordinates: Tensor, size: Shape) -> Tensor:
    """Coordinates as positions in a dense tensor of `size`: (nnz,)."""
    if len(size) == 1:
        return coordinates[0]
    steps = coordinates.new_tensor(contiguous_strides(size)).unsqueeze(1)
    return (coordinates * steps).sum(0)


def coordinates_of(keys: Tensor, size: Shape) -> Tensor:
    """The coordinates that `positions` turned into these."""
    if len(size) == 1:
        return keys.unsqueeze(0)
    rows = []
    for step, extent in zip(contiguous_strides(size), size, strict=True):
        rows.append((keys // max(step, 1)) % max(extent, 1))
    return stack(rows) if rows else keys.new_zeros((0, keys.shape[0]))


def added(dense: Tensor, sparse: CooTensor) -> Tensor:
    """dense + sparse, of one shape."""
    rank = sparse.sparse_dim()
    elements = sparse._elements
    if rank == 0:
        return dense + elements.sum(0)
    rows = sparse._coordinates.unbind(0)
    dims = tuple(range(rank))
    return INDEX_PUT(dense, elements, *rows, dims=dims, accumulate=True, wrap=False)


def picked(dense: Tensor, sparse: SparseTensor) -> Tensor:
    """The elements of a dense tensor of the same shape where a sparse one keeps some."""
    at = sparse.at()
    if not at:
        return dense.unsqueeze(0).expand((sparse._nnz(), *dense.shape))
    return INDEX(dense, *at, dims=tuple(range(len(at))), wrap=False)


def empty_like(sparse: CooTensor, size: Shape) -> CooTensor:
    """A tensor of another size that keeps no elements."""
    rank = min(sparse.sparse_dim(), len(size))
    elements = sparse._elements
    none = elements.new_zeros((0, *size[rank:]))
    return make(elements.new_zeros((rank, 0), dtype=int64), none, size, coalesced=True)


def full_size(sparse: CooTensor) -> int:
    """The number of elements of the dense tensor."""
    return prod(sparse.shape)
