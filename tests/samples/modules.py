"""Every module of `adjoint.nn` with arguments to build and to call it: one training step each.

A row builds the module and gives the tensors its call takes. `call` says how the module is used
where that is not `module(*inputs)`. Floating point inputs are scaled by a learned factor before
the call, so that gradients pass through the module whether or not it has parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

Inputs = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Row:
    """How to build a module, what to call it with, and how."""

    build: Callable[[], Any]
    inputs: Inputs
    call: Callable[..., Any] = lambda module, *inputs: module(*inputs)
    traces: int = 1  # how often a captured step of it is traced


def real(*shape: int) -> Inputs:
    """One tensor of normal values."""
    return lambda rng: (draw(rng, *shape),)


def reals(*shapes: tuple[int, ...]) -> Inputs:
    """Several of them."""
    return lambda rng: tuple(draw(rng, *shape) for shape in shapes)


def draw(rng: np.random.Generator, *shape: int) -> Any:
    """Normal values."""
    return ad.tensor(rng.normal(size=shape).astype(np.float32))


def unit(rng: np.random.Generator, *shape: int) -> Any:
    """Values well inside (0, 1)."""
    return ad.tensor(rng.uniform(0.1, 0.9, size=shape).astype(np.float32))


def signs(rng: np.random.Generator, *shape: int) -> Any:
    """-1 and 1."""
    return ad.tensor(np.sign(rng.normal(size=shape)).astype(np.float32))


def ints(rng: np.random.Generator, high: int, *shape: int) -> Any:
    """Integers from 0 to high - 1."""
    return ad.tensor(rng.integers(0, high, size=shape))


def classes(scores: tuple[int, ...], high: int, *shape: int) -> Inputs:
    """Scores and the classes they are for."""
    return lambda rng: (draw(rng, *scores), ints(rng, high, *shape))


def unpooled(module: Any, x: Any) -> Any:
    pool = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}[x.ndim - 2]
    return module(*pool(2, return_indices=True)(x))


DROPOUTS = {
    "Dropout": [
        Row(nn.Dropout, real(3, 4)),
        Row(lambda: nn.Dropout(0.3, inplace=True), real(3, 4)),
        Row(lambda: nn.Dropout().eval(), real(3, 4)),
    ],
    "AlphaDropout": [Row(lambda: nn.AlphaDropout(0.3), real(3, 4))],
    "FeatureAlphaDropout": [Row(lambda: nn.FeatureAlphaDropout(0.3), real(3, 4, 2))],
}
ACTIVATIONS = """
    CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU
    RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink
