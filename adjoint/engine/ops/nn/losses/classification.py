"""Losses of classes: cross entropy, negative log likelihood, divergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64, promote_types, uint8
from adjoint.engine.core.errors import (
    DTypeError,
    ShapeError,
    ShapeIndexError,
    ShapeValueError,
    warn_user,
)
from adjoint.engine.core.operations.autocast import WIDENED
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.index.gather import GATHER, SCATTER
from adjoint.engine.ops.nn.common import FUNCTIONAL, require_floating, widen
from adjoint.engine.ops.nn.losses.loss_reduction import reduced, reduction_of
from adjoint.engine.ops.nn.losses.regression import loss_record
from adjoint.engine.ops.products.linear import linear

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


# -- classes given by number --------------------------------------------------------------------


def _class_dim(x: Any) -> int:
    return 0 if x.ndim == 1 else 1


def _parts(name: str, x: Tensor, target: Tensor, weight: Any, ignore: int) -> tuple[Tensor, Tensor]:
    """(target with ignored ones at class 0 and the class dimension back, weight of each)."""
    ignored = target.eq(ignore)
    safe = target.masked_fill(ignored, 0)
    if weight:
        picked = GATHER(widen(weight[0]), safe.reshape(-1), dim=0, classes_of=name)
        scale = picked.reshape(safe.shape).masked_fill(ignored, 0)
    else:
        scale = ignored.logical_not().to(x.dtype)
    return safe.unsqueeze(_class_dim(x)), scale


def _nll(
    x: Tensor,
    target: Tensor,
    *weight: Any,
    reduction: str,
    ignore: int,
) -> Tensor:
    log_p, name = widen(x), "nll_loss"
    picks, scale = _parts(name, log_p, target, weight, ignore)
    dim = _class_dim(x)
    picked = GATHER(log_p, picks, dim=dim, classes_of=name).squeeze(dim)
    return _reduced(picked, scale, reduction).to(x.dtype)


def _reduced(log_p: Tensor, scale: Tensor, reduction: str) -> Tensor:
    """The loss, from the logarithm of each target's probability and its weight."""
    loss = (-log_p * scale).masked_fill(scale.eq(0), 0)  # not 0 times infinity
    if reduction == "none":
        return loss
    loss = loss.sum()
    return loss / scale.sum() if reduction == "mean" else loss


def _shares(g: Tensor, scale: Tensor, reduction: str) -> Tensor:
    """What the gradient gives to each term of the sum: g, or its part of the mean."""
    share = widen(g) * scale
    if reduction == "mean":  # where nothing counts, the mean is NaN but its gradient zero
        share = (share / scale.sum()).masked_fill(scale.eq(0), 0)
    return share


def _nll_vjp(
    g: Tensor, x: Tensor, target: Tensor, weight: Any, reduction: str, ignore: int
) -> Tensor:
    log_p = widen(x)
    picks, scale = _parts("nll_loss", log_p, target, weight, ignore)
    dim = _class_dim(x)
    shares = -_shares(g, scale, reduction).unsqueeze(dim).to(x.dtype)
    none = shares.new_zeros(x.shape)  # each line has one target: nothing adds up
    return SCATTER(none, shares, picks, dim=dim, accumulate=False, classes_of="nll_loss")


def _refuse_weight(spec: Any) -> Any:
    raise RuntimeError(
        "cross_entropy, nll_loss: not differentiable with respect to argument 'weight', received "
        f"{spec} that requires grad. Detach it, or weight the loss of reduction='none' yourself."
    )


# x: log probabilities (N, C, ...) or (C,); target: (N, ...) or ().
NLL_LOSS = composite(
    "nll_loss",
    _nll,
    _nll_vjp,
    None,
    _refuse_weight,
    operands=("x", "target", "*weight"),
    fragment="composed",
)


