"""Losses of margins: what should be larger, or nearer, is so by some distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError, ShapeValueError
from adjoint.engine.core.operations.families import composite, fit
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import broadcast_shapes
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.nn.activations import LOG_SIGMOID
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_float32, require_floating, widen
from adjoint.engine.ops.nn.distances import pairwise_distance
from adjoint.engine.ops.nn.losses.loss_dtypes import refuse_bool, require_result_in
from adjoint.engine.ops.nn.losses.loss_reduction import reduced, reduction_of

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _hinge(x: Tensor, y: Tensor, margin: float) -> Tensor:
    near = x.masked_fill(y.eq(-1), 0)
    far = (margin - x).clamp_min(0).masked_fill(y.eq(1), 0)
    return near + far


def _cosine(x: Tensor, y: Tensor, target: Tensor, margin: float) -> Tensor:
    d = x.ndim - 1
    squares = ((x * x).sum(d) + 1e-12) * ((y * y).sum(d) + 1e-12)
    cosine = (x * y).sum(d) / squares.sqrt()
    apart = (cosine - margin).clamp_min(0)
    return (1 - cosine).masked_fill(target.ne(1), 0) + apart.masked_fill(target.ne(-1), 0)


def _record(
    name: str,
    compose: Any,
    *operands: str,
    vjps: tuple[Any, ...] = (),
    counted: int | None = None,
    keeps_layout: bool = False,
) -> Any:
    compose = in_float32(compose, counted)
    return composite(
        name, compose, *vjps, operands=operands, fragment="composed", keeps_layout=keeps_layout
    )


def _ranked(g: Tensor, x: Tensor, y: Tensor, z: Tensor, margin: float) -> Tensor:
    """The gradient of what is clamped; at the bound itself it counts, at NaN not, as everywhere."""
    behind = -widen(z) * (widen(x) - widen(y)) + margin
    return widen(g).masked_fill(behind.ge(0).logical_not(), 0)


def _softly(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of x times y."""
    x, y = widen(x), widen(y)
    return -widen(g) * (-x * y).sigmoid()


HINGE_EMBEDDING_LOSS = _record("hinge_embedding_loss", _hinge, "x", "y", counted=1)
COSINE_EMBEDDING_LOSS = _record("cosine_embedding_loss", _cosine, "x", "y", "target", counted=2)
MARGIN_RANKING_LOSS = _record(
    "margin_ranking_loss",
    lambda x, y, z, margin: ((x - y) * -z + margin).clamp_min(0),
    "x",
    "y",
    "z",
    keeps_layout=True,
    vjps=(
        lambda g, x, y, z, x_spec, margin: fit(-widen(z) * _ranked(g, x, y, z, margin), x_spec),
        lambda g, x, y, z, y_spec, margin: fit(widen(z) * _ranked(g, x, y, z, margin), y_spec),
        lambda g, x, y, z, z_spec, margin: fit(
            (widen(y) - widen(x)) * _ranked(g, x, y, z, margin), z_spec
        ),
    ),
)
SOFT_MARGIN_LOSS = _record(
    "soft_margin_loss",
    lambda x, y: -LOG_SIGMOID(x * y),
    "x",
    "y",
    keeps_layout=True,
    vjps=(
        lambda g, x, y, x_spec: fit(_softly(g, x, y) * widen(y), x_spec),
        lambda g, x, y, y_spec: fit(_softly(g, x, y) * widen(x), y_spec),
    ),
)


@public(namespaces=FUNCTIONAL)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""x where the target is 1, $\max(0, margin - x)$ where it is -1."""
    how = reduction_of("hinge_embedding_loss", reduction, size_average, reduce)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):  # whole numbers stay whole
        return reduced(_hinge(input, target, int(margin)), how)
    return reduced(HINGE_EMBEDDING_LOSS(input, target, margin=margin), how)


@public(namespaces=FUNCTIONAL)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$\max(0, -y (x_1 - x_2) + margin)$: whether the right one of two is larger."""
    how = reduction_of("margin_ranking_loss", reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape}"
        )
    return reduced(MARGIN_RANKING_LOSS(input1, input2, target, margin=margin), how)


@public(namespaces=FUNCTIONAL)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$1 - \cos$ where the target is 1, $\max(0, \cos - margin)$ where it is -1.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.cosine_embedding_loss(ad.eye(2), ad.eye(2), ad.tensor([1.0, -1.0]))
        tensor(0.5000)
    """
    how = reduction_of("cosine_embedding_loss", reduction, size_average, reduce)
    if target.ndim not in (0, 1):
        raise ShapeError(
            "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported"
        )
    if target.ndim == 1 and (input1.ndim != 2 or input2.ndim != 2):
        raise ShapeError(
            "cosine_embedding_loss: 1D target tensor expects 2D input tensors, but found inputs "
            f"with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    if target.ndim == 0 and (input1.ndim != 1 or input2.ndim != 1):
        raise ShapeError(
            "cosine_embedding_loss: 0D target tensor expects 1D input tensors, but found inputs "
            f"with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    return reduced(COSINE_EMBEDDING_LOSS(input1, input2, target, margin=margin), how)


@public(namespaces=FUNCTIONAL)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$\log(1 + e^{-y x})$ for targets of 1 or -1."""
    how = reduction_of("soft_margin_loss", reduction, size_average, reduce)
    refuse_bool("soft_margin_loss", input)
    require_result_in("soft_margin_loss", input.dtype, input, target)
    if not input.dtype.is_inexact:
        raise DTypeError(
            f"soft_margin_loss: expected a floating input, received {input.dtype.name}. Convert "
            "it with .to(...)."
        )
    shape = broadcast_shapes("soft_margin_loss", tuple(input.shape), tuple(target.shape))
    if shape != tuple(input.shape):
        raise ShapeError(
            f"soft_margin_loss: output with shape {list(input.shape)} doesn't match the broadcast "
            f"shape {list(shape)}"
        )
    return reduced(SOFT_MARGIN_LOSS(input, target).to(input.dtype), how)


