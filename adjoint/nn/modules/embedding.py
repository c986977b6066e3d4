"""Tables of vectors picked by index."""

from __future__ import annotations

from typing import Any, Self

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class _Table(Module):
    """What single embeddings and bags share: the table and how it starts."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Parameter

    def _make_table(
        self, weight: Tensor | None, device: Any, dtype: DType | None, frozen: bool = False
    ) -> None:
        size = (self.num_embeddings, self.embedding_dim)
        if self.padding_idx is not None:
            if not -size[0] <= self.padding_idx < size[0]:
                raise AssertionError(
                    f"{type(self).__name__}: Padding_idx must be within num_embeddings, received "
                    f"{self.padding_idx} for {size[0]}"
                )
            self.padding_idx %= size[0]
        if weight is None:
            table = empty(size, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(weight.shape) != size:
            raise AssertionError(
                f"{type(self).__name__}: Shape of weight does not match num_embeddings and "
                f"embedding_dim: {tuple(weight.shape)} and {size}"
            )
        self.weight = Parameter(weight, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw the table from the standard normal law; the padding row is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @staticmethod
    def _check_pretrained(embeddings: Tensor) -> tuple[int, int]:
        if embeddings.ndim != 2:
            raise AssertionError(
                f"Embeddings parameter is expected to be 2-dimensional, received "
                f"{tuple(embeddings.shape)}"
            )
        rows, columns = embeddings.shape
        return rows, columns


class Embedding(_Table):
    """A table of vectors, looked up by index.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each.
        padding_idx: a row that starts at zero and gets no gradient.
        max_norm: rows looked up are first scaled down to this norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide a row's gradient by the number of its occurrences in the batch.
        sparse: whether the gradient of the table is a sparse tensor of the rows looked up.

    Shape:
        integers (...) -> (..., embedding_dim)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Embedding(10, 3)(ad.tensor([[1, 2], [4, 5]])).shape
        adjoint.Size([2, 2, 3])
    """

    __constants__ = ["num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type"]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_table(_weight, device, dtype, _freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            shown += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            shown += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            shown += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            shown += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return shown + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer with a given table, not trained unless `freeze` is False."""
        rows, columns = cls._check_pretrained(embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of embeddings.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each.
        max_norm: rows looked up are first scaled down to this norm, in place.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of the table is a sparse tensor of the rows looked up.
        include_last_offset: whether offsets end with the end of the last bag.
        padding_idx: a row that counts in no bag.

    Shape:
        integers (B, N), or (N,) with offsets (B,) -> (B, embedding_dim)

    Example:
        >>> import adjoint as ad
        >>> bags = ad.nn.EmbeddingBag(10, 3, mode="sum")
        >>> bags(ad.tensor([[1, 2, 4], [4, 3, 2]])).shape
        adjoint.Size([2, 3])
        >>> bags(ad.tensor([1, 2, 4, 5]), ad.tensor([0, 3])).shape
        adjoint.Size([2, 3])
    """

    __constants__ = ["num_embeddings", "embedding_dim", "max_norm", "norm_type", "mode"]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        self._make_table(_weight, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            shown += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            shown += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            shown += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        shown += f", mode={self.mode!r}"
        return shown + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer with a given table, not trained unless `freeze` is False."""
        rows, columns = cls._check_pretrained(embeddings)
        layer = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad_(not freeze)
        return layer
