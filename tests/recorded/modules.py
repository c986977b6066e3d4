"""Layers and losses with weights that are set: what they give, their gradients, their buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tests.recorded import Program
from tests.recorded.calls import leaves, sums

Shape = tuple[int, ...]


class Ints:
    """An input of whole numbers below a bound."""

    def __init__(self, bound: int, *shape: int, low: int = 0) -> None:
        self.bound, self.shape, self.low = bound, shape, low


class Unit:
    """An input inside (0, 1); one whose rows add up to 1, or is a logarithm of such."""

    def __init__(self, *shape: int, rows: bool = False, log: bool = False) -> None:
        self.shape, self.rows, self.log = shape, rows, log


class Signs:
    """An input of 1 and -1."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]  # module, its arguments, inputs


def case(name: str, *args: Any, of: tuple[Any, ...], **kwargs: Any) -> Case:
    return name, args, kwargs, of


def losses() -> Iterator[Case]:
    """Each loss with each reduction."""
    rows = (4, 3)
    pair: tuple[Any, ...] = (rows, rows)
    kinds: list[Case] = [
        case("L1Loss", of=pair),
        case("MSELoss", of=pair),
        case("SmoothL1Loss", beta=0.7, of=pair),
        case("SmoothL1Loss", beta=0.0, of=pair),
        case("HuberLoss", delta=0.6, of=pair),
        case("PoissonNLLLoss", of=(rows, Ints(5, 4, 3))),
        case("PoissonNLLLoss", log_input=False, full=True, of=(Unit(4, 3), Ints(5, 4, 3))),
        case("GaussianNLLLoss", of=(rows, rows, Unit(4, 3))),
        case("GaussianNLLLoss", full=True, eps=0.5, of=(rows, rows, Unit(4, 3))),
        case("KLDivLoss", of=(Unit(4, 3, log=True), Unit(4, 3, rows=True))),
        case("KLDivLoss", log_target=True, of=(Unit(4, 3, log=True), Unit(4, 3, log=True))),
        case("BCELoss", of=(Unit(4, 3), Unit(4, 3))),
        case("BCEWithLogitsLoss", of=(rows, Unit(4, 3))),
        case("CrossEntropyLoss", of=(rows, Ints(3, 4))),
        case("CrossEntropyLoss", label_smoothing=0.2, of=(rows, Ints(3, 4))),
        case("CrossEntropyLoss", ignore_index=1, of=(rows, Ints(3, 4))),
        case("CrossEntropyLoss", label_smoothing=0.1, of=(rows, Unit(4, 3, rows=True))),
        case("CrossEntropyLoss", of=((2, 3, 4), Ints(3, 2, 4))),
        case("NLLLoss", of=(Unit(4, 3, log=True), Ints(3, 4))),
        case("NLLLoss", ignore_index=2, of=(Unit(4, 3, log=True), Ints(3, 4))),
        case("HingeEmbeddingLoss", margin=0.8, of=(rows, Signs(4, 3))),
        case("SoftMarginLoss", of=(rows, Signs(4, 3))),
        case("MultiLabelSoftMarginLoss", of=(rows, Ints(2, 4, 3))),
        case("MultiLabelMarginLoss", of=(rows, Ints(3, 4, 3, low=-1))),
        case("MultiMarginLoss", margin=0.7, of=(rows, Ints(3, 4))),
        case("MultiMarginLoss", p=2, of=(rows, Ints(3, 4))),
        case("MarginRankingLoss", margin=0.3, of=((4,), (4,), Signs(4))),
        case("CosineEmbeddingLoss", margin=0.2, of=(rows, rows, Signs(4))),
        case("TripletMarginLoss", of=(rows, rows, rows)),
        case("TripletMarginLoss", margin=2.0, p=1.0, swap=True, of=(rows, rows, rows)),
        case("TripletMarginWithDistanceLoss", margin=1.5, swap=True, of=(rows, rows, rows)),
    ]
    for name, args, kwargs, of in kinds:
        for how in ("mean", "sum", "none", *["batchmean"] * (name == "KLDivLoss")):
            yield name, args, kwargs | {"reduction": how}, of


