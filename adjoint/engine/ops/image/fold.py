"""Windows laid out as columns, and columns added up where their windows overlap."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.image.convolution import Pairs, Shape, exact_padding, window_count
from adjoint.engine.ops.image.convolution_functions import expanded

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer_unfold(x: Spec, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Spec:
    counts = map(window_count, x.shape[2:], kernel, stride, padding, dilation)
    return Spec((*x.shape[:2], *kernel, *counts), x.dtype, x.device)


def _infer_fold(x: Spec, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Spec:
    counts = x.shape[2 + len(kernel) :]
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 - sum(p)
        for n, k, s, p, d in zip(counts, kernel, stride, padding, dilation, strict=True)
    ]
    return Spec((*x.shape[:2], *sizes), x.dtype, x.device)


def _batch(record: str) -> Any:
    def batch(size: int, x: Tensor, **geometry: Any) -> Tensor:
        rows = x.reshape((size * x.shape[1], *x.shape[2:]))
        out = (UNFOLD_WINDOWS if record == "unfold" else FOLD_WINDOWS)(rows, **geometry)
        return out.reshape((size, x.shape[1], *out.shape[1:]))

    return batch


# x (N, C, S...) -> (N, C, K..., L...); padding as in Note [exact padding].
UNFOLD_WINDOWS: Record = linear(
    "unfold_windows",
    _infer_unfold,
    lambda g, kernel, stride, padding, dilation: FOLD_WINDOWS(
        g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    batch=_batch("unfold"),
    rounding="exact",
    fragment="device",
)

# x (N, C, K..., L...) -> (N, C, S...)
FOLD_WINDOWS: Record = linear(
    "fold_windows",
    _infer_fold,
    lambda g, kernel, stride, padding, dilation: UNFOLD_WINDOWS(
        g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    batch=_batch("fold"),
    fragment="device",
)


def _geometry(name: str, kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[Shape]:
    given = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    pairs = [expanded(name, what, value, 2) for what, value in given.items()]
    for (what, value), numbers in zip(given.items(), pairs, strict=True):
        if min(numbers) < (0 if what == "padding" else 1):
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {value}")
    return pairs


@public(namespaces=("nn.functional",))
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Sliding windows of an image as columns: (N, C, H, W) -> (N, C kH kW, windows).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.unfold(ad.ones(1, 2, 4, 4), 3).shape
        adjoint.Size([1, 18, 4])
    """
    kernel, dilations, pads, steps = _geometry("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise ShapeError(
            "unfold: expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    x = input if input.ndim == 4 else input.unsqueeze(0)
    sizes = x.shape[2:]
    counts = [
        window_count(n, k, s, (p, p), d)
        for n, k, s, p, d in zip(sizes, kernel, steps, pads, dilations, strict=True)
    ]
    if min(counts) < 1:
        raise ShapeError(
            f"unfold: given input with spatial size {tuple(sizes)}, kernel_size={kernel}, "
            f"dilation={dilations}, padding={pads}, calculated shape of the array of sliding "
            f"blocks as {tuple(counts)}, but its components must be at least one"
        )
    out = UNFOLD_WINDOWS(
        x,
        kernel=kernel,
        stride=steps,
        padding=exact_padding(sizes, kernel, steps, pads, pads, dilations),
        dilation=dilations,
    )
    out = out.reshape((x.shape[0], x.shape[1] * prod(kernel), prod(counts)))
    return out if x is input else out.squeeze(0)


@public(namespaces=("nn.functional",))
def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The transpose of `unfold`: columns added up where their windows overlap.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.fold(ad.ones(1, 4, 4), (3, 3), 2)
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    kernel, dilations, pads, steps = _geometry("fold", kernel_size, dilation, padding, stride)
    sizes = expanded("fold", "output_size", output_size, 2)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ShapeError(
            "fold: expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.shape[1] % prod(kernel):
        raise ShapeError(
            "fold: expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size, but got input.size(1)={x.shape[1]} and kernel_size={kernel}"
        )
    counts = [
        window_count(n, k, s, (p, p), d)
        for n, k, s, p, d in zip(sizes, kernel, steps, pads, dilations, strict=True)
    ]
    if min(counts) < 1 or prod(counts) != x.shape[2]:
        raise ShapeError(
            f"fold: given output_size={sizes}, kernel_size={kernel}, dilation={dilations}, "
            f"padding={pads}, stride={steps}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {counts[0]} * {counts[1]} = {prod(counts)}, but "
            f"got input.size(2)={x.shape[2]}"
        )
    channels = x.shape[1] // prod(kernel)
    out = FOLD_WINDOWS(
        x.reshape((x.shape[0], channels, *kernel, *counts)),
        kernel=kernel,
        stride=steps,
        padding=exact_padding(sizes, kernel, steps, pads, pads, dilations),
        dilation=dilations,
    )
    return out if input.ndim == 3 else out.squeeze(0)
