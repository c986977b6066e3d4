"""Convolutions as operations of cuDNN: the three records of `ops.image.convolution`.

All three tensors lie dense in one order, channels first or last; strides of dimensions of one
element say which, so they are written anew. Padding is made even where what a stride leaves over
allows it (Note [exact padding]); where it is not the same on both sides, some of cuDNN 9.19's plans
give wrong numbers, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.array.libraries.cudnn import DTYPES, CudnnOperation
from adjoint.engine.core.dtype import named
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.core.state.precision import get_float32_matmul_precision
from adjoint.engine.ops.image.convolution import is_even

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

FORWARD, DATA, WEIGHT = "convolution", "convolution_transpose", "convolution_weight"
# Where among two operands and a result are image, weights and maps.
PARTS = {FORWARD: (0, 1, 2), DATA: (2, 1, 0), WEIGHT: (0, 2, 1)}
RANKS = (1, 2, 3)  # of images
# Notes of plans that sum in fewer bits, or otherwise than by adding up products.
INEXACT = (
    "REDUCED_PRECISION_REDUCTION", "FFT", "WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6",
    "WINOGRAD_TILE_13x13",
)  # fmt: skip
# Of cuDNN 9.19's plans for gradients by weights: one as far off as those, without a note; and one
# that does not end, once it ran for other sizes, where it asks for no room to add up partial sums.
UNTOLD, ENDLESS = ("eng17_",), ("eng62_k25=1",)


@dataclass(frozen=True, slots=True)
class Convolution:
    """One of the records on images (N, G I, S...), weights (G O, I, K...), maps (N, G O, L...)."""

    kind: str  # the record: the first two are read, or the last and one of them
    dtype: str
    image: Shape
    weights: Shape
    maps: Shape
    stride: Shape
    padding: Shape  # on both sides
    dilation: Shape
    channels_last: bool
    tf32: bool  # of float32: whether 10 bits of a factor will do
    deterministic: bool
    room: int = 0  # bytes of workspace, where that is known
    refs: tuple[Any, ...] = ()  # a kernel's references, of which it has none

    @property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        """Those of its two operands and of its result."""
        return {
            FORWARD: (self.image, self.weights, self.maps),
            DATA: (self.maps, self.weights, self.image),
            WEIGHT: (self.image, self.maps, self.weights),
        }[self.kind]

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has weights of its own."""
        return self.weights[1] == 1 and self.image[1] > 1

    @property
    def work(self) -> int:
        """Products and sums."""
        return 2 * prod(self.maps) * prod(self.weights[1:])


def convolution_of(
    kind: str,
    dtype: str,
    shapes: tuple[Shape, Shape, Shape],
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    channels_last: bool,
) -> Convolution | None:
    """A record's call, given the shapes of its operands and its result; None: not cuDNN's."""
    image, weights, maps = (shapes[i] for i in PARTS[kind])
    if dtype not in DTYPES or len(stride) not in RANKS or 0 in (*image, *weights, *maps):
        return None
    pads = tuple(low for low, _ in padding)
    if not all(map(is_even, padding, stride)):
        return None
    if len(stride) == 1:  # cuDNN's images have two dimensions at least
        image, weights, maps = ((*s[:2], 1, s[2]) for s in (image, weights, maps))
        stride, pads, dilation = (1, *stride), (0, *pads), (1, *dilation)
    return Convolution(
        kind, dtype, image, weights, maps, stride, pads, dilation, channels_last,
        tf32=dtype == "float32" and allows_tf32(), deterministic=wants_determinism(),
    )  # fmt: skip


def allows_tf32() -> bool:
    """Whether convolutions of float32 may go through tensor cores, which take 10 bits of each."""
    if not switches.get("backends.cudnn.allow_tf32"):
        return False
    asked = switches.get("backends.cudnn.fp32_precision")
    return asked == "tf32" or (asked == "none" and get_float32_matmul_precision() != "highest")


def wants_determinism() -> bool:
    """Whether sums must be taken in the same order every time."""
    asked = switches.get("backends.cudnn.deterministic")
    return bool(asked) or are_deterministic_algorithms_enabled()


def dense_strides(shape: Shape, channels_last: bool) -> list[int]:
    """Strides without gaps; those of dimensions of one element tell the order too."""
    order = (0, *range(2, len(shape)), 1) if channels_last else tuple(range(len(shape)))
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return strides


def operation(call: Convolution) -> CudnnOperation:
    """What is asked of cuDNN."""
    item = named(call.dtype).itemsize
    refused = [*INEXACT, *(("NONDETERMINISTIC",) if call.deterministic else ())]
    if call.dtype == "float32":
        refused += ["DOWN_CONVERT_INPUTS", *(() if call.tf32 else ("TENSOR_CORE",))]
    return CudnnOperation(
        key=call,
        build=builder(call),
        sizes=tuple(prod(shape) * item for shape in call.shapes),
        compute="DOUBLE" if call.dtype == "float64" else "FLOAT",
        refused=tuple(refused),
        engines=unwanted(call),
        kept=True,
    )


def unwanted(call: Convolution) -> tuple[str, ...]:
    """Parts of names of plans that must not be taken."""
    if call.kind != WEIGHT:
        return ()
    return (*UNTOLD, *ENDLESS) if call.dtype == "float32" else ENDLESS


def builder(call: Convolution) -> Callable[[Any, Any], list[Any]]:
    """What puts a convolution into a graph."""

    def build(module: Any, graph: Any) -> list[Any]:
        dtype = getattr(module.data_type, DTYPES[call.dtype])
        *given, out = call.shapes
        operands = [
            graph.tensor(
                dim=list(s), stride=dense_strides(s, call.channels_last), data_type=dtype, name=name
            )
            for s, name in zip(given, ("first", "second"), strict=True)
        ]
        names = {FORWARD: "conv_fprop", DATA: "conv_dgrad", WEIGHT: "conv_wgrad"}
        result = getattr(graph, names[call.kind])(
            *operands,
            padding=list(call.padding),
            stride=list(call.stride),
            dilation=list(call.dilation),
        )
        result.set_output(True).set_data_type(dtype)
        result.set_dim(list(out)).set_stride(dense_strides(out, call.channels_last))
        return [*operands, result]

    return build
