"""Eager calls on a GPU, one by one: Adjoint beside PyTorch.

    python -m benchmarks.gpu_calls [--frameworks adjoint,torch] [--slow 2] [name ...]

Each framework runs in a process of its own, on the same numbers. Of each call: milliseconds, of
those until the GPU is done, the seconds of its first call, and how many times PyTorch's time it
takes. Sums of results that are not random are compared; where they are apart it is said. `--slow`
leaves out what takes less than so many times PyTorch's time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Row = dict[str, Any]
Call = Callable[..., Any]
SECONDS = 0.06  # of calls in a row
MANY, ROWS, ROW = 1 << 20, 1024, 1024


class Operands:
    """Tensors of one framework by name, the same numbers in each."""

    def __init__(self, framework: Any) -> None:
        rng = np.random.default_rng(7)
        whole = rng.integers(0, 1000, MANY)
        self.framework, self.functional = framework, framework.nn.functional
        self.special, self.linalg = framework.special, framework.linalg
        self.x = self.on(rng.standard_normal((ROWS, ROW)).astype(np.float32))
        self.u = self.on(rng.random((ROWS, ROW)).astype(np.float32))
        self.i = self.on(whole.reshape(ROWS, ROW))
        self.mask = self.x > 0.5
        self.images = self.on(rng.standard_normal((16, 32, 64, 64)).astype(np.float32))
        self.grid = self.on((rng.random((16, 48, 48, 2)) * 2.2 - 1.1).astype(np.float32))
        self.signal = self.on(rng.standard_normal((32, 16, 1000)).astype(np.float32))
        self.volumes = self.on(rng.standard_normal((4, 16, 24, 24, 24)).astype(np.float32))
        self.table = self.on(rng.standard_normal((50000, 256)).astype(np.float32))
        self.bags = self.i.reshape(-1)[: 4096 * 16].reshape(4096, 16)
        self.offsets = self.on(np.arange(0, 65536, 16))
        self.pairs = self.on(rng.integers(0, 30, (20000, 3)))
        self.square = self.on(rng.standard_normal((64, 64, 64)).astype(np.float32))
        self.definite = self.square @ self.square.mT + 64 * framework.eye(64, device="cuda")
        self.logits = self.on(rng.standard_normal((150, 32, 60)).astype(np.float32)).log_softmax(-1)
        self.labels = self.on(rng.integers(1, 60, (32, 40)))
        self.lengths = framework.full((32,), 150), framework.full((32,), 40)
        self.points = self.on(rng.standard_normal((2000, 64)).astype(np.float32))
        self.heads = tuple(
            self.on(rng.standard_normal((8, 12, 512, 64)).astype(np.float32)).to(framework.bfloat16)
            for _ in range(3)
        )
        self.eights = tuple(self.on(x).to(framework.float8_e4m3fn) for x in rng.standard_normal(
            (2, 4096, 4096)).astype(np.float32))  # fmt: skip
        self.factors = self.x[:, :1].abs().repeat(4, 1), self.x[:1].abs().repeat(1, 4)
        self.windows = self.on(rng.standard_normal((1024, 49, 288)).astype(np.float32))
        self.bins = self.on(np.linspace(-3, 3, 101, dtype=np.float32))

    def on(self, array: Any) -> Any:
        return self.framework.from_numpy(array).to("cuda")


def with_gradient(call: Call, name: str) -> Call:
    """A call and its derivative by one operand."""

    def run(o: Operands) -> Any:
        leaf = getattr(o, name).detach().requires_grad_()
        out = call(o, leaf)
        return o.framework.autograd.grad(out.sum(), leaf)[0]

    return run


def by_windows(o: Operands, x: Any) -> Any:
    """Attention of 3 heads within windows of 7 x 7, as its formula says."""
    q, k, v = x.to(o.framework.bfloat16).unflatten(-1, (3, 3, 32)).permute(2, 0, 3, 1, 4)
    return (q @ k.transpose(-2, -1) * 32**-0.5).softmax(-1) @ v


def distribution(name: str) -> Call:
    return lambda o: getattr(o.framework.distributions, name)(o.u + 0.5, o.u + 0.5).sample()


ATTEND = "scaled_dot_product_attention"
# What is drawn at random has no sum to compare.
RANDOM: dict[str, Call] = {
    "bernoulli": lambda o: o.framework.bernoulli(o.u),
    "bernoulli_": lambda o: o.framework.empty(MANY, device="cuda").bernoulli_(0.3),
    "multinomial": lambda o: o.framework.multinomial(o.u, 1),
    "multinomial 64": lambda o: o.framework.multinomial(o.u, 64),
    "multinomial again": lambda o: o.framework.multinomial(o.u, 64, True),
    "poisson": lambda o: o.framework.poisson(o.u * 5),
    "poisson large": lambda o: o.framework.poisson(o.u * 50),
    "rand": lambda o: o.framework.rand(MANY, device="cuda"),
    "randn": lambda o: o.framework.randn(MANY, device="cuda"),
    "randint": lambda o: o.framework.randint(0, 1000, (MANY,), device="cuda"),
    "randperm": lambda o: o.framework.randperm(MANY, device="cuda"),
    "normal_": lambda o: o.framework.empty(MANY, device="cuda").normal_(),
    "exponential_": lambda o: o.framework.empty(MANY, device="cuda").exponential_(),
    "geometric_": lambda o: o.framework.empty(MANY, device="cuda").geometric_(0.3),
    "cauchy_": lambda o: o.framework.empty(MANY, device="cuda").cauchy_(),
    "log_normal_": lambda o: o.framework.empty(MANY, device="cuda").log_normal_(),
    "gamma": distribution("Gamma"),
    "beta": distribution("Beta"),
    "binomial": lambda o: o.framework.binomial(o.u * 0 + 20, o.u),
    "dropout": lambda o: o.functional.dropout(o.x, 0.1, True),
    "dropout gradient": with_gradient(lambda o, x: o.functional.dropout(x, 0.1, True), "x"),
    "alpha_dropout": lambda o: o.functional.alpha_dropout(o.x, 0.1, True),
    "rrelu": lambda o: o.functional.rrelu(o.x, training=True),
    "gumbel_softmax": lambda o: o.functional.gumbel_softmax(o.x),
    "attention dropout": lambda o: getattr(o.functional, ATTEND)(*o.heads, None, 0.1, True),
}
CALLS: dict[str, Call] = {
    "add": lambda o: o.x + o.x,
    "histc": lambda o: o.framework.histc(o.x, 100),
    "bincount": lambda o: o.i.reshape(-1).bincount(),
    "bincount weights": lambda o: o.i.reshape(-1).bincount(o.x.reshape(-1)),
    "bucketize": lambda o: o.framework.bucketize(o.x, o.bins),
    "searchsorted": lambda o: o.framework.searchsorted(o.x.sort(-1)[0], o.x),
    "unique": lambda o: o.i.unique(),
    "unique counts": lambda o: o.i.unique(return_inverse=True, return_counts=True)[2],
    "unique dim": lambda o: o.pairs.unique(dim=0),
    "unique_consecutive": lambda o: o.framework.unique_consecutive(o.i.reshape(-1)),
    "nonzero": lambda o: o.mask.nonzero(),
    "masked_select": lambda o: o.x[o.mask],
    "masked_fill": lambda o: o.x.masked_fill(o.mask, 0.0),
    "masked_scatter": lambda o: o.x.masked_scatter(o.mask, o.u),
    "masked put": lambda o: o.x.clone().index_put_((o.mask,), o.u[0, 0]),
    "isin": lambda o: o.framework.isin(o.i, o.i[0, :100]),
    "one_hot": lambda o: o.functional.one_hot(o.i[:64], 1000),
    "one_hot unknown": lambda o: o.functional.one_hot(o.i[:64]),
    "embedding_bag": lambda o: o.functional.embedding_bag(o.bags, o.table),
    "embedding_bag max": lambda o: o.functional.embedding_bag(o.bags, o.table, mode="max"),
    "embedding_bag offsets": lambda o: o.functional.embedding_bag(
        o.bags.reshape(-1), o.table, o.offsets
    ),
    "embedding_bag gradient": with_gradient(
        lambda o, w: o.functional.embedding_bag(o.bags, w), "table"
    ),
    "embedding gradient": with_gradient(lambda o, w: o.functional.embedding(o.bags, w), "table"),
    "embedding": lambda o: o.functional.embedding(o.bags, o.table),
    "index_select": lambda o: o.x.index_select(1, o.i[0]),
    "index_add": lambda o: o.x.index_add(0, o.i[0] % ROWS, o.u),
    "take_along_dim": lambda o: o.x.take_along_dim(o.i % ROW, 1),
    "scatter_add": lambda o: o.x.scatter_add(1, o.i, o.u),
    "scatter amax": lambda o: o.x.scatter_reduce(1, o.i, o.u, "amax"),
    "sort": lambda o: o.x.sort(-1)[0],
    "sort long": lambda o: o.x.reshape(-1).sort()[0],
    "argsort stable": lambda o: o.i.argsort(dim=-1, stable=True),
    "topk": lambda o: o.x.topk(10)[0],
    "kthvalue": lambda o: o.x.kthvalue(100)[0],
    "median": lambda o: o.x.median(-1)[0],
    "median all": lambda o: o.x.median(),
    "mode": lambda o: (o.i % 3).clamp_max(1).mode()[0],  # of ties PyTorch gives another
    "quantile": lambda o: o.x.quantile(0.3, -1),
    "cumsum": lambda o: o.x.cumsum(-1),
    "cumsum long": lambda o: o.u.reshape(-1).cumsum(0),
    "cumsum of channels": lambda o: o.images.cumsum(1),
    "cumsum of channels gradient": with_gradient(lambda o, x: x.cumsum(1), "images"),
    "glu of channels gradient": with_gradient(lambda o, x: o.functional.glu(x, 1), "images"),
    "attention by windows": lambda o: by_windows(o, o.windows),
    "attention by windows gradient": with_gradient(by_windows, "windows"),
    "det of little matrices gradient": with_gradient(
        lambda o, x: o.linalg.det(x.reshape(-1, 4, 4)), "square"
    ),
    "cummax": lambda o: o.x.cummax(-1)[0],
    "logcumsumexp": lambda o: o.x.logcumsumexp(-1),
    "diff": lambda o: o.x.diff(),
    "ctc_loss": lambda o: o.functional.ctc_loss(o.logits, o.labels, *o.lengths),
    "ctc_loss gradient": with_gradient(
        lambda o, x: o.functional.ctc_loss(x, o.labels, *o.lengths), "logits"
    ),
    "grid_sample": lambda o: o.functional.grid_sample(o.images, o.grid, align_corners=False),
    "grid_sample gradient": with_gradient(
        lambda o, x: o.functional.grid_sample(x, o.grid, align_corners=False), "images"
    ),
    "affine_grid": lambda o: o.functional.affine_grid(
        o.u[:16, :6].reshape(16, 2, 3), (16, 32, 64, 64), align_corners=False
    ),
    "avg_pool": lambda o: o.functional.avg_pool2d(o.images, 3, 2, 1),
    "avg_pool gradient": with_gradient(lambda o, x: o.functional.avg_pool2d(x, 3, 2, 1), "images"),
    "max_pool": lambda o: o.functional.max_pool2d(o.images, 3, 2, 1),
    "max_pool gradient": with_gradient(lambda o, x: o.functional.max_pool2d(x, 3, 2, 1), "images"),
    "adaptive_avg_pool": lambda o: o.functional.adaptive_avg_pool2d(o.images, 7),
    "adaptive_max_pool": lambda o: o.functional.adaptive_max_pool2d(o.images, 7),
    "avg_pool1d": lambda o: o.functional.avg_pool1d(o.signal, 3, 2, 1),
    "avg_pool3d": lambda o: o.functional.avg_pool3d(o.volumes, 3, 2, 1),
    "adaptive_avg_pool gradient": with_gradient(
        lambda o, x: o.functional.adaptive_avg_pool2d(x, 7), "images"
    ),
    "lp_pool": lambda o: o.functional.lp_pool2d(o.images, 2, 2),
    "max_unpool": lambda o: o.functional.max_unpool2d(
        *o.functional.max_pool2d(o.images, 2, return_indices=True), 2
    ),
    "unfold": lambda o: o.functional.unfold(o.images, 3, padding=1),
    "fold": lambda o: o.functional.fold(
        o.functional.unfold(o.images, 3, padding=1), (64, 64), 3, padding=1
    ),
    "interpolate bicubic": lambda o: o.functional.interpolate(
        o.images, scale_factor=2, mode="bicubic"
    ),
    "interpolate bilinear": lambda o: o.functional.interpolate(
        o.images, scale_factor=2, mode="bilinear"
    ),
    "interpolate bilinear gradient": with_gradient(
        lambda o, x: o.functional.interpolate(x, scale_factor=2, mode="bilinear"), "images"
    ),
    "interpolate smaller": lambda o: o.functional.interpolate(
        o.images, size=(21, 21), mode="bilinear"
    ),
    "interpolate trilinear": lambda o: o.functional.interpolate(
        o.volumes, scale_factor=2, mode="trilinear"
    ),
    "pixel_shuffle": lambda o: o.functional.pixel_shuffle(o.images, 2),
    "pad reflect": lambda o: o.functional.pad(o.images, (3, 3, 3, 3), "reflect"),
    "pad reflect gradient": with_gradient(
        lambda o, x: o.functional.pad(x, (3, 3, 3, 3), "reflect"), "images"
    ),
    "pad replicate": lambda o: o.functional.pad(o.images, (3, 3, 3, 3), "replicate"),
    "pad circular": lambda o: o.functional.pad(o.images, (3, 3, 3, 3), "circular"),
    "pad volumes": lambda o: o.functional.pad(o.volumes, (1, 2, 1, 1, 2, 1), "reflect"),
    "conv1d": lambda o: o.functional.conv1d(o.signal, o.x[:16, :48].reshape(16, 16, 3)),
    "conv_transpose2d": lambda o: o.functional.conv_transpose2d(
        o.images, o.x[:32, :288].reshape(32, 32, 3, 3), stride=2
    ),
    "conv2d small": lambda o: o.functional.conv2d(
        o.images[:2, :8, :16, :16].contiguous(), o.x[:8, :72].reshape(8, 8, 3, 3), o.x[0, :8],
        padding=1,
    ),
    "depthwise": lambda o: o.functional.conv2d(
        o.images, o.x[:32, :9].reshape(32, 1, 3, 3), groups=32
    ),
    "local_response_norm": lambda o: o.functional.local_response_norm(o.images, 5),
    "cdist": lambda o: o.framework.cdist(o.points, o.points),
    "pdist": lambda o: o.functional.pdist(o.points),
    "cosine_similarity": lambda o: o.functional.cosine_similarity(o.x, o.u),
    "triplet": lambda o: o.functional.triplet_margin_loss(o.x, o.u, o.u + 1),
    "multi_margin": lambda o: o.functional.multi_margin_loss(o.x, o.i[0]),
    "multi_margin gradient": with_gradient(
        lambda o, x: o.functional.multi_margin_loss(x, o.i[0]), "x"
    ),
    "binary_cross_entropy gradient": with_gradient(
        lambda o, x: o.functional.binary_cross_entropy(x, o.mask.float()), "u"
    ),
    "nll": lambda o: o.functional.nll_loss(o.x, o.i[0]),
    "cross_entropy gradient": with_gradient(
        lambda o, x: o.functional.cross_entropy(x, o.i[0]), "x"
    ),
    "norm": lambda o: o.x.norm(),
    "var_mean": lambda o: o.framework.var_mean(o.x, -1)[0],
    "logsumexp": lambda o: o.x.logsumexp(-1),
    "einsum": lambda o: o.framework.einsum("bij,bkj->bik", o.square, o.square),
    "einsum of one": lambda o: o.framework.einsum("bij->bj", o.square),
    "einsum outer": lambda o: o.framework.einsum("i,j->ij", o.x[0], o.x[1]),
    "baddbmm": lambda o: o.framework.baddbmm(o.square, o.square, o.square),
    "tensordot": lambda o: o.framework.tensordot(o.square, o.square, 2),
    "renorm": lambda o: o.x.renorm(2, 0, 1.0),
    "arange": lambda o: o.framework.arange(1000, device="cuda"),
    "linspace": lambda o: o.framework.linspace(-1, 1, 1000, device="cuda"),
    "tril_indices": lambda o: o.framework.tril_indices(1000, 1000, device="cuda"),
    "meshgrid": lambda o: o.framework.stack(
        o.framework.meshgrid(o.x[0], o.x[1], indexing="ij")
    ),
    "repeat_interleave": lambda o: o.x.repeat_interleave(3, 0),
    "repeat_interleave counts": lambda o: o.x.repeat_interleave(o.i[0] % 4, 0),
    "roll": lambda o: o.x.roll((3, 5), (0, 1)),
    "rot90": lambda o: o.x.rot90(),
    "trapezoid": lambda o: o.framework.trapezoid(o.x),
    "lerp": lambda o: o.framework.lerp(o.x, o.u, 0.3),
    "addcmul": lambda o: o.framework.addcmul(o.x, o.u, o.u, value=0.5),
    "nan_to_num": lambda o: o.x.nan_to_num(),
    "digamma": lambda o: o.u.digamma(),
    "lgamma": lambda o: o.u.lgamma(),
    "polygamma": lambda o: o.framework.polygamma(2, o.u + 1),
    "erfinv": lambda o: (o.u * 1.9 - 0.95).erfinv(),
    "i0": lambda o: o.x.i0(),
    "zeta": lambda o: o.special.zeta(o.u + 2, o.u + 1),
    "gammainc": lambda o: o.special.gammainc(o.u + 1, o.u),
    "igammac": lambda o: o.special.gammaincc(o.u + 1, o.u),
    "bessel_j0": lambda o: o.special.bessel_j0(o.x),
    "xlogy": lambda o: o.special.xlogy(o.u, o.u),
    "frexp": lambda o: o.x.frexp()[0],
    "fft": lambda o: o.framework.fft.fft(o.x).abs(),
    "rfft2": lambda o: o.framework.fft.rfft2(o.images).abs(),
    "stft": lambda o: o.framework.stft(
        o.signal[:, 0], 256, window=o.framework.hann_window(256, device="cuda"), return_complex=True
    ).abs(),
    "complex product": lambda o: (o.framework.complex(o.x, o.u) * (1 + 2j)).abs(),
    "cholesky": lambda o: o.linalg.cholesky(o.definite),
    "inv": lambda o: o.linalg.inv(o.definite),
    "solve": lambda o: o.linalg.solve(o.definite, o.square),
    "det": lambda o: o.linalg.slogdet(o.definite)[1],
    "eigh": lambda o: o.linalg.eigvalsh(o.definite),
    "svd": lambda o: o.linalg.svdvals(o.square),
    "qr": lambda o: o.linalg.qr(o.square)[1].abs(),
    "lstsq": lambda o: o.linalg.lstsq(o.definite, o.square)[0],
    "matrix_exp": lambda o: o.linalg.matrix_exp(o.square / 64),
    "triangular": lambda o: o.linalg.solve_triangular(o.definite, o.square, upper=False),
    "item": lambda o: o.x[3, 5].item(),
    "to cpu": lambda o: o.x.cpu(),
    "bool any": lambda o: bool(o.mask.any()),
    "equal": lambda o: o.framework.equal(o.x, o.x + 0),
    "allclose": lambda o: o.framework.allclose(o.x, o.x + 0),
    "attention": lambda o: getattr(o.functional, ATTEND)(*o.heads, None, 0.0, True).float(),
    "attention masked": lambda o: getattr(o.functional, ATTEND)(
        *o.heads, o.mask[:512, :512] | o.framework.eye(512, device="cuda").bool()
    ).float(),
    "multi-head": lambda o: o.functional.multi_head_attention_forward(
        *[o.x.reshape(256, 4, 1024)] * 3, 1024, 16, o.table[:3072 * 4].reshape(3072, 1024) / 32,
        o.x[:3].reshape(-1), None, None, False, 0.0, o.x / 32, o.x[0], training=False,
    )[0],
    "int8 product": lambda o: o.framework._int_mm(
        o.i.to(o.framework.int8), o.i.to(o.framework.int8)
    ),
    "float8 product": lambda o: o.framework._scaled_mm(
        o.eights[0], o.eights[1].t(), o.x[0, 0].abs(), o.u[0, 0], out_dtype=o.framework.bfloat16
    ).float(),
    "float8 product, scaled rows": lambda o: o.framework._scaled_mm(
        o.eights[0], o.eights[1].t(), *o.factors, out_dtype=o.framework.bfloat16
    ).float(),
    "float8 rows": lambda o: o.framework._scaled_mm(
        o.eights[0][:16], o.eights[1].t(), o.x[0, 0].abs(), o.u[0, 0],
        out_dtype=o.framework.bfloat16,
    ).float(),
    "half cast": lambda o: o.x.half().float(),
    "setitem": lambda o: o.x.clone().__setitem__((slice(3, 9), slice(None, None, 2)), 1.0),
    "flip": lambda o: o.x.flip(0, 1),
    "kron": lambda o: o.framework.kron(o.x[:32, :32], o.u[:32, :32]),
    "cov": lambda o: o.framework.cov(o.x),
    "corrcoef": lambda o: o.framework.corrcoef(o.x),
    "vander": lambda o: o.framework.vander(o.u[0], 8),
    "combinations": lambda o: o.framework.combinations(o.x[0]),
    "cartesian_prod": lambda o: o.framework.cartesian_prod(o.x[0], o.x[1]),
    "tensor_split": lambda o: o.framework.cat(o.x.tensor_split(7, 1), 1),
    "nanmedian": lambda o: o.x.nanmedian(-1)[0],
    "nansum": lambda o: o.x.nansum(),
    "count_nonzero": lambda o: o.mask.count_nonzero(),
    "aminmax": lambda o: o.x.aminmax()[1],
    "logical": lambda o: o.mask.logical_xor(o.x > 0),
    "bitwise": lambda o: o.i & 255,
    "remainder": lambda o: o.x % 0.7,
    "floor_divide": lambda o: o.i // 7,
    "pow": lambda o: o.u**o.u,
    "float64": lambda o: o.x.double() @ o.x.double(),
}  # fmt: skip


def summed(out: Any) -> float:
    """The sum of a result's finite numbers."""
    if not hasattr(out, "numel"):
        return float(out) if out is not None else 0.0
    return float(out.double().nan_to_num(0.0, 0.0, 0.0).sum())