def _row_statistics(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    top = x.amax(dim, keepdim=True) if x.shape[dim] else x.sum(dim, keepdim=True)
    return top, (x - top).exp().sum(dim, keepdim=True).log()


# The largest logit, and the logarithm of the sum of exponentials above it: a node of its own, so
# that a target can find both in one pass over the logits.
ROW_STATISTICS = composite("row_statistics", _row_statistics, operands=("x",), outputs=2)


def _cross_entropy(
    x: Tensor,
    target: Tensor,
    *weight: Any,
    reduction: str,
    ignore: int,
    smoothing: float,
    wide: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    dim = _class_dim(x)
    top, rest = ROW_STATISTICS(widen(x), dim=dim)
    name = "cross_entropy"
    picks, scale = _parts(name, widen(x), target, weight, ignore)
    # Picked first, so that no second copy of the logits is made.
    log_p = GATHER(x, picks, dim=dim, classes_of=name)
    loss = _reduced((widen(log_p) - top - rest).squeeze(dim), scale, reduction)
    if smoothing:
        log_p = widen(x) - top - rest
        every = -log_p * _along_classes(weight, x) if weight else -log_p
        spread = every.sum(dim).masked_fill(target.eq(ignore), 0)
        if reduction != "none":
            spread = spread.sum() / scale.sum() if reduction == "mean" else spread.sum()
        loss = loss * (1 - smoothing) + spread * (smoothing / x.shape[dim])
    return loss if wide else loss.to(x.dtype), top, rest


def _along_classes(weight: Any, x: Any) -> Tensor:
    return widen(weight[0]).reshape((-1, *(1,) * (x.ndim - 1 - _class_dim(x))))


def _cross_entropy_joint(
    gs: Any,
    x: Tensor,
    target: Tensor,
    weight: Any,
    later_outs: Any,
    needed: Sequence[bool],
    params: dict[str, Any],
) -> list[Any]:
    if any(needed[2:]):
        _refuse_weight(weight[0]._spec)
    top, rest = later_outs
    p = (widen(x) - top - rest).exp()
    out = None if gs[2] is None else p * gs[2]
    if gs[0] is not None:
        cotangent = _logits_cotangent(gs[0], x, p, target, weight, **params)
        out = cotangent if out is None else out + cotangent
    return [None if out is None else out.to(x.dtype), *[None] * (len(needed) - 1)]


def _logits_cotangent(
    g: Tensor,
    x: Tensor,
    p: Tensor,
    target: Tensor,
    weight: Any,
    reduction: str,
    ignore: int,
    smoothing: float,
    wide: bool = False,
) -> Tensor:
    """From the cotangent of the loss to that of the logits, whose probabilities are `p`."""
    dim = _class_dim(x)
    name = "cross_entropy"
    picks, scale = _parts(name, p, target, weight, ignore)
    share = _shares(g, scale, reduction).unsqueeze(dim) * (1 - smoothing)
    out = SCATTER(p * share, -share, picks, dim=dim, accumulate=True, classes_of=name)
    if not smoothing:
        return out
    even = widen(g) / scale.sum() if reduction == "mean" else widen(g).expand(scale.shape)
    even = (even * (smoothing / x.shape[dim])).expand(scale.shape)
    even = even.masked_fill(target.eq(ignore), 0).unsqueeze(dim)
    if weight:
        w = _along_classes(weight, x)
        return out + (p * w.sum() - w) * even
    return out + (p * x.shape[dim] - 1) * even


# CROSS_ENTROPY(logits, target, [weight]) -> (loss, two statistics of each row), from which and the
# logits backward makes the probabilities. The largest logit counts as a constant: it only shifts.
# With `wide` the loss of halves is float32.
CROSS_ENTROPY = composite(
    "cross_entropy",
    _cross_entropy,
    joint=_cross_entropy_joint,
    operands=("x", "target", "*weight"),
    outputs=3,
    fragment="composed",
)


def _check_batch(name: str, input: Tensor, target: Tensor) -> None:
    size = target.shape[0] if target.ndim else 0
    if input.ndim > 1 and input.shape[0] != size:
        raise ShapeValueError(
            f"{name}: Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({size})."
        )


def _remedy(name: str, input: Tensor, target: Tensor, wanted: tuple[int, ...]) -> str:
    """What to do about a target of another shape."""
    if name == "cross_entropy" and input.shape == target.shape:
        return ". A target with a number for each class is of probabilities: use a floating dtype."
    if tuple(target.shape) in ((*wanted, 1), (*wanted[:1], 1, *wanted[1:])):
        return ". Take the dimension of size 1 away with squeeze()."
    return ". A target has the number of a class for each element of the batch."


def _check_classes(name: str, input: Tensor, target: Any, weight: Any) -> Tensor:
    """The target as int64, after the shapes are seen to fit."""
    if not is_tensor(target):
        raise TypeError(f"{name}(): argument 'target' must be Tensor, not {type(target).__name__}")
    if not input.ndim:
        kind = ValueError if name == "nll_loss" else IndexError
        raise kind(f"{name}: expected an input of 1D or (N, C, ...), received 0D")
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ShapeValueError(
            f"{name}: For 1D input, 1D target must have size 1, but got target size: "
            f"{target.shape[0]}"
        )
    channels = input.shape[_class_dim(input)]
    wanted = (input.shape[0], *input.shape[2:]) if input.ndim > 1 else ()
    _check_batch(name, input, target)
    if tuple(target.shape) != tuple(wanted) and not (not wanted and tuple(target.shape) == (1,)):
        raise ShapeError(
            f"{name}: Expected target size {list(wanted)}, got {list(target.shape)}, for an input "
            f"of {list(input.shape)}{_remedy(name, input, target, wanted)}"
        )
    if target.dtype not in (int64, uint8):
        raise DTypeError(
            f"{name}: expected target of dtype int64 (Long), but got {target.dtype.name}. Convert "
            "it with .long()."
        )
    if weight is not None and not is_tensor(weight):
        raise TypeError(f"{name}(): argument 'weight' must be Tensor, not {type(weight).__name__}")
    if weight is not None and tuple(weight.shape) != (channels,):
        raise ShapeError(
            f"{name}: weight tensor should be defined either for all {channels} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not input.dtype and not input.dtype.is_half:
        raise DTypeError(
            f"{name}: expected weight of the input's dtype {input.dtype.name}, received "
            f"{weight.dtype.name}"
        )
    classes = target.to(int64)
    return classes if tuple(classes.shape) == tuple(wanted) else classes.reshape(wanted)


@public(namespaces=FUNCTIONAL, numbers="values")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Minus the log probability of the true class: $-w_y x_y$.

    Args:
        input: log probabilities, (N, C, ...) or (C,).
        target: classes, (N, ...) or ().
        weight: (C,); a mean is then weighted.
        ignore_index: a target that does not count.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.nll_loss(ad.tensor([[0.25, 0.75]]).log(), ad.tensor([1]))
        tensor(0.2877)
    """
    how = reduction_of("nll_loss", reduction, size_average, reduce)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"nll_loss: not implemented for {input.dtype.name}")
    classes = _check_classes("nll_loss", input, target, weight)
    more = () if weight is None else (weight,)
    ignored = whole("nll_loss", "ignore_index", ignore_index)
    return NLL_LOSS(input, classes, *more, reduction=how, ignore=ignored)


@public(namespaces=FUNCTIONAL, numbers="values")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Minus the log probability that softmax gives the true class: $-\log \mathrm{softmax}(x)_y$.

    Args:
        input: logits, (N, C, ...) or (C,).
        target: classes, (N, ...) or (); or probabilities, in the shape of `input`.
        weight: (C,); a mean over classes is then weighted.
        ignore_index: a class that does not count.
        label_smoothing: how much of the target is spread evenly over all classes.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.cross_entropy(ad.zeros(2, 4), ad.tensor([0, 3]))
        tensor(1.3863)
    """
    return _entropy(
        input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
    )


def _entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    wide: bool = False,
) -> Tensor:
    how = reduction_of("cross_entropy", reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    if not input.dtype.is_floating_point and target.dtype.is_floating_point:
        raise NotImplementedError(
            f"cross_entropy: not implemented for {input.dtype.name}. Are the arguments swapped? It "
            "is cross_entropy(input, target), with scores as input and classes as target."
        )
    require_floating("cross_entropy", input)
    if target.dtype.is_floating_point:
        return _with_probabilities(input, target, weight, how, ignore_index, label_smoothing)
    classes = _check_classes("cross_entropy", input, target, weight)
    more = () if weight is None else (weight,)
    return CROSS_ENTROPY(
        input,
        classes,
        *more,
        reduction=how,
        ignore=whole("cross_entropy", "ignore_index", ignore_index),
        smoothing=float(label_smoothing),
        **({"wide": True} if wide else {}),
    )[0]


def _entropy_in_float32(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The same under autocast: halves are read as they are, and the loss is float32."""
    wide = input.dtype.is_half and not target.dtype.is_floating_point
    if not wide:
        input, target = widen(input), widen(target)
    return _entropy(input, target, *args, **{**kwargs, "wide": wide})


WIDENED["cross_entropy"] = _entropy_in_float32


def _with_probabilities(
    input: Tensor, target: Tensor, weight: Any, how: str, ignore: int, smoothing: float
) -> Tensor:
    """Cross entropy with a distribution over the classes; a mean is over the samples."""
    if ignore >= 0:
        raise DTypeError("cross_entropy: ignore_index is not supported for floating point target")
    if not input.ndim:
        raise ShapeIndexError("cross_entropy: expected an input of 1D or (N, C, ...), received 0D")
    _check_batch("cross_entropy", input, target)
    if input.shape != target.shape:
        raise ShapeError(
            "cross_entropy: a target of probabilities must have the shape of the input, "
            f"{list(input.shape)}; received {list(target.shape)}. If it has the numbers of "
            "classes, expected target dtype is int64 (Long): convert it with .long()."
        )
    dim = _class_dim(input)
    channels = input.shape[dim]
    if weight is not None and tuple(weight.shape) != (channels,):
        raise ShapeError(
            f"cross_entropy: weight tensor should be defined for all {channels} classes, received "
            f"{list(weight.shape)}"
        )
    dtype = promote_types(input.dtype, target.dtype)
    if weight is not None:
        dtype = promote_types(dtype, weight.dtype)
    y = widen(target)
    if smoothing:
        y = y * (1 - smoothing) + smoothing / channels
    terms = -y * widen(input).log_softmax(dim)
    if weight is not None:
        terms = terms * _along_classes((weight,), input)
    if how == "none":
        return terms.sum(dim).to(dtype)
    total = terms.sum()
    return (total / (input.numel() / channels) if how == "mean" else total).to(dtype)


@public(namespaces=FUNCTIONAL)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of a linear layer's output.

    Args:
        input: (N, in) or (in,).
        linear_weight: (C, ..., in).
        target: classes (N, ...), or probabilities (N, C, ...).
        linear_bias: (C, ...).
        options: how PyTorch divides the batch; accepted, and without effect on the result.
    """
    if input.ndim not in (1, 2) or linear_weight.ndim < 2:
        raise ShapeError(
            "linear_cross_entropy: expected an input (N, in) or (in,) and a linear_weight "
            f"(C, ..., in), received {list(input.shape)} and {list(linear_weight.shape)}"
        )
    sizes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != sizes:
        raise ShapeError(
            f"linear_cross_entropy: expected linear_bias shape {sizes}, got "
            f"{tuple(linear_bias.shape)}"
        )
    if len(sizes) > 1:
        if input.ndim == 1:
            raise ShapeError(
                f"linear_cross_entropy: a linear_weight of shape {list(linear_weight.shape)} "
                f"requires batched input, got {list(input.shape)}"
            )
        linear_weight = linear_weight.reshape((-1, linear_weight.shape[-1]))
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias).reshape((*input.shape[:-1], *sizes))
    if ignore_index is not None and target.shape == logits.shape:
        raise RuntimeError(
            "linear_cross_entropy: ignore_index cannot be specified when target contains "
            "probabilities"
        )
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


# -- divergence ---------------------------------------------------------------------------------

KL_DIV = loss_record(
    "kl_div",
    # x first: it decides how the result lies
    lambda x, y, log_target: (x - y) * -y.exp() if log_target else x * -y + y.xlogy(y),
)


@public(namespaces=FUNCTIONAL)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    r"""The Kullback-Leibler divergence of log probabilities from a target: $y (\log y - x)$.

    Args:
        reduction: "batchmean", the sum over the batch size, is the mathematical one.
        log_target: whether the target, too, is given by logarithms.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.kl_div(
        ...     ad.tensor([0.5, 0.5]).log(), ad.tensor([0.25, 0.75]), reduction="sum"
        ... )
        tensor(0.1308)
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = kl_div(input, target, reduction="sum", log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    if reduction == "mean":
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    how = reduction_of("kl_div", reduction, size_average, reduce)
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise DTypeError(
            "kl_div: integral and complex inputs are not supported, received "
            f"{input.dtype.name} and {target.dtype.name}. Convert them to a floating dtype."
        )
    return reduced(KL_DIV(input, target, log_target=log_target), how)


@public(name="kl_div")
def kl_div_function(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """The Kullback-Leibler divergence (see `nn.functional.kl_div`)."""
    how = reduction_of("kl_div", reduction)
    return kl_div(input, target, reduction=how, log_target=log_target)