# -- several classes ----------------------------------------------------------------------------


def _rows(name: str, input: Tensor, target: Tensor, like_input: bool) -> tuple[Tensor, Tensor]:
    """Input (N, C) and target, (N,) or (N, C), of batched or single samples."""
    one = input.ndim <= 1
    x = input.reshape((1, max(input.numel(), 0))) if one else input
    if one:
        y = target.reshape((1, -1)) if like_input else target.reshape(-1)
    else:
        y = target
    wanted = tuple(x.shape) if like_input else (x.shape[0],)
    if one and target.ndim > 1:
        wanted = ()  # the target of a single sample has no batch dimension either
    if x.ndim != 2 or not x.shape[1]:
        raise ShapeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    if target.dtype is not int64:
        raise DTypeError(f"{name}: expected scalar type Long but found {target.dtype.name}")
    if tuple(y.shape) != wanted:
        raise ShapeError(
            f"{name}: inconsistent target size, expected {list(wanted)} but got "
            f"{list(target.shape)}, for an input of {list(input.shape)}"
        )
    return x, y


def _multi_margin(x: Tensor, y: Tensor, *weight: Tensor, p: int, margin: float) -> Tensor:
    picks = y.unsqueeze(1)
    z = (margin - x.gather(1, picks) + x).clamp_min(0)
    z = z if p == 1 else z * z
    if weight:
        z = z * weight[0].index_select(0, y).unsqueeze(1)
    others = x.detach().new_arange(x.shape[1]).ne(picks)
    return z.masked_fill(others.logical_not(), 0).sum(1) / x.shape[1]


def _multi_margin_vjp(
    g: Tensor, x: Tensor, y: Tensor, weight: Any, p: int, margin: float
) -> Tensor:
    wide, picks = widen(x), y.unsqueeze(1)
    z = (margin - wide.gather(1, picks) + wide).clamp_min(0)
    slope = z.gt(0).to(z.dtype) if p == 1 else z * 2
    share = widen(g) / x.shape[1]
    if weight:
        share = share * widen(weight[0]).index_select(0, y)
    others = x.new_arange(x.shape[1]).ne(picks)
    each = (slope * share.unsqueeze(1)).masked_fill(others.logical_not(), 0)
    return each.where(others, -each.sum(1, keepdim=True)).to(x.dtype)


def _multi_margin_weight_vjp(
    g: Tensor, x: Tensor, y: Tensor, weight: Any, p: int, margin: float
) -> Tensor:
    plain = _multi_margin(widen(x), y, p=p, margin=margin) * widen(g)
    none = plain.new_zeros(weight[0].shape)
    return none.index_add(0, y, plain).to(weight[0].dtype)


MULTI_MARGIN_LOSS = _record(
    "multi_margin_loss",
    _multi_margin,
    "x",
    "y",
    "*weight",
    vjps=(_multi_margin_vjp, None, _multi_margin_weight_vjp),
)


@public(namespaces=FUNCTIONAL)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$\frac1C \sum_{i \ne y} \max(0, margin - x_y + x_i)^p$ for each sample.

    Args:
        input: scores, (N, C) or (C,).
        target: classes, (N,) or ().
        p: 1 or 2.
        weight: (C,), a factor of each class.
    """
    how = reduction_of("multi_margin_loss", reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, received {p}")
    if weight is not None and weight.ndim != 1:
        raise ShapeValueError("multi_margin_loss: weight must be one-dimensional")
    x, y = _rows("multi_margin_loss", input, target, like_input=False)
    if weight is not None and weight.shape[0] != x.shape[1]:
        raise ShapeError(
            f"multi_margin_loss: inconsistent weight size, expected {x.shape[1]} but got "
            f"{list(weight.shape)}"
        )
    require_floating("multi_margin_loss", input)
    if weight is not None and weight.dtype is not input.dtype:
        raise DTypeError(
            f"multi_margin_loss: expected a weight of the input's dtype {input.dtype.name}, "
            f"received {weight.dtype.name}"
        )
    inside = (y >= 0) & (y < x.shape[1])
    y = require(y, inside, f"multi_margin_loss: target out of range of {x.shape[1]} classes")
    more = () if weight is None else (weight,)
    loss = MULTI_MARGIN_LOSS(x, y, *more, p=p, margin=margin)
    if how == "none":
        return loss if input.ndim > 1 else loss.reshape(target.shape)
    return reduced(loss, how)


def _margins(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What each class lacks of each target, (N, T, C), what of it does not count, the targets."""
    counted = y.ge(0).long().cumprod(1).bool()  # targets end at the first -1
    picks = y.masked_fill(counted.logical_not(), 0)
    marks = x.detach().new_zeros(x.shape).scatter_add(1, picks, counted.to(x.dtype))
    scores = x.gather(1, picks)  # (N, T)
    z = (1 - (scores.unsqueeze(2) - x.unsqueeze(1))).clamp_min(0)  # (N, T, C)
    return z, counted.logical_not().unsqueeze(2) | marks.gt(0).unsqueeze(1), picks


