"""Rows of a table picked by index, alone or pooled in bags; one-hot vectors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.errors import CaptureError, DTypeError, ShapeError, ShapeValueError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record, Rule, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.nn.bags import bag_numbers, pool, pool_evenly, pool_whole
from adjoint.engine.ops.nn.common import FUNCTIONAL, widen
from adjoint.engine.ops.reduce.norms import p_norm

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


LARGE_RESULT = 1 << 11  # elements of one-hot vectors from which on they are a program's


def _occurrences(index: Tensor, rows: int, dtype: Any) -> Tensor:
    """How often each row is picked."""
    ones = index.new_ones(index.shape, dtype=dtype)
    none = index.new_zeros((rows,), dtype=dtype)
    return INDEX_PUT(none, ones, index, dims=(0,), accumulate=True)


def _embedding(x: Tensor, index: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
    out = INDEX(x, index, dims=(0,), wrap=False)
    if padding is not None:
        index = index.contiguous()  # or rows would come to lie as it does
        out = WHERE(index.eq(padding).unsqueeze(-1), out.detach(), out)
    if by_frequency:  # the same value, and a gradient divided by the number of occurrences
        share = 1 / INDEX(_occurrences(index, x.shape[0], x.dtype), index, dims=(0,))
        constant = out.detach()
        scaled = constant + (out - constant) * share.unsqueeze(-1)
        out = WHERE(constant.isfinite(), scaled, out)  # the difference of infinities is no number
    return out


def _embedding_vjp(
    g: Tensor, index: Tensor, x_spec: Spec, padding: int | None, by_frequency: bool
) -> Tensor:
    if padding is not None:
        g = g.masked_fill(index.eq(padding).unsqueeze(-1), 0)
    out = INDEX_PUT(g.new_zeros(x_spec.shape), g, index, dims=(0,), accumulate=True)
    if by_frequency:
        out = out / _occurrences(index, x_spec.shape[0], g.dtype).clamp_min(1).unsqueeze(-1)
    return out


def _embedding_spec(x: Spec, index: Spec, padding: int | None, by_frequency: bool) -> Spec | None:
    if (
        len(x.shape) != 2
        or by_frequency
        or index.dtype not in (int32, int64)
        or x.device is not index.device
    ):
        return None
    return x._replace(shape=(*index.shape, x.shape[1]))


def _embedding_jvp(tx: Tensor, index: Tensor) -> Tensor:
    """What moves with the table, rows without a gradient too: `padding_idx` is backward's."""
    return INDEX(tx, index, dims=(0,), wrap=False)


EMBEDDING = composite(
    "embedding",
    _embedding,
    _embedding_vjp,
    None,
    jvp=Rule.of(_embedding_jvp),
    operands=("x", "index"),
    infer_specs=_embedding_spec,
    fragment="host",  # on a GPU its parts are, which are one launch
    indexed="read",
    lies_in_rows=True,
)


def _sparse_vjp(
    g: Tensor, index: Tensor, x_spec: Spec, padding: int | None, by_frequency: bool
) -> Tensor:
    """The gradient as rows of a sparse table, one for each pick."""
    if by_frequency:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    picks, rows = index.reshape((-1,)), g.reshape((-1, x_spec.shape[1]))
    if padding is not None:
        real = picks.ne(padding).nonzero().squeeze(1)
        picks, rows = INDEX(picks, real, dims=(0,)), INDEX(rows, real, dims=(0,))
    return HOOKS.load_sparse().rows(picks, rows, x_spec.shape)


# The same rows, with a gradient that is a sparse tensor.
EMBEDDING_SPARSE = composite(
    "embedding_sparse", EMBEDDING.__call__, _sparse_vjp, None, operands=("x", "index")
)


def _kind(name: str, sparse: bool, weight: Tensor) -> Record:
    """The record that gives the gradient asked for; in a capture its size must be known."""
    if not (sparse and CONTEXT.grad_enabled and weight.requires_grad):
        return EMBEDDING
    if CONTEXT.capture is not None:
        raise CaptureError(
            f"{name}: a sparse gradient cannot be part of a captured step, because the number of "
            "its rows depends on the data. Pass sparse=False: the gradient is then a dense tensor "
            "with the same values."
        )
    return EMBEDDING_SPARSE


def _check_index(name: str, index: Any, which: str = "input") -> Tensor:
    if not is_tensor(index):
        raise TypeError(f"{name}(): argument '{which}' must be Tensor, not {type(index).__name__}")
    if index.dtype not in (int64, int32):
        raise DTypeError(
            f"{name}: expected tensor for argument '{which}' to have one of the following scalar "
            f"types: Long, Int; but got {index.dtype.name} instead. Convert it with .long()."
        )
    return index if index.dtype is int64 else index.to(int64)