def measure(framework: str, names: list[str]) -> None:
    """Print a row for each call, in this process."""
    fw = importlib.import_module(framework)
    importlib.import_module(f"{framework}.distributions")
    operands, wait = Operands(fw), fw.cuda.synchronize
    for name in names:
        call = CALLS.get(name) or RANDOM[name]
        row: Row = {"name": name}
        try:
            start = time.perf_counter()
            out = call(operands)
            wait()
            row["first"] = time.perf_counter() - start
            if name in CALLS:
                row["sum"] = summed(out)
            row["ms"] = 1e3 * timed(lambda: call(operands), wait)  # noqa: B023
        except Exception as error:  # the table tells it, and goes on
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        print(json.dumps(row), flush=True)


def timed(run: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds a call."""
    count, start = 0, time.perf_counter()
    while count < 2 or (
        count < 40 and time.perf_counter() - start < (10, 50)[count < 28] * SECONDS
    ):
        run()  # what is loaded after some calls of a kind is not what a call takes
        count += 1
    wait()
    count, start = 0, time.perf_counter()
    while count < 3 or (time.perf_counter() - start < SECONDS and count < 200):
        run()
        count += 1
    wait()
    return (time.perf_counter() - start) / count


def rows_of(framework: str, names: list[str]) -> Iterator[Row]:
    """A framework's rows, as they come."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu_calls", "--one", framework]
    with subprocess.Popen([*words, *names], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                yield json.loads(line)


def told(name: str, ours: Row, theirs: Row) -> str:
    """A line of the table."""
    if "ms" not in ours or "ms" not in theirs:
        wrong = {k: row.get("error", row.get("ms")) for k, row in (("A", ours), ("T", theirs))}
        return f"{name:26} {wrong}"
    text = f"{name:26} {ours['ms']:9.3f} {theirs['ms']:9.3f} {ours['ms'] / theirs['ms']:8.2f}"
    text += f"   first {ours['first']:.2f} s"
    a, b = ours.get("sum", 0.0), theirs.get("sum", 0.0)
    return text + ("" if abs(a - b) <= 1e-4 * max(abs(a), abs(b), 1e3) else f"   APART {a} {b}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*CALLS, *RANDOM])
    parser.add_argument("--frameworks", default="adjoint,torch")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--one")
    chosen = parser.parse_args()
    if chosen.one:
        measure(chosen.one, chosen.names)
        return
    frameworks = chosen.frameworks.split(",")
    theirs = {r["name"]: r for f in frameworks if f == "torch" for r in rows_of(f, chosen.names)}
    print(f"{'call':26} {'Adjoint':>9} {'PyTorch':>9} {'ratio':>8}   (ms)")
    for row in rows_of("adjoint", chosen.names) if "adjoint" in frameworks else ():
        other = theirs.get(row["name"], {})
        slow = not ("ms" in row and "ms" in other) or row["ms"] >= chosen.slow * other["ms"]
        if slow:
            print(told(row["name"], row, other), flush=True)


if __name__ == "__main__":
    main()