def _multilabel(x: Tensor, y: Tensor) -> Tensor:
    z, out, _ = _margins(x, y)
    return z.masked_fill(out, 0).sum((1, 2)) / x.shape[1]


def _multilabel_vjp(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    wide = widen(x)
    z, out, picks = _margins(wide, y)
    share = (widen(g) / x.shape[1]).reshape((-1, 1, 1))
    each = share.expand(z.shape).masked_fill(out | z.le(0), 0)
    return each.sum(1).scatter_add(1, picks, -each.sum(2)).to(x.dtype)


MULTILABEL_MARGIN_LOSS = _record(
    "multilabel_margin_loss", _multilabel, "x", "y", vjps=(_multilabel_vjp, None)
)


@public(namespaces=FUNCTIONAL)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$\frac1C \sum_{j \in y, i \notin y} \max(0, 1 - (x_j - x_i))$ for each sample.

    Args:
        input: scores, (N, C) or (C,).
        target: the classes of each sample, in the shape of `input`, ended by -1.
    """
    how = reduction_of("multilabel_margin_loss", reduction, size_average, reduce)
    x, y = _rows("multilabel_margin_loss", input, target, like_input=True)
    require_floating("multilabel_margin_loss", input)
    inside = (y >= -1) & (y < x.shape[1])
    message = f"multilabel_margin_loss: target is out of range of {x.shape[1]} classes"
    y = require(y, inside, message)
    loss = MULTILABEL_MARGIN_LOSS(x, y)
    if how == "none":
        return loss if input.ndim > 1 else loss.reshape(())
    return reduced(loss, how)


@public(namespaces=FUNCTIONAL)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""The mean over classes of $-y \log \sigma(x) - (1 - y) \log \sigma(-x)$."""
    how = reduction_of("multilabel_soft_margin_loss", reduction, size_average, reduce)
    require_floating("multilabel_soft_margin_loss", input)
    refuse_bool("multilabel_soft_margin_loss", target)
    if not input.ndim:
        raise ShapeIndexError(
            "multilabel_soft_margin_loss: expected an input of classes, (N, C) or (C,), received a "
            "tensor without dimensions"
        )
    loss = -(target * LOG_SIGMOID(input) + (1 - target) * LOG_SIGMOID(-input))
    if weight is not None:
        loss = loss * weight
    d = input.ndim - 1
    return reduced(loss.sum(d) / input.shape[d], how)


# -- triplets -----------------------------------------------------------------------------------


@public(namespaces=FUNCTIONAL)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""$\max(0, d(a, p) - d(a, n) + margin)$ with p-norm distances.

    Args:
        swap: take the distance of positive and negative where it is the smaller one.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.triplet_margin_loss(
        ...     ad.zeros(1, 2), ad.zeros(1, 2), ad.full((1, 2), 0.5)
        ... )
        tensor(0.2929)
    """
    how = reduction_of("triplet_margin_loss", reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, how)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    how: str,
) -> Tensor:
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{name}: The anchor, positive, and negative tensors are expected to have the same "
            f"number of dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and "
            f"negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), how)


@public(namespaces=FUNCTIONAL)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own."""
    name = "triplet_margin_with_distance_loss"
    how = reduction_of(name, reduction)
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(name, anchor, positive, negative, distance, margin, swap, how)


# PyTorch's top-level forms take the margin and the reduction's number by position.


@public(name="hinge_embedding_loss")
def hinge_embedding_loss_function(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """See `nn.functional.hinge_embedding_loss`."""
    how = reduction_of("hinge_embedding_loss", reduction)
    return hinge_embedding_loss(input, target, margin, reduction=how)


@public(name="margin_ranking_loss")
def margin_ranking_loss_function(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See `nn.functional.margin_ranking_loss`."""
    how = reduction_of("margin_ranking_loss", reduction)
    return margin_ranking_loss(input1, input2, target, margin, reduction=how)


@public(name="cosine_embedding_loss")
def cosine_embedding_loss_function(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See `nn.functional.cosine_embedding_loss`."""
    how = reduction_of("cosine_embedding_loss", reduction)
    return cosine_embedding_loss(input1, input2, target, margin, reduction=how)


@public(name="triplet_margin_loss")
def triplet_margin_loss_function(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """See `nn.functional.triplet_margin_loss`."""
    how = reduction_of("triplet_margin_loss", reduction)
    return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)