def _check_padding(name: str, padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"{name}: Padding_idx must be within num_embeddings, received {padding_idx} for {rows}"
        )
    return padding_idx + rows if padding_idx < 0 else padding_idx


def renormalise(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are picked down to a norm of at most `max_norm`, in place."""
    with CONTEXT.having(grad_enabled=False):
        table = weight.detach()
        picked = _occurrences(index, table.shape[0], table.dtype).gt(0)
        size = p_norm("embedding", table, norm_type, (1,), keepdim=False)
        scale = WHERE(picked & (size > max_norm), max_norm / (size + 1e-7), 1.0)
        table.mul_(scale.unsqueeze(1).to(table.dtype))


@public(namespaces=FUNCTIONAL)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at the indices in `input`.

    Args:
        input: indices, of any shape.
        weight: (rows, features).
        padding_idx: a row that gets no gradient.
        max_norm: rows picked are first scaled down, in place, to this norm.
        scale_grad_by_freq: divide the gradient of a row by the number of its occurrences.
        sparse: whether the gradient of `weight` is a sparse tensor of the rows picked.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.embedding(ad.tensor([1, 0]), ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    index = _check_index("embedding", input)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: 'weight' must be 2-D, received {list(weight.shape)}")
    padding = _check_padding("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        renormalise(weight, index, max_norm, norm_type)
    record = _kind("embedding", sparse, weight)
    return record(weight, index, padding=padding, by_frequency=scale_grad_by_freq)


@public(name="embedding")
def embedding_function(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at `indices`; a negative `padding_idx` means none."""
    padding = None if padding_idx < 0 else padding_idx
    return embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@public(name="embedding_renorm_")
def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """`weight` with the rows at `indices` scaled down to a norm of `max_norm`, in place."""
    renormalise(weight, _check_index("embedding_renorm_", indices, "indices"), max_norm, norm_type)
    return weight


# -- bags ---------------------------------------------------------------------------------------


def _check_factors(factors: Tensor, input: Tensor, weight: Tensor, mode: str) -> None:
    """Raise unless factors of the rows fit (`per_sample_weights`)."""
    if factors.shape != input.shape:
        raise ShapeValueError(
            "embedding_bag: If per_sample_weights is not None, then it must have the same "
            f"shape as the input ({list(input.shape)}), received {list(factors.shape)}"
        )
    if mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            f"supported for mode='sum' (got mode={mode!r})."
        )
    if factors.dtype is not weight.dtype:
        raise DTypeError(
            "embedding_bag: expected per_sample_weights to have the weight's dtype, received "
            f"{factors.dtype.name} and {weight.dtype.name}"
        )


def _check_offsets(first: int, last: int, length: int) -> None:
    if first:
        raise RuntimeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has "
            f"to start from position 0. However, got {first}"
        )
    if last > length:
        raise RuntimeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {length} but got "
            f"offsets[-1] of {last}"
        )


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Any, mode: str, per_sample_weights: Any
) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(
            f"embedding_bag: mode has to be one of sum, mean or max, received {mode!r}"
        )
    if weight.ndim != 2:
        raise ShapeValueError(
            "embedding_bag: weight has to be a 2D Tensor, but got Tensor of dimension "
            f"{weight.ndim}"
        )
    if not weight.dtype.is_floating_point:
        raise DTypeError(
            "embedding_bag: expected a weight of float16, bfloat16, float32 or float64, received "
            f"{weight.dtype.name}"
        )
    if per_sample_weights is not None:
        _check_factors(per_sample_weights, input, weight, mode)
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "embedding_bag: if input is 2D, then offsets has to be None, as input is treated is a "
            f"mini-batch of fixed length sequences. However, found offsets of {offsets._spec}"
        )
    if input.ndim == 1:
        if not is_tensor(offsets):
            raise ValueError("embedding_bag: offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ShapeValueError(
                f"embedding_bag: offsets has to be a 1D Tensor, got {offsets.ndim}D"
            )
    elif input.ndim != 2:
        raise ShapeValueError(
            f"embedding_bag: input has to be 1D or 2D Tensor, but got Tensor of dimension "
            f"{input.ndim}"
        )