def layers() -> Iterator[Case]:
    line, maps, volume = (2, 4, 9), (2, 4, 7, 6), (1, 2, 5, 4, 6)
    yield from (
        case("Linear", 4, 3, of=((2, 4),)),
        case("Linear", 4, 3, bias=False, of=((5, 2, 4),)),
        case("Bilinear", 3, 2, 4, of=((5, 3), (5, 2))),
        case("Embedding", 6, 3, padding_idx=2, of=(Ints(6, 2, 5),)),
        case("Embedding", 6, 3, max_norm=0.8, of=(Ints(6, 2, 5),)),
        case("EmbeddingBag", 6, 3, of=(Ints(6, 2, 5),)),
        case("EmbeddingBag", 6, 3, mode="sum", padding_idx=1, of=(Ints(6, 2, 5),)),
        case("EmbeddingBag", 6, 3, mode="max", of=(Ints(6, 2, 5),)),
        case("Conv1d", 4, 6, 3, stride=2, padding=1, dilation=2, groups=2, of=(line,)),
        case("Conv1d", 4, 2, 4, padding="same", of=(line,)),
        case("Conv1d", 4, 2, 3, padding=2, padding_mode="reflect", of=(line,)),
        case("Conv2d", 4, 6, 3, of=(maps,)),
        case("Conv2d", 4, 6, (3, 2), stride=(2, 1), padding=(0, 1), bias=False, of=(maps,)),
        case("Conv2d", 4, 8, 3, dilation=(1, 2), groups=4, of=(maps,)),
        case("Conv2d", 4, 2, 3, padding=1, padding_mode="circular", of=(maps,)),
        case("Conv2d", 4, 2, 3, padding=1, padding_mode="replicate", of=(maps,)),
        case("Conv3d", 2, 3, 2, stride=2, padding=1, of=(volume,)),
        case("ConvTranspose1d", 4, 3, 3, stride=2, padding=1, output_padding=1, of=(line,)),
        case("ConvTranspose2d", 4, 6, 3, stride=2, groups=2, dilation=2, of=(maps,)),
        case("ConvTranspose3d", 2, 3, 2, stride=2, of=(volume,)),
        case("MaxPool1d", 3, 2, 1, of=(line,)),
        case("MaxPool2d", 3, 2, 1, dilation=2, ceil_mode=True, of=(maps,)),
        case("MaxPool2d", (2, 3), return_indices=True, of=(maps,)),
        case("MaxPool3d", 2, of=(volume,)),
        case("AvgPool1d", 3, 2, 1, of=(line,)),
        case("AvgPool2d", 3, 2, 1, ceil_mode=True, count_include_pad=False, of=(maps,)),
        case("AvgPool2d", (3, 2), divisor_override=5, of=(maps,)),
        case("AvgPool3d", 2, 2, of=(volume,)),
        case("LPPool1d", 2, 3, of=(line,)),
        case("LPPool2d", 3.0, 2, of=(maps,)),
        case("AdaptiveAvgPool1d", 4, of=(line,)),
        case("AdaptiveAvgPool2d", (3, None), of=(maps,)),
        case("AdaptiveAvgPool3d", 2, of=(volume,)),
        case("AdaptiveMaxPool1d", 4, of=(line,)),
        case("AdaptiveMaxPool2d", (3, 4), return_indices=True, of=(maps,)),
        case("AdaptiveMaxPool3d", 2, of=(volume,)),
        case("BatchNorm1d", 4, of=((5, 4),)),
        case("BatchNorm1d", 4, momentum=None, eps=0.1, of=(line,)),
        case("BatchNorm2d", 4, momentum=0.3, of=(maps,)),
        case("BatchNorm2d", 4, affine=False, track_running_stats=False, of=(maps,)),
        case("BatchNorm3d", 2, of=(volume,)),
        case("InstanceNorm1d", 4, of=(line,)),
        case("InstanceNorm2d", 4, affine=True, track_running_stats=True, of=(maps,)),
        case("InstanceNorm3d", 2, eps=0.1, of=(volume,)),
        case("LayerNorm", 9, of=(line,)),
        case("LayerNorm", (7, 6), eps=0.2, bias=False, of=(maps,)),
        case("RMSNorm", 9, of=(line,)),
        case("RMSNorm", (4, 9), eps=0.3, of=(line,)),
        case("GroupNorm", 2, 4, eps=0.1, of=(maps,)),
        case("LocalResponseNorm", 3, alpha=0.3, beta=0.6, k=1.5, of=(maps,)),
        case("PReLU", 4, of=(maps,)),
        case("GLU", 1, of=(maps,)),
        case("Softmax", 1, of=(line,)),
        case("LogSoftmax", 1, of=(line,)),
        case("Softmin", 1, of=(line,)),
        case("Softmax2d", of=(maps,)),
        case("Upsample", scale_factor=2, of=(maps,)),
        case("Upsample", size=(5, 9), mode="bilinear", of=(maps,)),
        case("Upsample", size=(5, 9), mode="bilinear", align_corners=True, of=(maps,)),
        case("Upsample", scale_factor=1.7, mode="bicubic", of=(maps,)),
        case("Upsample", scale_factor=1.6, mode="linear", of=(line,)),
        case("Upsample", size=(3, 7, 5), mode="trilinear", of=(volume,)),
        case("PixelShuffle", 2, of=(maps,)),
        case("PixelUnshuffle", 2, of=((2, 1, 4, 6),)),
        case("ChannelShuffle", 2, of=(maps,)),
        case("Fold", (4, 5), 2, of=((2, 8, 12),)),
        case("Unfold", 3, padding=1, stride=2, dilation=2, of=(maps,)),
        case("ConstantPad2d", (1, 2, 0, -1), 0.7, of=(maps,)),
        case("ReflectionPad1d", (2, 3), of=(line,)),
        case("ReflectionPad2d", (1, 2, 3, 0), of=(maps,)),
        case("ReplicationPad2d", (1, 2, 3, 0), of=(maps,)),
        case("CircularPad1d", (2, 1), of=(line,)),
        case("ZeroPad2d", (1, 2, 0, 1), of=(maps,)),
        case("CosineSimilarity", 1, of=(line, line)),
        case("PairwiseDistance", 3.0, keepdim=True, of=((4, 3), (4, 3))),
        case("Flatten", 1, 2, of=(maps,)),
        case("Unflatten", 1, (2, 2), of=(maps,)),
        case("RNN", 3, 4, 2, nonlinearity="relu", of=((5, 2, 3),)),
        case("RNN", 3, 4, bidirectional=True, batch_first=True, of=((2, 5, 3), (2, 2, 4))),
        case("LSTM", 3, 4, 2, bidirectional=True, of=((5, 2, 3),)),
        case("LSTM", 3, 4, proj_size=2, batch_first=True, of=((2, 5, 3),)),
        case("GRU", 3, 4, 2, bias=False, of=((5, 2, 3), (2, 2, 4))),
        case("RNNCell", 3, 4, of=((2, 3), (2, 4))),
        case("LSTMCell", 3, 4, of=((2, 3),)),
        case("GRUCell", 3, 4, bias=False, of=((2, 3), (2, 4))),
        case("MultiheadAttention", 4, 2, of=((5, 2, 4), (3, 2, 4), (3, 2, 4))),
        case("MultiheadAttention", 4, 2, kdim=3, vdim=2, add_bias_kv=True, add_zero_attn=True,
             batch_first=True, of=((2, 5, 4), (2, 3, 3), (2, 3, 2))),
        case("TransformerEncoderLayer", 4, 2, 6, 0.0, of=((5, 2, 4),)),
        case("TransformerEncoderLayer", 4, 2, 6, 0.0, activation="gelu", norm_first=True,
             batch_first=True, of=((2, 5, 4),)),
        case("TransformerDecoderLayer", 4, 2, 6, 0.0, of=((5, 2, 4), (3, 2, 4))),
        case("TransformerDecoderLayer", 4, 2, 6, 0.0, norm_first=True, of=((5, 2, 4), (3, 2, 4))),
        case("Transformer", 4, 2, 1, 1, 6, 0.0, of=((5, 2, 4), (3, 2, 4))),
    )  # fmt: skip


ACTIVATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("CELU", {"alpha": 0.7}), ("ELU", {"alpha": 1.3}), ("GELU", {}), ("GELU", {"approximate": "tanh"}),
    ("Hardshrink", {"lambd": 0.4}), ("Hardsigmoid", {}), ("Hardswish", {}),
    ("Hardtanh", {"min_val": -0.5, "max_val": 0.8}), ("LeakyReLU", {"negative_slope": 0.2}),
    ("LogSigmoid", {}), ("Mish", {}), ("ReLU", {}), ("ReLU6", {}), ("SELU", {}), ("SiLU", {}),
    ("Sigmoid", {}), ("Softplus", {"beta": 2, "threshold": 3}), ("Softshrink", {"lambd": 0.3}),
    ("Softsign", {}), ("Tanh", {}), ("Tanhshrink", {}), ("Threshold", {"threshold": 0.2, "value": -3.0}),
)  # fmt: skip


def wave(lib: Any, shape: Shape, shift: float, size: float = 1.0) -> Any:
    """Numbers of no order, the same everywhere."""
    at = lib.arange(math.prod(shape), dtype=lib.float64)
    return (at * 12.9898 + shift).sin().mul(4375.85).sin().mul(size).reshape(shape)


def given(lib: Any, what: Any, place: int) -> Any:
    if isinstance(what, tuple):
        return wave(lib, what, place, 2.0).requires_grad_()
    x = wave(lib, what.shape, place + 0.5)
    if isinstance(what, Ints):
        return ((x + 1) / 2 * (what.bound - what.low)).floor().long() + what.low
    if isinstance(what, Signs):
        return lib.where(x > 0, 1.0, -1.0).double()
    x = x * 0.45 + 0.5
    x = x / x.sum(-1, keepdim=True) if what.rows or what.log else x
    return (x.log() if what.log else x).requires_grad_()


