"""Connectionist temporal classification: the likelihood of a sequence, summed over alignments.

Note [ctc gradient]
    As in PyTorch, the gradient is that of logits through log_softmax: for normalised log
    probabilities log_softmax changes nothing, so it is applied to their variation alone.
    Where a target cannot be aligned the loss is infinite and the gradient of every step that was
    read is NaN, unless `zero_infinity` makes both 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_, int32, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import LOOPED, is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_float32, require_floating
from adjoint.engine.ops.nn.losses.loss_reduction import reduction_of
from adjoint.engine.ops.shape.join import cat, stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NEVER = -float("inf")


def _log_add(*terms: Tensor) -> Tensor:
    """The logarithm of the sum of exponentials, with derivative 0 where all of them vanish."""
    top = terms[0].detach()
    for t in terms[1:]:
        top = top.maximum(t.detach())
    none = top.eq(NEVER)
    top = top.masked_fill(none, 0)
    total = None
    for t in terms:
        e = (t - top).exp()
        total = e if total is None else total + e
    assert total is not None
    return (total.masked_fill(none, 1).log() + top).masked_fill(none, NEVER)


def _ctc(
    log_probs: Tensor,  # (T, N, C)
    targets: Tensor,  # (N, S), anything beyond a target's length
    input_lengths: Tensor,  # (N,)
    target_lengths: Tensor,  # (N,)
    blank: int,
    zero_infinity: bool,
    how: str,
) -> Tensor:
    """Minus the log likelihood of each target, reduced as `how` says."""
    loss = _losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    empty = input_lengths.eq(0)  # nothing was read: certain if nothing was to be read
    loss = loss.masked_fill(empty & target_lengths.eq(0), 0)
    unread = 0.0 if zero_infinity else -NEVER
    loss = loss.masked_fill(empty & target_lengths.gt(0), unread)
    if how == "mean":
        return (loss / target_lengths.clamp_min(1).to(loss.dtype)).mean()
    return loss.sum() if how == "sum" else loss


def _losses(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """Minus the log likelihood of each target, where something was read."""
    steps, batch, _ = log_probs.shape
    width = targets.shape[1]
    varying = log_probs.log_softmax(2)
    lp = log_probs.detach() + (varying - varying.detach()).masked_fill(
        log_probs.detach().eq(NEVER), 0
    )
    # The labels with blanks around each: b l1 b l2 b ...; a path may skip a blank between two
    # labels that differ.
    blanks = targets.new_full((batch, width), blank)
    pairs = stack((blanks, targets), 2).reshape((batch, 2 * width))
    labels = cat((pairs, targets.new_full((batch, 1), blank)), 1)  # (N, 2S + 1)
    place = targets.new_arange(2 * width + 1)
    states = 2 * target_lengths + 1  # (N,)
    real = place < states.unsqueeze(1)
    skip = labels.ne(blank) & _shifted(labels, 2, -1).ne(labels) & (place >= 2)
    spoken = labels.masked_fill(real.logical_not(), blank)
    emitted = lp.gather(2, spoken.expand((steps, *labels.shape)))  # (T, N, 2S + 1)
    start = (place < 2) & real
    alpha = emitted[0].masked_fill(start.logical_not(), NEVER)

    def step(alpha: Tensor, now: tuple[Tensor, Any]) -> tuple[Tensor, tuple[()]]:
        heard, t = now
        two = _shifted(alpha, 2, NEVER).masked_fill(skip.logical_not(), NEVER)
        moved = _log_add(alpha, _shifted(alpha, 1, NEVER), two) + heard
        moved = moved.masked_fill(real.logical_not(), NEVER)
        going = (input_lengths > t).unsqueeze(1)
        return WHERE(going, moved, alpha), ()

    few = log_probs.device.type != "cuda" and log_probs.numel() <= FEW  # rows have no loops
    if CONTEXT.capture is not None and steps > MANY and not few:
        times = input_lengths.new_arange(steps)
        alpha, _ = HOOKS.scan(step, alpha, (emitted[1:], times[1:]))
    else:
        for t in range(1, steps):
            alpha, _ = step(alpha, (emitted[t], t))
    last = alpha.gather(1, (states - 1).unsqueeze(1)).squeeze(1)
    before = alpha.gather(1, (states - 2).clamp_min(0).unsqueeze(1)).squeeze(1)
    before = before.masked_fill(target_lengths.eq(0), NEVER)
    loss = -_log_add(last, before)
    impossible = loss.eq(-NEVER)
    if zero_infinity:
        return loss.masked_fill(impossible, 0)
    return loss + _undefined(varying, input_lengths, impossible)


def _undefined(varying: Tensor, input_lengths: Tensor, impossible: Tensor) -> Tensor:
    """Infinity whose derivative is NaN at the steps read, where a target cannot be aligned; or 0.

    The logarithm of 0 times something finite is both, and one class of a step is enough: the
    derivative of log_softmax takes it to the others.
    """
    steps = input_lengths.new_arange(varying.shape[0]).unsqueeze(1)
    read = varying.amax(2).masked_fill(steps >= input_lengths, 0).sum(0)
    return -(read * 0).masked_fill(impossible.logical_not(), 1).log()


def _shifted(x: Tensor, by: int, fill: float) -> Tensor:
    """x moved right along dimension 1, `fill` coming in."""
    n = min(by, x.shape[1])
    return cat((x.new_full((x.shape[0], n), fill), x[:, : x.shape[1] - n]), 1)


def _pulled(
    g: Tensor,
    x: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
    how: str,
) -> Tensor:
    """Through all steps at once: as one node of the tape they are a program (Note [small rows])."""

    def loss(x: Tensor) -> Tensor:
        return _CTC(x, targets, input_lengths, target_lengths, blank, zero_infinity, how)

    _, pull = HOOKS.vjp(loss, x)
    return pull(g)[0]


def _ctc_input(
    g: Tensor,
    x: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
    how: str,
) -> Tensor:
    """The gradient by a GPU's own kernel, or through all steps."""
    pulled = CTC_LOSS_GRADIENT if has_kernel(x) else _pulled
    lengths = input_lengths, target_lengths
    return pulled(g, x, targets, *lengths, blank=blank, zero_infinity=zero_infinity, how=how)


