"""Cross entropy of scores that are divided by classes, without bringing the scores together.

With the scores x of an example and its class t, the loss is log(sum exp x) - x[t]. Each process
has some of the classes: the largest score, the sum and the class's own score are brought together,
three numbers per example instead of all scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from adjoint.distributed.communication.operations import ALL_REDUCE
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout
from adjoint.distributed.tensor.moves import SUMMED
from adjoint.distributed.tensor.placement import Shard
from adjoint.distributed.tensor.rules import TABLE, call, whole
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor

DIVIDED_LOSS: ContextVar[bool] = ContextVar("divided_loss", default=False)


@contextmanager
def loss_parallel() -> Iterator[None]:
    """`cross_entropy` of DTensors takes plain classes, and scores stay divided by classes.

    Inside the `with` block the target may be a plain tensor, the same on every process. Weights of
    classes and smoothed labels are computed on the whole scores.
    """
    token = DIVIDED_LOSS.set(True)
    try:
        yield
    finally:
        DIVIDED_LOSS.reset(token)


def cross_entropy(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The loss of scores that lie on several processes."""
    if not DIVIDED_LOSS.get():
        return whole(func, args, kwargs)
    return _inside(func, *args, **kwargs)


def _inside(
    func: Callable[..., Any], input: Any, target: Any, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    if not isinstance(input, DTensor):
        return call(func, (input, target, weight, size_average, ignore_index, reduce, reduction,
                           label_smoothing), {})  # fmt: skip
    layout = input._layout
    classes = target.full_tensor() if isinstance(target, DTensor) else target
    plain = weight is None and not label_smoothing and size_average is None and reduce is None
    by_classes = layout.placements == (Shard(1 if input.ndim > 1 else 0),)
    if not (plain and by_classes) or classes.dtype.is_floating_point:
        given = {"ignore_index": ignore_index, "reduction": reduction}
        more = {"weight": weight, "label_smoothing": label_smoothing}
        result = call(func, (input.full_tensor(), classes), {**given, **more})
        return as_dtensor(result, layout.replicated(result.shape))
    loss, counts = _of_parts(
        part_of(input), classes, layout, 1 if input.ndim > 1 else 0, ignore_index
    )
    if reduction == "mean":
        loss = loss.sum() / counts.sum()
    elif reduction == "sum":
        loss = loss.sum()
    return as_dtensor(loss, layout.replicated(loss.shape))


def _of_parts(
    scores: Tensor, classes: Tensor, layout: MeshLayout, dim: int, ignored: int
) -> tuple[Tensor, Tensor]:
    """Each example's loss, and which examples count."""
    group = layout.group(0)
    start, count = layout.starts()[dim], int(scores.shape[dim])
    size = int(layout.shape[dim])
    counts = classes != ignored
    if bool(((classes < 0) | (classes >= size)).logical_and(counts).any()):
        raise IndexError(f"cross_entropy: a target is out of bounds of {size} classes")
    with no_grad():
        local = (
            scores.detach().amax(dim) if count else scores.new_full(classes.shape, -float("inf"))
        )
        largest = ALL_REDUCE(local, op="max", group=group)
    total = SUMMED((scores - largest.unsqueeze(dim)).exp().sum(dim), group=group)
    here = (classes >= start) & (classes < start + count) & counts
    place = (classes - start).clamp(0, max(count - 1, 0)).unsqueeze(dim)
    own = scores.gather(dim, place).squeeze(dim) if count else scores.sum(dim)
    own = SUMMED(own.masked_fill(~here, 0.0), group=group)
    loss = total.log() + largest - own
    return loss.masked_fill(~counts, 0.0), counts.to(scores.dtype)


TABLE["cross_entropy"] = cross_entropy