def trained(lib: Any, row: Case) -> list[Any]:
    """Results, gradients and buffers of a step, and results in evaluation after it."""
    name, args, kwargs, of = row
    module = getattr(lib.nn, name)(*args, **kwargs).double()
    with lib.no_grad():
        for place, param in enumerate(module.parameters()):
            param.copy_(wave(lib, tuple(param.shape), 0.3 + place, 0.6))
    inputs = [given(lib, what, place) for place, what in enumerate(of)]
    results = list(leaves(out := module(*inputs)))
    floats = [x for x in flat(out) if x.requires_grad]
    sum((x * wave(lib, tuple(x.shape), 0.9)).sum() for x in floats).backward()
    grads = [x.grad for x in (*inputs, *module.parameters()) if getattr(x, "requires_grad", False)]
    module.eval()
    with lib.no_grad():
        evaluated = list(leaves(module(*inputs)))
    held = [list(module.buffers()), [n for n, _ in module.named_parameters()]]
    found = [results, [g for g in grads if g is not None], evaluated, held[0]]
    return [[sums(x) for x in part] for part in found] + [held[1], len(grads)]


def flat(x: Any) -> Iterator[Any]:
    if hasattr(x, "detach"):
        yield x
    elif isinstance(x, list | tuple):
        for value in x:
            yield from flat(value)


ROWS = [
    *losses(),
    *layers(),
    *(case(name, of=((3, 7),), **kwargs) for name, kwargs in ACTIVATIONS),
]
PROGRAMS: dict[str, Program] = {
    f"{row[0]} {row[1]} {row[2]} {k}": lambda lib, row=row: trained(lib, row)
    for k, row in enumerate(ROWS)
}