def record_for(x: Tensor) -> Record:
    """The record that does it: each differentiates it in its own way, and sees to autocast."""
    if has_kernel(x) or (CONTEXT.settled and x.numel() <= FEW):
        return CTC_LOSS_SMALL
    fragment = CONTEXT.settled and is_large(x._array, CTC_LOSS_PROGRAM.large)
    return CTC_LOSS_PROGRAM if fragment else CTC_LOSS


def has_kernel(x: Tensor) -> bool:
    """Whether a GPU's own kernel does it: at once, or between the launches of a program."""
    recorded = CONTEXT.capture is not None and not CONTEXT.levels
    return x.device.type == "cuda" and (CONTEXT.concrete or recorded)


_CTC = in_float32(_ctc)
_OPERANDS = ("x", "targets", "input_lengths", "target_lengths")
CTC_LOSS = composite("ctc_loss", _CTC, operands=_OPERANDS, fragment="device")
# Of few elements: backward, all steps are taken once more, which is nothing beside thousands of
# nodes of the tape (7 ms to 0.2 for six steps; with 480 columns it would be 171 ms for 67). On a
# GPU it is so whatever their number: both have kernels of their own there.
CTC_LOSS_SMALL = composite("ctc_loss_small", _CTC, _ctc_input, None, None, None, operands=_OPERANDS)
# Of many on the CPU: both are fragments, whose steps are a loop (87 ms to 2.2 for 97 steps).
CTC_LOSS_PROGRAM = composite(
    "ctc_loss_program", _CTC, _pulled, None, None, None, operands=_OPERANDS, fragment="looped"
)
CTC_LOSS_GRADIENT = composite("ctc_loss_gradient", _pulled, operands=("g", *_OPERANDS))
FEW = LOOPED  # elements
MANY = 8  # steps from which a program is a loop


def _lengths(name: str, lengths: Any, like: Tensor, batch: int) -> tuple[Tensor, list[int] | None]:
    """Lengths as a tensor and, where they are known, as numbers."""
    if is_tensor(lengths) and (lengths.dtype.is_inexact or lengths.dtype is bool_):
        raise DTypeError(f"ctc_loss: {name} must be integral, received {lengths.dtype.name}")
    if is_tensor(lengths) and not CONTEXT.concrete:
        return lengths.reshape((batch,)).to(like.device).to(int64), None
    numbers = [int(n) for n in (lengths.reshape(-1).tolist() if is_tensor(lengths) else lengths)]
    if len(numbers) != batch:
        raise ShapeError(
            f"ctc_loss: {name} must be of size batch_size: expected {batch}, received "
            f"{len(numbers)}"
        )
    if min(numbers, default=0) < 0:
        raise RuntimeError(f"ctc_loss: {name} must not be negative, received {min(numbers)}")
    if is_tensor(lengths) and lengths.dtype is int64 and lengths.device == like.device:
        return lengths if lengths.ndim == 1 else lengths.reshape((batch,)), numbers
    return like.new_tensor(numbers, dtype=int64), numbers