@public(namespaces=FUNCTIONAL)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of embeddings.

    Args:
        input: (B, N) bags of equal length, or (N,) divided by `offsets`.
        weight: (rows, features).
        offsets: where each bag begins; with `include_last_offset`, also where the last one ends.
        mode: "sum", "mean" or "max".
        per_sample_weights: factors of the rows, for mode "sum".
        padding_idx: a row that counts in no bag.
        sparse: whether the gradient of `weight` is a sparse tensor of the rows picked.

    Example:
        >>> import adjoint as ad
        >>> table = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> ad.nn.functional.embedding_bag(ad.tensor([0, 1, 1]), table, ad.tensor([0, 2]))
        tensor([[2., 3.],
                [3., 4.]])
    """
    if input.ndim == 2 and per_sample_weights is not None:
        _check_bags(input, weight, offsets, mode, per_sample_weights)
    index = _check_index("embedding_bag", input)
    _check_bags(index, weight, offsets, mode, per_sample_weights)
    _check_maxima(mode, scale_grad_by_freq, sparse)
    record = _kind("embedding_bag", sparse, weight)
    padding = _check_padding("embedding_bag", padding_idx, weight.shape[0])
    begins: Tensor | None = None  # where bags begin, where that does not follow from their number
    if index.ndim == 2:
        bags = index.shape[0]
        index = index.reshape(-1)
    else:
        begins = _check_index("embedding_bag", offsets, "offsets")
        if CONTEXT.settled and begins.device is CPU and begins.shape[0]:
            _check_offsets(int(begins[0]), int(begins[-1]), index.shape[0])
        if include_last_offset:
            if not begins.shape[0]:
                raise RuntimeError(
                    "embedding_bag: include_last_offset: number of offsets should be at least 1"
                )
            known = CONTEXT.settled and begins.device is CPU
            if not known or int(begins[-1]) != index.shape[0]:
                # What comes after the last bag is a bag of its own, which is left out.
                return embedding_bag(
                    input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                    per_sample_weights, padding_idx=padding_idx,
                )[:-1]  # fmt: skip
            begins = begins[:-1]
        bags = begins.shape[0]
    if max_norm is not None:
        renormalise(weight, index, max_norm, norm_type)
    plain = padding is None and per_sample_weights is None and not scale_grad_by_freq
    if plain and record is EMBEDDING:
        whole = pool_whole(weight, index, begins, bags, mode)
        if whole is not None:
            return whole
    rows = widen(record(weight, index, padding=padding, by_frequency=scale_grad_by_freq))
    if per_sample_weights is not None:
        rows = rows * widen(per_sample_weights).reshape((-1, 1))
    counted = None if padding is None else index.ne(padding)
    if not index.shape[0]:
        out = rows.new_zeros((bags, weight.shape[1])) + rows.sum()
    elif begins is None:
        out = pool_evenly(rows, bags, counted, mode)
    else:
        out = pool(rows, bag_numbers(begins, index.shape[0]), bags, counted, mode)
    return out.to(weight.dtype)


def _check_maxima(mode: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Refuse what maxima have no meaning for."""
    if scale_grad_by_freq and mode == "max":
        raise ValueError(
            "embedding_bag: max mode does not support scaling the gradient by frequency"
        )
    if sparse and mode == "max":
        raise ValueError("embedding_bag: max mode does not support sparse weights")


@public(namespaces=FUNCTIONAL)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors of zeros with a one where the index says; as many classes as occur by default.

    >>> import adjoint as ad
    >>> ad.nn.functional.one_hot(ad.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype is not int64:
        raise DTypeError(
            "one_hot: is only applicable to index tensor of type LongTensor, received "
            f"{tensor.dtype.name}. Convert it with .long()."
        )
    num_classes = whole("one_hot", "num_classes", num_classes)
    if num_classes == -1:
        if not tensor.numel():
            raise RuntimeError("one_hot: Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max()) + 1
        if num_classes < 1:  # a check of elements would be heard only later on a GPU
            raise RuntimeError(NEGATIVE_CLASS)
    elif num_classes < 1 and tensor.numel():
        raise RuntimeError(f"one_hot: num_classes should be positive, received {num_classes}")
    if CONTEXT.settled and tensor.device is CPU and num_classes:
        return ONE_HOT(tensor, classes=num_classes)
    if CONTEXT.settled and num_classes > 0 and tensor._array.__class__ in DEVICE_LAYOUTS:
        return ONE_HOT_THERE(tensor, classes=num_classes)
    return _one_hot(tensor, num_classes)


NEGATIVE_CLASS = "one_hot: Class values must be non-negative."


def _one_hot(index: Tensor, classes: int) -> Tensor:
    index = require(index, index >= 0, NEGATIVE_CLASS)
    less = "one_hot: Class values must be smaller than num_classes."
    index = require(index, index < classes, less)
    return index.unsqueeze(-1).eq(index.new_arange(classes)).to(int64)


# Eager execution's on a GPU.
ONE_HOT_THERE = composite(
    "one_hot_there", _one_hot, operands=("index",), fails="values", fragment="device",
    lies_in_rows=True,
)  # fmt: skip
# Eager execution's on the CPU; its size is that of its result.
ONE_HOT = composite(
    "one_hot",
    _one_hot,
    operands=("index",),
    fragment="host_looped",
    much=lambda shapes, params: prod(shapes[0]) * params["classes"] >= LARGE_RESULT,
    lies_in_rows=True,
)