""".split()
SPACES = {1: (2, 4, 6), 2: (2, 4, 6, 6), 3: (2, 4, 4, 4, 4)}
ROWS: dict[str, list[Row]] = {name: [Row(getattr(nn, name), real(3, 4))] for name in ACTIVATIONS}
ROWS |= {
    "GLU": [Row(nn.GLU, real(3, 4))],
    "Threshold": [Row(lambda: nn.Threshold(0.1, 2.0), real(3, 4))],
    "Softmax": [Row(lambda: nn.Softmax(dim=1), real(3, 4))],
    "Softmax2d": [Row(nn.Softmax2d, real(2, 3, 4, 4))],
    "Softmin": [Row(lambda: nn.Softmin(dim=1), real(3, 4))],
    "LogSoftmax": [Row(lambda: nn.LogSoftmax(dim=1), real(3, 4))],
    "PReLU": [Row(lambda: nn.PReLU(4), real(3, 4)), Row(nn.PReLU, real(3, 4))],
    "Hardtanh": [Row(lambda: nn.Hardtanh(-0.5, 0.7), real(3, 4))],
    "GELU": [Row(nn.GELU, real(3, 4)), Row(lambda: nn.GELU("tanh"), real(3, 4))],
    "ReLU": [Row(nn.ReLU, real(3, 4)), Row(lambda: nn.ReLU(inplace=True), real(3, 4))],
}
LINEAR: dict[str, list[Row]] = {
    "Linear": [
        Row(lambda: nn.Linear(4, 3), real(2, 5, 4)),
        Row(lambda: nn.Linear(4, 3, bias=False), real(4)),
    ],
    "Bilinear": [Row(lambda: nn.Bilinear(3, 4, 2), reals((5, 3), (5, 4)))],
    "LazyLinear": [Row(lambda: nn.LazyLinear(3), real(2, 4))],
    "Flatten": [Row(nn.Flatten, real(2, 3, 4))],
    "Unflatten": [Row(lambda: nn.Unflatten(1, (2, 3)), real(2, 6))],
    "Fold": [Row(lambda: nn.Fold((4, 4), 2, stride=1, padding=1), real(2, 8, 25))],
    "Unfold": [Row(lambda: nn.Unfold(2, dilation=2, stride=2), real(2, 3, 6, 6))],
    "ChannelShuffle": [Row(lambda: nn.ChannelShuffle(2), real(2, 4, 3, 3))],
    "PixelShuffle": [Row(lambda: nn.PixelShuffle(2), real(2, 4, 3, 3))],
    "PixelUnshuffle": [Row(lambda: nn.PixelUnshuffle(2), real(2, 2, 4, 4))],
    "PairwiseDistance": [Row(lambda: nn.PairwiseDistance(3.0), reals((4, 3), (4, 3)))],
    "CosineSimilarity": [Row(lambda: nn.CosineSimilarity(1), reals((4, 3), (4, 3)))],
    "Sequential": [
        Row(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), real(3, 4))
    ],
    "DataParallel": [Row(lambda: nn.DataParallel(nn.Linear(4, 3)), real(2, 4))],
    "ModuleList": [
        Row(
            lambda: nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)]),
            real(3, 4),
            lambda layers, x: layers[1](layers[0](x).tanh()),
        )
    ],
    "ModuleDict": [
        Row(
            lambda: nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Tanh()}),
            real(3, 4),
            lambda layers, x: layers["b"](layers["a"](x)),
        )
    ],
    "ParameterList": [
        Row(
            lambda: nn.ParameterList([nn.Parameter(ad.ones(4)), nn.Parameter(ad.ones(4))]),
            real(3, 4),
            lambda held, x: sum(x * p for p in held),
        )
    ],
    "ParameterDict": [
        Row(
            lambda: nn.ParameterDict({"a": nn.Parameter(ad.ones(4))}),
            real(3, 4),
            lambda held, x: x * held["a"],
        )
    ],
    "Embedding": [
        Row(lambda: nn.Embedding(7, 3), lambda rng: (ints(rng, 7, 2, 4),)),
        Row(
            lambda: nn.Embedding(7, 3, padding_idx=0, scale_grad_by_freq=True),
            lambda rng: (ints(rng, 7, 2, 4),),
        ),
        Row(lambda: nn.Embedding(7, 3, max_norm=0.5), lambda rng: (ints(rng, 7, 2, 4),)),
    ],
    "EmbeddingBag": [
        Row(lambda: nn.EmbeddingBag(7, 3), lambda rng: (ints(rng, 7, 2, 4),)),
        Row(
            lambda: nn.EmbeddingBag(7, 3, mode="sum", include_last_offset=True),
            lambda rng: (ints(rng, 7, 6), ad.tensor([0, 2, 6]), draw(rng, 6)),
        ),
        Row(
            lambda: nn.EmbeddingBag(7, 3, mode="max", padding_idx=1),
            lambda rng: (ints(rng, 7, 6), ad.tensor([0, 3])),
        ),
    ],
}
NORMS: dict[str, list[Row]] = {
    "LayerNorm": [
        Row(lambda: nn.LayerNorm((3, 4)), real(2, 3, 4)),
        Row(lambda: nn.LayerNorm(4, elementwise_affine=False), real(2, 3, 4)),
    ],
    "RMSNorm": [Row(lambda: nn.RMSNorm(4), real(2, 3, 4))],
    "GroupNorm": [Row(lambda: nn.GroupNorm(2, 4), real(2, 4, 3, 3))],
    "SyncBatchNorm": [Row(lambda: nn.SyncBatchNorm(4).eval(), real(3, 4, 5))],
    "LocalResponseNorm": [Row(lambda: nn.LocalResponseNorm(2), real(2, 4, 3, 3))],
    "CrossMapLRN2d": [Row(lambda: nn.CrossMapLRN2d(3), real(2, 4, 3, 3))],
}
POOLS: dict[str, list[Row]] = {
    "FractionalMaxPool2d": [
        Row(lambda: nn.FractionalMaxPool2d(2, output_size=3), real(2, 3, 6, 6))
    ],
    "FractionalMaxPool3d": [
        Row(lambda: nn.FractionalMaxPool3d(2, output_ratio=0.5), real(2, 2, 4, 4, 4))
    ],
    "Upsample": [
        Row(partial(nn.Upsample, scale_factor=2, mode="nearest"), real(2, 3, 4)),
        Row(partial(nn.Upsample, None, 2, "linear", align_corners=True), real(2, 3, 4)),
        Row(partial(nn.Upsample, scale_factor=1.5, mode="bilinear"), real(2, 3, 4, 4)),
        Row(partial(nn.Upsample, size=7, mode="bicubic"), real(2, 3, 4, 4)),
        Row(partial(nn.Upsample, scale_factor=2, mode="trilinear"), real(2, 1, 3, 3, 3)),
    ],
    "UpsamplingNearest2d": [Row(lambda: nn.UpsamplingNearest2d(scale_factor=2), real(2, 3, 4, 4))],
    "UpsamplingBilinear2d": [Row(lambda: nn.UpsamplingBilinear2d(size=7), real(2, 3, 4, 4))],
}


def by_dimension(n: int) -> dict[str, list[Row]]:
    """Layers for 1, 2 or 3 dimensions of space."""
    space = SPACES[n]
    c = space[1]

    def row(kind: str, *args: Any, **kwargs: Any) -> Row:
        return Row(partial(getattr(nn, f"{kind}{n}d"), *args, **kwargs), real(*space))

    def evaluated() -> Any:
        return getattr(nn, f"BatchNorm{n}d")(c).eval()

    pads = ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad")
    rows: dict[str, list[Row]] = {
        "Conv": [
            row("Conv", c, 2, 3, padding=1),
            row("Conv", c, 4, 2, stride=2, groups=2, bias=False),
            row("Conv", c, 2, 2, dilation=2, padding="same"),
            row("Conv", c, 2, 3, padding=1, padding_mode="circular"),
            row("Conv", c, 2, 3, padding=1, padding_mode="reflect"),
        ],
        "ConvTranspose": [
            row("ConvTranspose", c, 2, 3, stride=2, output_padding=1),
            row("ConvTranspose", c, 4, 2, groups=2, dilation=2, padding=1),
        ],
        "LazyConv": [row("LazyConv", 2, 2)],
        "LazyConvTranspose": [row("LazyConvTranspose", 2, 2)],
        "BatchNorm": [
            row("BatchNorm", c),
            row("BatchNorm", c, affine=False, momentum=None),
            row("BatchNorm", c, track_running_stats=False),
            Row(evaluated, real(*space)),
        ],
        "InstanceNorm": [
            row("InstanceNorm", c),
            row("InstanceNorm", c, affine=True, track_running_stats=True),
        ],
        "LazyBatchNorm": [row("LazyBatchNorm")],
        "LazyInstanceNorm": [row("LazyInstanceNorm", affine=True, track_running_stats=True)],
        "AvgPool": [
            row("AvgPool", 3, 2, padding=1, ceil_mode=True),
            row("AvgPool", 2, 2, 1, count_include_pad=False),
        ],
        "MaxPool": [
            row("MaxPool", 2),
            row("MaxPool", 2, 1, dilation=2, padding=1, return_indices=True),
        ],
        "LPPool": [row("LPPool", 2.0, 2)],
        "AdaptiveAvgPool": [row("AdaptiveAvgPool", 3)],
        "AdaptiveMaxPool": [row("AdaptiveMaxPool", 3), row("AdaptiveMaxPool", 2, True)],
        "MaxUnpool": [replace(row("MaxUnpool", 2), call=unpooled)],
        "ConstantPad": [row("ConstantPad", (1, -1), 2.0)]
        if n == 1
        else [row("ConstantPad", 1, 2.0)],
        "Dropout": [row("Dropout")],
    }
    rows |= {kind: [row(kind, 1)] for kind in pads}
    return {f"{kind}{n}d": of for kind, of in rows.items()}


ROWS |= LINEAR | NORMS | POOLS | DROPOUTS | by_dimension(1) | by_dimension(2) | by_dimension(3)