def _spread(targets: Tensor, lengths: Tensor) -> Tensor:
    """Targets in one vector as (N, all of them), for lengths whose values are not known."""
    begins = lengths.cumsum(0) - lengths
    places = begins.unsqueeze(1) + targets.new_arange(targets.shape[0])
    return targets[places.clamp_max(targets.shape[0] - 1)]


def _padded(targets: Tensor, lengths: list[int]) -> Tensor:
    """Targets as (N, S), from a matrix or from one vector that holds them one after another."""
    longest = max(lengths, default=0)
    if targets.ndim == 2:
        if targets.shape[0] != len(lengths) or targets.shape[1] < longest:
            raise ShapeError(
                f"ctc_loss: expected targets of shape ({len(lengths)}, at least {longest}), "
                f"received {list(targets.shape)}"
            )
        return targets if targets.shape[1] == longest else targets[:, :longest]
    if targets.shape[0] != sum(lengths):
        raise ShapeError(
            f"ctc_loss: expected {sum(lengths)} targets, the sum of target_lengths, received "
            f"{targets.shape[0]}"
        )
    places: list[list[int]] = []
    begin = 0
    for n in lengths:
        places.append([begin + min(i, max(n - 1, 0)) for i in range(longest)])
        begin += n
    if not targets.shape[0]:
        return targets.new_zeros((len(lengths), longest))
    index = targets.new_tensor(places, dtype=int64).reshape(-1).clamp_max(targets.shape[0] - 1)
    return targets.index_select(0, index).reshape((len(lengths), longest))


@public(namespaces=FUNCTIONAL)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log likelihood of target sequences, summed over their alignments to the input.

    Args:
        log_probs: (T, N, C) or (T, C), as log_softmax gives them (Note [ctc gradient]).
        targets: (N, S), padded, or all of them one after another in one vector.
        input_lengths, target_lengths: (N,); tensors or sequences of ints.
        blank: the class of no label.
        reduction: "mean" divides each loss by its target's length first.
        zero_infinity: losses of targets too long to align become 0, and their gradients.

    Example:
        >>> import adjoint as ad
        >>> scores = ad.zeros(4, 1, 3).log_softmax(2)
        >>> ad.nn.functional.ctc_loss(scores, ad.tensor([[1, 2]]), ad.tensor([4]), ad.tensor([2]))
        tensor(0.8432)
    """
    how = reduction_of("ctc_loss", reduction)
    require_floating("ctc_loss", log_probs)
    if targets.dtype not in (int64, int32):
        raise DTypeError(f"ctc_loss: targets must be integral, received {targets.dtype.name}")
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    if x.ndim != 3:
        raise ShapeError(
            f"ctc_loss: expected log_probs of shape (T, N, C) or (T, C), received "
            f"{list(log_probs.shape)}"
        )
    steps, batch, classes = x.shape
    if not batch:
        raise RuntimeError(
            f"ctc_loss: log_probs tensor must not be empty, received {list(log_probs.shape)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    targets = targets.to(int64)
    ins, in_numbers = _lengths("input_lengths", input_lengths, targets, batch)
    outs, out_numbers = _lengths("target_lengths", target_lengths, targets, batch)
    if in_numbers is not None and max(in_numbers, default=0) > steps:
        raise RuntimeError(
            f"ctc_loss: expected input_lengths to be at most {steps}, the number of steps, "
            f"received {max(in_numbers)}"
        )
    if single and targets.ndim == 1 and batch == 1:
        targets = targets.unsqueeze(0)
    if out_numbers is not None:
        rows = _padded(targets, out_numbers)
    elif targets.ndim == 2:
        rows = targets
    else:
        rows = _spread(targets, outs) if targets.numel() else targets.new_zeros((batch, 0))
    if not steps:
        raise RuntimeError("ctc_loss: expected at least one step, received log_probs with T = 0")
    record = record_for(x)
    loss = record(x, rows, ins, outs, blank=blank, zero_infinity=zero_infinity, how=how)
    return loss.squeeze(0) if single and how == "none" else loss


@public(name="ctc_loss")
def ctc_loss_function(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (see `nn.functional.ctc_loss`)."""
    how = reduction_of("ctc_loss", reduction)
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)
