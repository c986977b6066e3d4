"""Composites at the points where a derivative is easily wrong: kinks, zeros, saturation, no number.

A row is a function of a library (Adjoint, or PyTorch beside it) and tensors; floating tensors are
differentiated. Elementwise rows are asked at every edge, infinities and NaN among them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
EDGES = np.array(
    [
        *(0.0, -0.0, 5e-324, -5e-324, 1e-300, -1e-300, 1e-30, -1e-30, 1e-8, -1e-8, 1e-3, -1e-3),
        *(0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 8.5, -8.5),
        *(10.0, -10.0, 20.0, -20.0, 20.5, -36.0, 40.0, -40.0, 100.0, -100.0, 710.0, -710.0),
        *(1e4, -1e4, 1e10, -1e10, 1e155, -1e155, INF, -INF, NAN),
    ]
)


@dataclass(frozen=True)
class Row:
    """A composite's name, a call of it, and arguments to call it with."""

    name: str
    fn: Callable[..., Any]  # (library, *tensors) -> tensor
    points: tuple[tuple[Array, ...], ...]
    elementwise: bool = False
    domain: tuple[float, float] = (-INF, INF)  # of all operands, where it has one

    def __repr__(self) -> str:
        return self.name


class Point:
    """A row at one point, in one library: scalar functions of the floating arrays."""

    def __init__(self, lib: Any, row: Row, arrays: tuple[Array, ...]) -> None:
        self.lib, self.row = lib, row
        self.tensors = [lib.tensor(a.tolist(), dtype=getattr(lib, str(a.dtype))) for a in arrays]
        self.places = [i for i, t in enumerate(self.tensors) if t.dtype.is_floating_point]
        self.xs = tuple(self.tensors[i] for i in self.places)
        self.which = tuple(range(len(self.xs)))
        self.finite = all(np.isfinite(a).all() for a in arrays)

    def outs(self, *xs: Any) -> Any:
        given = list(self.tensors)
        for i, x in zip(self.places, xs, strict=True):
            given[i] = x
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of reductions, and of PyTorch about itself
            return self.row.fn(self.lib, *given)

    def total(self, *xs: Any) -> Any:
        """The sum of the results, weighted where one derivative could make up for another."""
        return self.weighted([self.outs(*xs)])

    def slopes(self, *xs: Any) -> Any:
        """The sum of first derivatives, likewise."""
        return self.weighted(self.lib.func.grad(self.total, self.which)(*xs))

    def weighted(self, values: Any) -> Any:
        total: Any = 0
        for k, v in enumerate(values):
            if not self.row.elementwise:
                numbers = self.lib.arange(v.numel(), dtype=v.dtype).reshape(v.shape)
                v = v * (1 + 0.25 * numbers) * (k + 1)
            total = total + v.sum()
        return total


def tolerance(row: Row, arrays: tuple[Array, ...], want: Array) -> float:
    """What rounding may leave of sums of terms as large as the operands and the result."""
    if row.elementwise:
        return 1e-14
    sizes = [np.abs(a[np.isfinite(a)]) for a in (want, *arrays) if a.dtype.kind == "f"]
    return 1e-12 * max(
        1.0, *(min(s.max(), 1e4) if s.size else 0 for s in sizes[1:]), *sizes[0].flat
    )


