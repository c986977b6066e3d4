"""nn.functional.pad: with a constant, or with what is inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.autocast import with_autocast
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.promotion import is_word
from adjoint.engine.ops.common.arguments import ints
from adjoint.engine.ops.common.scalars import require_fit
from adjoint.engine.ops.image.resample import Rule, resampled
from adjoint.engine.ops.shape.pad import constant_pad_nd

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

MODES = ("constant", "reflect", "replicate", "circular")


def _check_room(input: Tensor, widths: tuple[int, ...]) -> None:
    if len(widths) > 2 * input.ndim:
        raise ShapeError(
            "pad: padding length should be less than or equal to two times the input dimension, "
            f"but got padding length {len(widths)} and input of dimension {input.ndim}"
        )


def _check(input: Tensor, widths: tuple[int, ...], mode: str) -> None:
    """What PyTorch's kernels for the other modes accept."""
    rank = len(widths) // 2
    _check_room(input, widths)
    if len(widths) % 2 or rank not in (1, 2, 3) or input.ndim not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dimensions of an input with one or two "
            f"dimensions more; received pad={widths} for an input of size {list(input.shape)}"
        )
    if 0 in input.shape[input.ndim - rank - 1 :]:
        raise ShapeError(
            f"pad: expected {rank + 1}D or {rank + 2}D tensor with possibly 0 batch size and "
            f"other non-zero dimensions for input, but got: {list(input.shape)}"
        )
    for d in range(rank):
        n, before, after = input.shape[-1 - d], widths[2 * d], widths[2 * d + 1]
        if mode == "reflect" and max(before, after) >= n:
            raise ShapeError(
                "pad: padding size should be less than the corresponding input dimension, but got: "
                f"padding ({before}, {after}) at dimension {input.ndim - 1 - d} of input "
                f"{list(input.shape)}"
            )
        left = n + min(before, 0) + min(after, 0)  # after cutting; PyTorch reads no more than that
        if mode == "circular" and max(before, after, 0) > left:
            raise ShapeError(
                "pad: padding value causes wrapping around more than once: padding "
                f"({before}, {after}) at dimension {input.ndim - 1 - d} of input "
                f"{list(input.shape)}, of which {max(left, 0)} are left to wrap around"
            )
    sizes = [input.shape[-1 - d] + sum(widths[2 * d : 2 * d + 2]) for d in range(rank)]
    if min(sizes) < 0 or (mode != "circular" and max(sizes) < 1):
        raise ShapeError(
            f"pad: input of size {list(input.shape)} is too small. Calculated output size of the "
            f"last {rank} dimensions: {sizes[::-1]}"
        )


@public(namespaces=("nn.functional",), numbers="values")
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with elements added (or, where negative, cut) around it.

    Args:
        input: a tensor.
        pad: (before, after) of the last dimension, then of the one before it, and so on.
        mode: "constant" (any dimensions), or "reflect", "replicate", "circular" (the last 1 to 3).
        value: the constant, 0 unless given.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.pad(ad.arange(3.0).reshape(1, 3), (2, 1), "reflect")
        tensor([[2., 1., 0., 1., 2., 1.]])
    """
    widths = ints("pad", (pad,))
    if len(widths) % 2:
        raise RuntimeError(f"pad: padding length must be divisible by 2, received {widths}")
    if mode == "constant":
        _check_room(input, widths)
        if type(value) is int:  # it is taken for a float
            if abs(value) < 2**53:
                require_fit("pad", float(value), input.dtype)
            value = value if is_word(value) else float(value)
        return constant_pad_nd(input, widths, 0 if value is None else value)
    if mode not in MODES:
        raise NotImplementedError(f"pad: unrecognised padding mode {mode!r}; give one of {MODES}")
    if value is not None and value != 0:
        raise RuntimeError(f'pad: padding mode "{mode}" doesn\'t take in value argument')
    _check(input, widths, mode)
    if mode == "circular" or (mode == "reflect" and len(widths) == 6):
        return _edges(input, widths, mode)
    return _cast_edges(input, widths, mode)


def _edges(input: Tensor, widths: tuple[int, ...], mode: str) -> Tensor:
    """Padding from the tensor's own elements."""
    rules: dict[int, Rule] = {}
    for d in range(len(widths) // 2):
        before, after = widths[2 * d : 2 * d + 2]
        dim = input.ndim - 1 - d
        if before or after:
            n = input.shape[dim]
            rules[dim] = (mode, n, n + before + after, before)
    if not rules:
        return input.clone()
    # PyTorch's circular padding lies row by row, whatever its input does.
    return resampled(input.contiguous() if mode == "circular" else input, rules)


_cast_edges = with_autocast("replication_pad", _edges)