def _f(path: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    def call(lib: Any, *tensors: Any) -> Any:
        target = lib
        for part in path.split("."):
            target = getattr(target, part)
        return target(*tensors, *args, **kwargs)

    return call


def _each(name: str, fn: Callable[..., Any], edges: Array = EDGES) -> Row:
    return Row(name, fn, ((edges,),), True)


def _pairs(
    name: str, fn: Callable[..., Any], xs: Any, ys: Any, domain: tuple[float, float] = (-INF, INF)
) -> Row:
    """Every x with every y, elementwise."""
    x, y = (a.reshape(-1) for a in np.meshgrid(np.array(xs), np.array(ys), indexing="ij"))
    return Row(name, fn, ((x, y),), True, domain)


def _prelu(lib: Any, x: Any, slopes: Any) -> Any:
    """Each element a channel with a slope of its own."""
    return lib.nn.functional.prelu(x.unsqueeze(0), slopes).squeeze(0)


NN = "nn.functional."
SAME = {"reduction": "none"}
PROBABILITIES = [0.0, 1e-300, 1e-20, 1e-12, 1e-6, 0.3, 0.5, 0.9, 1 - 1e-12, 1.0]
ELEMENTWISE = [
    _each("gelu", _f(NN + "gelu")),
    _each("gelu tanh", _f(NN + "gelu", approximate="tanh")),
    _each("silu", _f(NN + "silu")),
    _each("mish", _f(NN + "mish")),
    _each("softplus", _f(NN + "softplus")),
    _each("softplus sharp", _f(NN + "softplus", 2.0, 3.0)),
    _each("log_sigmoid", _f(NN + "logsigmoid")),
    _each("elu", _f(NN + "elu", 1.5)),
    _each("selu", _f(NN + "selu")),
    _each("celu", _f(NN + "celu", 2.0)),
    _each("softsign", _f(NN + "softsign")),
    _each("tanhshrink", _f(NN + "tanhshrink")),
    _each("leaky_relu", _f(NN + "leaky_relu", 0.1)),
    _each("hardtanh", _f(NN + "hardtanh")),
    _each("hardsigmoid", _f(NN + "hardsigmoid")),
    _each("hardswish", _f(NN + "hardswish")),
    _each("softshrink", _f(NN + "softshrink")),
    _each("hardshrink", _f(NN + "hardshrink")),
    _each("threshold", _f(NN + "threshold", 0.25, 0.5)),
    _each("nan_to_num", _f("nan_to_num", 1.5, 2.5, -3.5)),
    _pairs("prelu", _prelu, EDGES, [0.25, -2.5]),
    _pairs("mse_loss", _f(NN + "mse_loss", **SAME), EDGES, [0.0, 1.0, -2.5]),
    _pairs("l1_loss", _f(NN + "l1_loss", **SAME), EDGES, [0.0, 1.0, -2.5]),
    _pairs("huber_loss", _f(NN + "huber_loss", **SAME), EDGES, [0.0, 1.0, -2.5]),
    _pairs("smooth_l1_loss", _f(NN + "smooth_l1_loss", **SAME), EDGES, [0.0, 1.0, -2.5]),
    _pairs(
        "smooth_l1_loss sharp",
        _f(NN + "smooth_l1_loss", beta=0.0, **SAME),
        EDGES,
        [0.0, 1.0],
    ),
    _pairs("poisson_nll_loss", _f(NN + "poisson_nll_loss", **SAME), EDGES, [0.0, 1.0, 3.0]),
    _pairs(
        "poisson_nll_loss full",
        _f(NN + "poisson_nll_loss", log_input=False, full=True, **SAME),
        [0.0, 1e-300, 1e-6, 0.5, 3.0, 1e10],
        [0.0, 0.5, 1.0, 3.0, 100.0],
        (0.0, INF),
    ),
    _pairs(
        "binary_cross_entropy",
        _f(NN + "binary_cross_entropy", **SAME),
        PROBABILITIES,
        [0.0, 0.25, 1.0],
        (0.0, 1.0),
    ),
    _pairs(
        "binary_cross_entropy_with_logits",
        _f(NN + "binary_cross_entropy_with_logits", **SAME),
        EDGES,
        [0.0, 0.25, 1.0],
    ),
    _pairs("kl_div", _f(NN + "kl_div", **SAME), [0.0, -0.5, -3.0, -100.0], [0.0, 1e-300, 0.3, 1.0]),
    _pairs(
        "kl_div of logarithms",
        _f(NN + "kl_div", log_target=True, **SAME),
        [0.0, -0.5, -100.0],
        [0.0, -0.5, -100.0, -800.0],
    ),
    _pairs(
        "soft_margin_loss",
        lambda lib, x, y: lib.nn.functional.soft_margin_loss(x, y.to(x.dtype), **SAME),
        EDGES,
        [-1, 1],
    ),
    _pairs("hinge_embedding_loss", _f(NN + "hinge_embedding_loss", **SAME), EDGES, [-1.0, 1.0]),
]


def _three(*last: Any) -> Array:
    return np.array([*last, 0.3, -1.2])


def _rows_of(*rows: Any) -> tuple[tuple[Array, ...], ...]:
    """Each row alone, as a matrix with an ordinary row beside it."""
    return tuple((np.array([r, np.linspace(-1, 1.3, len(r))]),) for r in rows)


RNG = np.random.default_rng(7)
ORDINARY = RNG.normal(size=(2, 4))
SPREAD = _rows_of(
    [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1e-8, -1e-8, 0.0], [1000.0, -1000.0, 0.0], [1e4, 1e4, 1e4],
    [3.0, 1.0, -2.0], [3.0, 0.0, -2.0], [0.0, 0.0, 2.0], [40.0, 0.0, -40.0], [1e-200, 0.0, 1e-200], [5.0, 5.0, -5.0],
)  # fmt: skip
LIMITS = _rows_of([INF, 0.0, 1.0], [-INF, 0.0, 1.0], [-INF, -INF, -INF], [NAN, 0.0, 1.0])
IMAGE = RNG.normal(size=(2, 4, 3))
FLAT = np.concatenate([np.zeros((1, 4, 3)), RNG.normal(size=(1, 4, 3))])
WEIGHT, BIAS = np.array([0.5, 1.5, -1.0]), np.array([0.1, -0.2, 0.3])
CHANNEL = np.array([0.5, 1.5, -1.0, 0.7])


def _norm(order: float) -> Row:
    return Row(
        f"p_norm {order}",
        lambda lib, x: lib.linalg.vector_norm(x, order, 1),
        (*SPREAD, *_rows_of([0.0, 1e-100, 2e-100], [1e100, 1e100, 0.0])),
    )


def _attention(lib: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
    return lib.nn.functional.scaled_dot_product_attention(q, k, v, *mask)


def _causal(lib: Any, q: Any, k: Any, v: Any) -> Any:
    return lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


QKV = tuple(RNG.normal(size=(1, 3, 2)) for _ in range(3))
LARGE = (QKV[0] * 1e3, QKV[1], QKV[2])
NOTHING = tuple(a * 0 for a in QKV)
MASK = np.array([[[True, False, True], [False, False, False], [True, True, True]]])
BIASES = np.array([[[0.0, -INF, 1.0], [-0.5, -INF, 2.0], [0.1, 0.2, 0.3]]])


def _gates(lib: Any, x: Any, h: Any, c: Any) -> Any:
    return lib.cat(_module(lib, "LSTMCell", 2, 3)(x, (h, c)))


WAVES = np.sin(np.arange(36.0)).reshape(6, 6)


def _by_runs(lib: Any, a: Any, b: Any) -> Any:
    """Of three runs, one of them empty."""
    ends = lib.tensor([2, 2, 4], dtype=lib.int32)
    return lib.nn.functional.grouped_mm(a, b, offs=ends)


_MODULES: dict[tuple[Any, ...], Any] = {}


def _module(lib: Any, name: str, *sizes: int) -> Any:
    """A layer with the same parameters in every library."""
    key = (lib.__name__, name, *sizes)
    if key not in _MODULES:
        _MODULES[key] = _new_module(lib, name, *sizes)
    return _MODULES[key]


def _new_module(lib: Any, name: str, *sizes: int) -> Any:
    module = getattr(lib.nn, name)(*sizes).double().requires_grad_(False)
    rng = np.random.default_rng(3)
    for p in module.parameters():
        p.copy_(lib.tensor(rng.normal(size=tuple(p.shape)).tolist(), dtype=lib.float64))
    return module


def make_modules(lib: Any) -> None:
    """Make the layers rows use, before a transform or a capture is on."""
    for name in ("LSTMCell", "GRUCell", "LSTM"):
        _module(lib, name, 2, 3)


CLASSES = np.array([2, 0])
SEQUENCE = (RNG.normal(size=(4, 1, 3)),)


def _ctc(lib: Any, x: Any) -> Any:
    log_p = lib.nn.functional.log_softmax(x, 2)
    return lib.nn.functional.ctc_loss(log_p, lib.tensor([[1, 2]]), (4,), (2,))


def _linear_map(name: str, theirs: Callable[..., Any], **params: str) -> Callable[..., Any]:
    """A linear map of eager mode on a GPU, by its record; in another library what it means."""

    def call(lib: Any, *tensors: Any) -> Any:
        if lib.__name__ != "adjoint":
            return theirs(lib, *tensors)
        record = importlib.import_module("adjoint.engine.core.operations.record").REGISTRY[name]
        return record(*tensors, **{k: getattr(lib, v) for k, v in params.items()})

    return call


MAPPED = (BIAS, RNG.normal(size=(2, 2, 4)), RNG.normal(size=(4, 3)))
GRID = np.array([[[[0.0, 0.0], [-1.0, 1.0]], [[0.35, -0.6], [1.0, 0.2]]]])
GENERAL = [
    Row("var", lambda lib, x: x.var(1), SPREAD),
    Row("std", lambda lib, x: x.std(1), SPREAD),
    *map(_norm, (1.0, 2.0, 3.0, 0.5, 1.5, INF, -INF, 0.0)),
    Row("linear", _f(NN + "linear"), ((ORDINARY, RNG.normal(size=(3, 4)), BIAS),)),
    Row("addmm", _linear_map("addmm", lambda lib, b, x, w: x @ w + b), (MAPPED,)),
    Row(
        "autocast_addmm",
        _linear_map("autocast_addmm", lambda lib, b, x, w: x @ w + b, dtype="float64"),
        (MAPPED,),
    ),
    Row(
        "autocast_linear",
        _linear_map("autocast_linear", _f(NN + "linear"), dtype="float64"),
        ((RNG.normal(size=(2, 2, 4)), RNG.normal(size=(3, 4)), BIAS),),
    ),
    Row("softmax", _f(NN + "softmax", 1), (*SPREAD, *LIMITS)),
    Row("log_softmax", _f(NN + "log_softmax", 1), (*SPREAD, *LIMITS)),
    Row("logsumexp", _f("logsumexp", 1), (*SPREAD, *LIMITS)),
    Row("max of all", _f("max"), (*SPREAD, *LIMITS)),
    Row("min of all", _f("min"), (*SPREAD, *LIMITS)),
    Row("max of a dimension", lambda lib, x: x.max(1)[0], (*SPREAD, *LIMITS)),
    Row("min of a dimension", lambda lib, x: x.min(0, True)[0], ((ORDINARY,),)),
    Row("topk", lambda lib, x: x.topk(2)[0], ((ORDINARY,),)),
    Row("sort", lambda lib, x: x.sort(dim=1, stable=True)[0], (*SPREAD, *LIMITS)),
    Row("mean", lambda lib, x: x.mean(1), (*SPREAD, *LIMITS)),
    Row("glu", _f(NN + "glu"), ((ORDINARY,), (ORDINARY * 1e3,), (ORDINARY * 0,))),
    Row("scaled_dot_product_attention", _attention, (QKV, LARGE, NOTHING, (*QKV, BIASES))),
    Row("attention masked", _attention, ((*QKV, MASK),)),
    Row("attention causal", _causal, (QKV, LARGE)),
    Row(
        "layer_norm",
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (3,), w, b),
        tuple((p[0], WEIGHT, BIAS) for p in SPREAD),
    ),
    Row(
        "rms_norm",
        lambda lib, x, w: lib.nn.functional.rms_norm(x, (3,), w, 1e-6),
        tuple((p[0], WEIGHT) for p in SPREAD),
    ),
    Row(
        "group_norm",
        lambda lib, x, w, b: lib.nn.functional.group_norm(x, 2, w, b),
        ((IMAGE, CHANNEL, CHANNEL), (FLAT, CHANNEL, CHANNEL)),
    ),
    Row(
        "batch_norm",
        lambda lib, x, w, b: lib.nn.functional.batch_norm(x, None, None, w, b, training=True),
        ((IMAGE, CHANNEL, CHANNEL), (FLAT * 0, CHANNEL, CHANNEL)),
    ),
    Row(
        "instance_norm",
        lambda lib, x: lib.nn.functional.instance_norm(x),
        ((IMAGE,), (FLAT,)),
    ),
    Row(
        "batch_norm_inference",
        lambda lib, x, w, b: lib.nn.functional.batch_norm(
            x, lib.zeros(4, dtype=x.dtype), lib.ones(4, dtype=x.dtype), w, b
        ),
        ((IMAGE, CHANNEL, CHANNEL),),
    ),
    Row(
        "affine_grid",
        _f(NN + "affine_grid", (2, 1, 3, 2), align_corners=False),
        ((IMAGE[:, :2],), (FLAT[:, :2],)),
    ),
    Row("cross", _f("linalg.cross"), ((FLAT, IMAGE), (IMAGE, IMAGE[:1]))),
    Row("dot", _f("dot"), ((WEIGHT, BIAS), (WEIGHT, BIAS * 0))),
    Row("trace", _f("trace"), ((ORDINARY,),)),
    Row("diag", _f("diag", 1), ((ORDINARY,),)),
    Row("diag_embed", _f("diag_embed", -1), ((ORDINARY,),)),
    Row("pixel_shuffle", _f(NN + "pixel_shuffle", 2), ((IMAGE.reshape(4, 2, 3),),)),
    Row("pixel_unshuffle", _f(NN + "pixel_unshuffle", 2), ((IMAGE[:, :, :2],),)),
    Row("channel_shuffle", _f(NN + "channel_shuffle", 2), ((IMAGE,),)),
    Row(
        "avg_pool2d",
        lambda lib, x: lib.nn.functional.avg_pool2d(x, 2, 1, 1),
        ((IMAGE,),),
    ),
    Row(
        "nll_loss",
        lambda lib, x, y: lib.nn.functional.nll_loss(x, y),
        tuple((p[0], CLASSES) for p in SPREAD[:4]),
    ),
    Row(
        "cross_entropy",
        lambda lib, x, y: lib.nn.functional.cross_entropy(x, y, label_smoothing=0.1),
        tuple((p[0], CLASSES) for p in SPREAD),
    ),
    Row(
        "cross_entropy of probabilities",
        _f(NN + "cross_entropy"),
        tuple((p[0], np.array([[0.2, 0.0, 0.8], [1.0, 0.0, 0.0]])) for p in SPREAD),
    ),
    Row("ctc_loss", _ctc, (SEQUENCE, (SEQUENCE[0] * 300,))),
    Row(
        "renorm",
        lambda lib, x: x.renorm(2, 0, 1.5),
        (
            (np.array([[3.0, 4.0], [0.3, -0.4], [1.2, 0.9]]),),  # the last at the edge
            (np.array([[1e3, 0.0], [2.0, 1.0]]),),
            (np.array([[3.0, 4.0], [0.3, -0.4]]),),
        ),
    ),
    Row(
        "cosine_similarity",
        _f(NN + "cosine_similarity", 1),
        (*((p[0], p[0][::-1].copy()) for p in SPREAD), (SPREAD[0][0] * 0, SPREAD[0][0] * 0)),
    ),
    Row(
        "euclidean",
        lambda lib, x, y: lib.cdist(x, y, compute_mode="use_mm_for_euclid_dist"),
        tuple((p[0], p[0][::-1] * 1.5 + 0.25) for p in SPREAD[:4]),
    ),
    Row("pdist", _f(NN + "pdist"), (*SPREAD, (np.zeros((3, 2)),), (np.eye(3),))),
    Row("pdist 1", _f(NN + "pdist", 1.0), (*SPREAD, (np.zeros((3, 2)),))),
    Row("pdist 3", _f(NN + "pdist", 3.0), (*SPREAD, (np.zeros((3, 2)),))),
    Row("farthest", _f(NN + "pdist", float("inf")), (*SPREAD, (np.zeros((3, 2)),), (np.eye(3),))),
    Row(
        "pairwise_distance",
        _f(NN + "pairwise_distance"),
        tuple((p[0], p[0][::-1].copy()) for p in SPREAD),
    ),
    Row(
        "bilinear",
        _f(NN + "bilinear"),
        ((ORDINARY[:, :2], ORDINARY[:, 1:], RNG.normal(size=(2, 2, 3))),),
    ),
    Row(
        "embedding",
        lambda lib, w, i: lib.nn.functional.embedding(i, w, padding_idx=0),
        ((ORDINARY, np.array([1, 0, 1])),),
    ),
    *[
        Row(
            f"embedding_bag {mode}",
            lambda lib, w, i, at, mode=mode: lib.nn.functional.embedding_bag(i, w, at, mode=mode),
            ((ORDINARY, np.array([1, 0, 1, 1]), np.array([0, 1, 1, 3])),),
        )
        for mode in ("sum", "mean")
    ],
    Row(
        "cosine_embedding_loss",
        lambda lib, x, y: lib.nn.functional.cosine_embedding_loss(
            x, y, lib.tensor([1, -1]), margin=0.1
        ),
        tuple((p[0], p[0][::-1].copy()) for p in SPREAD),
    ),
    Row(
        "margin_ranking_loss",
        lambda lib, x, y: lib.nn.functional.margin_ranking_loss(
            x, y, lib.tensor([1.0, -1.0, 1.0], dtype=x.dtype)
        ),
        (
            (np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.5, 1.0])),
            (np.array([0.3, 1.0, 2.0]), np.array([0.7, 1.5, 3.0])),
        ),
    ),
    Row(
        "multi_margin_loss",
        _f(NN + "multi_margin_loss"),
        tuple((p[0], CLASSES) for p in SPREAD),
    ),
    Row(
        "multi_margin_loss squared",
        _f(NN + "multi_margin_loss", p=2),
        tuple((p[0], CLASSES) for p in SPREAD),
    ),
    Row(
        "multilabel_margin_loss",
        _f(NN + "multilabel_margin_loss"),
        tuple((p[0], np.array([[2, -1, 0], [0, 1, -1]])) for p in SPREAD),
    ),
    Row(
        "multilabel_soft_margin_loss",
        lambda lib, x: lib.nn.functional.multilabel_soft_margin_loss(
            x, lib.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], dtype=x.dtype)
        ),
        (*SPREAD, *LIMITS),
    ),
    Row("rows_by_runs", _by_runs, ((WAVES[:6, :2], WAVES[:, 2:].reshape(3, 2, 4)),)),
    Row("depths_by_runs", _by_runs, ((WAVES[:2], WAVES[:, :4]),)),
    Row("lstm_gates", _gates, ((ORDINARY[:, :2], ORDINARY[:, 1:], ORDINARY[:, :3]),)),
    Row(
        "gru_gates",
        lambda lib, x, h: _module(lib, "GRUCell", 2, 3)(x, h),
        ((ORDINARY[:, :2], ORDINARY[:, 1:]),),
    ),
    Row(
        "steps",
        lambda lib, x: _module(lib, "LSTM", 2, 3)(x)[0],
        ((RNG.normal(size=(3, 1, 2)),),),
    ),
    Row(
        "grid_sampler",
        lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=True),
        tuple((RNG.normal(size=(1, 1, 3, 3)), GRID + moved) for moved in (0, 0.07)),
    ),
    Row(
        "windowed_frames",
        lambda lib, x, w: lib.stft(x, 4, 3, window=w, return_complex=False).square(),
        ((RNG.normal(size=9), RNG.normal(size=4)),),
    ),
]
ROWS = [*ELEMENTWISE, *GENERAL]
