"""The operations that `benchmarks.ops` times: operands, the call, and the least work it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

Shape = tuple[int, ...]
Make = Callable[..., Callable[[], Any]]
SIZES = {"float32": 4, "float64": 8, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on operands of given shapes."""

    name: str
    group: str
    dtype: str
    shapes: tuple[Shape, ...]
    make: Make  # (framework, *operands) -> the call
    flops: float = 0.0  # of products and convolutions; else memory is what counts
    bytes: float = 0.0  # read and written at least
    random: bool = False  # nothing to compare with


def product(fw: Any, x: Any, y: Any) -> Callable[[], Any]:
    return lambda: x @ y


def convolution(fw: Any, x: Any, w: Any) -> Callable[[], Any]:
    pad = w.shape[-1] // 2
    return lambda: fw.nn.functional.conv2d(x, w, padding=pad)


def attention(fw: Any, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    return lambda: fw.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def with_gradient(call: Callable[[Any, Any], Any]) -> Make:
    """Forward and backward."""

    def make(fw: Any, x: Any) -> Callable[[], Any]:
        x.requires_grad_()

        def run() -> Any:
            x.grad = None
            call(fw, x).sum().backward()
            return x.grad

        return run

    return make


def of(call: Callable[[Any, Any], Any]) -> Make:
    """A call of one operand."""
    return lambda fw, x: lambda: call(fw, x)


PRODUCTS = (
    (256, 256, 256), (97, 101, 103), (64, 64, 64), (1024, 1024, 1024), (128, 512, 784),
    (2048, 96, 384), (1, 1024, 1024),
)  # fmt: skip


def _gemms() -> list[Case]:
    return [
        Case(
            f"product {m}x{n}x{k} {dtype}", "gemm", dtype, ((m, k), (k, n)), product,
            flops=2.0 * m * n * k, bytes=SIZES[dtype] * (m * k + k * n + m * n),
        )
        for dtype in ("float32", "float64", "bfloat16")
        # PyTorch takes 17 seconds for a large one in bfloat16 where no instruction does it.
        for m, n, k in (PRODUCTS[:3] if dtype == "bfloat16" else PRODUCTS)
    ]  # fmt: skip


def _convolutions() -> list[Case]:
    cases = []
    for batch, c, size, out, kernel in ((32, 32, 28, 64, 3), (8, 64, 56, 64, 1), (1, 64, 56, 64, 3),
                                        (7, 13, 31, 17, 5)):  # fmt: skip
        x, w = (batch, c, size, size), (out, c, kernel, kernel)
        cases.append(
            Case(
                f"convolution {batch}x{c}x{size}x{size} to {out}, {kernel}x{kernel}", "conv",
                "float32", (x, w), convolution,
                flops=2.0 * batch * size * size * prod(w),
                bytes=4.0 * (prod(x) + prod(w) + batch * out * size * size),
            )
        )  # fmt: skip
    return cases


def _attentions() -> list[Case]:
    cases = []
    for batch, heads, length, width in ((8, 4, 256, 32), (2, 8, 1024, 64), (1, 3, 127, 48)):
        shape = (batch, heads, length, width)
        cases.append(
            Case(
                f"causal attention {batch}x{heads}x{length}x{width}", "attention", "float32",
                (shape,) * 3, attention,
                flops=2.0 * batch * heads * length * length * width, bytes=16.0 * prod(shape),
            )
        )  # fmt: skip
    return cases


PASSES: dict[str, tuple[str, Callable[[Any, Any], Any], float]] = {  # and how often x is passed
    "layer_norm": ("norms", lambda fw, x: fw.nn.functional.layer_norm(x, x.shape[-1:]), 2),
    "rms_norm": ("norms", lambda fw, x: fw.nn.functional.rms_norm(x, x.shape[-1:]), 2),
    "softmax": ("softmax", lambda fw, x: fw.softmax(x, -1), 2),
    "log_softmax": ("softmax", lambda fw, x: fw.log_softmax(x, -1), 2),
    "add": ("elementwise", lambda fw, x: x + x, 2),
    "exp": ("elementwise", lambda fw, x: x.exp(), 2),
    "tanh": ("elementwise", lambda fw, x: x.tanh(), 2),
    "gelu": ("elementwise", lambda fw, x: fw.nn.functional.gelu(x), 2),
    "relu": ("elementwise", lambda fw, x: x.relu(), 2),
    "sum": ("reductions", lambda fw, x: x.sum(-1), 1),
    "column sum": ("reductions", lambda fw, x: x.sum(0), 1),
    "count_nonzero": ("reductions", lambda fw, x: fw.count_nonzero(x), 1),
    "amax": ("reductions", lambda fw, x: x.amax(-1), 1),
    "var": ("reductions", lambda fw, x: x.var(-1), 1),
    "prod": ("reductions", lambda fw, x: x.prod(-1), 1),
    "cumsum": ("running", lambda fw, x: x.cumsum(-1), 2),
    "cumsum of columns": ("running", lambda fw, x: x.cumsum(0), 2),
    "cummax": ("running", lambda fw, x: x.cummax(-1)[0], 2),
    "transposed copy": ("rearranged", lambda fw, x: x.t().contiguous(), 2),
    "flip": ("rearranged", lambda fw, x: x.flip(-1), 2),
    "tril": ("rearranged", lambda fw, x: x.tril(), 2),
    "cat": ("rearranged", lambda fw, x: fw.cat([x, x], -1), 4),
    "stack of columns": ("rearranged", lambda fw, x: fw.stack([x, x, x], -1), 6),
    "columns by eights": ("rearranged", lambda fw, x: fw.cat(x.split(8, -1)[::-1], -1), 2),
    "reflected": ("rearranged", lambda fw, x: fw.nn.functional.pad(x, (2, 2), "reflect"), 2),
    "fill": ("rearranged", lambda fw, x: fw.full_like(x, 1.5), 1),
    "outer": ("elementwise", lambda fw, x: x[:, :1] * x[:1], 1),
    "sort": ("sort", lambda fw, x: fw.sort(x, -1)[0], 2),
    "sort of integers": ("sort", lambda fw, x: fw.sort((x * 8).to(fw.int32), -1)[0], 2),
    "mode": ("sort", lambda fw, x: fw.mode((x * 8).to(fw.int32), -1)[0], 1),
    "topk": ("sort", lambda fw, x: fw.topk(x, 5, -1)[0], 1),
    "rand": ("random", lambda fw, x: fw.rand(*x.shape, dtype=x.dtype), 1),
    "randn": ("random", lambda fw, x: fw.randn(*x.shape, dtype=x.dtype), 1),
    "poisson": ("random", lambda fw, x: fw.poisson(x.abs() * 20), 2),
    "gamma": ("random", lambda fw, x: fw._standard_gamma(x.abs() + 0.5), 2),
    "legendre": ("polynomials", lambda fw, x: fw.special.legendre_polynomial_p(x, 12), 2),
    "dropout": ("random", lambda fw, x: fw.nn.functional.dropout(x, 0.1), 2),
    "bernoulli": ("random", lambda fw, x: fw.empty_like(x).bernoulli_(0.3), 1),
    "exponential": ("random", lambda fw, x: fw.empty_like(x).exponential_(), 1),
    "geometric": ("random", lambda fw, x: fw.empty_like(x).geometric_(0.3), 1),
    "cauchy": ("random", lambda fw, x: fw.empty_like(x).cauchy_(), 1),
    "log_normal": ("random", lambda fw, x: fw.empty_like(x).log_normal_(), 1),
    "binomial": ("random", lambda fw, x: fw.binomial((x.abs() * 20).floor(), x * 0 + 0.3), 2),
    "multinomial": ("random", lambda fw, x: fw.multinomial(x.abs(), 8, replacement=True), 1),
    "randperm": ("random", lambda fw, x: fw.randperm(x.numel()), 1),
    "randint": ("random", lambda fw, x: fw.randint(0, 100, x.shape), 1),
}
GRADIENTS = ("softmax", "layer_norm", "gelu")


def _passes() -> list[Case]:
    cases = [
        Case(
            f"{name} {shape[0]}x{shape[1]} {dtype}", group, dtype, (shape,), of(call),
            bytes=passes * SIZES[dtype] * prod(shape), random=group == "random",
        )
        for dtype in ("float32", "float64")
        for name, (group, call, passes) in PASSES.items()
        for shape in ((2048, 1024), (257, 509), (128, 256), (32, 32))
    ]  # fmt: skip
    for name in GRADIENTS:
        group, call, passes = PASSES[name]
        cases.append(
            Case(
                f"{name} 2048x1024 float32, forward and backward", group, "float32",
                ((2048, 1024),), with_gradient(call), bytes=3 * passes * 4.0 * 2048 * 1024,
            )
        )  # fmt: skip
    return cases


def put(x: Any, where: Any, value: Any) -> Any:
    """x[where] = value."""
    x[where] = value
    return x


# What is done in the memory of x, with the same result if it is done again.
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "abs_": lambda fw, x: x.abs_(),
    "relu_": lambda fw, x: x.relu_(),
    "clamp_": lambda fw, x: x.clamp_(-0.5, 0.5),
    "floor_": lambda fw, x: x.floor_(),
    "tril_": lambda fw, x: x.tril_(),
    "masked_fill_": lambda fw, x: x.masked_fill_(x > 1, 1.0),
    "sigmoid_ of a copy": lambda fw, x: x.clone().sigmoid_(),
    "silu of a copy, in place": lambda fw, x: fw.nn.functional.silu(x.clone(), inplace=True),
    "zeros where a mask holds": lambda fw, x: put(x, x > 1, 0.0),
    "zeros in every other row": lambda fw, x: put(x, slice(None, None, 2), 0.0),
}


# Of these half of the elements are written, and none is read.
HALF_WRITTEN = frozenset({"tril_", "zeros in every other row"})


def _writes() -> list[Case]:
    """In place: memory is read and written once, if all of it is."""
    return [
        Case(
            f"{name} {shape[0]}x{shape[1]} {dtype}", "in place", dtype, (shape,), of(call),
            bytes=(0.5 if name in HALF_WRITTEN else 2) * SIZES[dtype] * prod(shape),
        )
        for dtype in ("float32", "bfloat16")
        for name, call in WRITES.items()
        for shape in ((2048, 1024), (257, 509), (32, 32))
    ]  # fmt: skip


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "fft": lambda fw, x: fw.fft.fft(fw.view_as_complex(x)),
    "rfft": lambda fw, x: fw.fft.rfft(x[..., 0]),
    "irfft": lambda fw, x: fw.fft.irfft(fw.view_as_complex(x), x.shape[-2]),
    "fft2": lambda fw, x: fw.fft.fft2(fw.view_as_complex(x)),
}


def compiled(call: Callable[[Any, Any], Any]) -> Make:
    """A call of one operand, compiled if that is Adjoint's."""

    def make(fw: Any, x: Any) -> Callable[[], Any]:
        run = lambda x: call(fw, x)
        run = fw.compile(run) if fw.__name__ == "adjoint" else run
        return lambda: run(x)

    return make


def _transforms() -> list[Case]:
    """Of numbers as pairs; parts of results lie side by side."""
    cases = []
    for dtype in ("float32", "float64"):
        for name, call in TRANSFORMS.items():
            for lines, n in ((64, 1024), (64, 1009), (1, 65536)):
                shape = (8, lines // 8, n, 2) if name == "fft2" else (lines, n, 2)
                if name == "fft2" and n != 1024:
                    continue
                real = lambda fw, x, call=call: parts(fw, call(fw, x))
                for how, make in (("", of(real)), (", compiled", compiled(real))):
                    cases.append(
                        Case(
                            f"{name} {lines}x{n} {dtype}{how}", "transforms", dtype, (shape,), make,
                            bytes=2 * SIZES[dtype] * prod(shape),
                        )
                    )  # fmt: skip
    return cases


def definite(fw: Any, x: Any) -> Any:
    """Matrices far from singular, real ones or of numbers as pairs."""
    x = fw.view_as_complex(x) if x.shape[-1] == 2 else x
    n = x.shape[-1]
    return x @ x.mH / n + fw.eye(n, dtype=x.dtype)


FACTORS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda fw, a: fw.linalg.cholesky(a),
    "solve": lambda fw, a: fw.linalg.solve(a, a.mH + 1),
    "inv": lambda fw, a: fw.linalg.inv(a),
    "slogdet": lambda fw, a: fw.linalg.slogdet(a)[1],
    "triangular": lambda fw, a: fw.linalg.solve_triangular(a, a.mH + 1, upper=False),
    "qr": lambda fw, a: fw.linalg.qr(a)[1].abs(),
    "ldl_factor": lambda fw, a: fw.linalg.ldl_factor(a, hermitian=True)[0],
    "eigvalsh": lambda fw, a: fw.linalg.eigvalsh(a),
}


def _factors() -> list[Case]:
    """Compiled; products that make the matrices are part of it, on both sides."""
    cases = []
    for dtype in ("float32", "float64"):
        for name, call in FACTORS.items():
            for shape in ((32, 24, 24), (8, 24, 24, 2), (128, 128, 2), (256, 256), (512, 512)):
                result = lambda fw, x, call=call: parts(fw, call(fw, definite(fw, x)))
                kind = f"{'x'.join(map(str, shape[: len(shape) - (shape[-1] == 2)]))}"
                complex_ = " complex" if shape[-1] == 2 else ""
                cases.append(
                    Case(
                        f"{name} {kind}{complex_} {dtype}, compiled", "factors", dtype, (shape,),
                        compiled(result), bytes=2.0 * SIZES[dtype] * prod(shape),
                    )
                )  # fmt: skip
    return cases


def parts(fw: Any, x: Any) -> Any:
    """Complex numbers as pairs."""
    return fw.view_as_real(x) if x.is_complex() else x


def places(fw: Any, count: int, size: int) -> Any:
    """So many whole numbers below a size, in no order."""
    return (fw.arange(count) * 7919) % size


def points(fw: Any, x: Any) -> Any:
    """As many points of a grid as an image has pixels, some outside of it."""
    batch, _, height, width = x.shape
    return (x[:, :2].reshape(batch, height, width, 2) * 0.6).clamp(-1.2, 1.2)


# Name: the shape of the operand, the call.
PICKS: dict[str, tuple[Shape, Callable[[Any, Any], Any]]] = {
    "one_hot 1024 of 100": (
        (1024,), lambda fw, x: fw.nn.functional.one_hot(places(fw, 1024, 100), 100)
    ),
    "pad 32x3x64x64": ((32, 3, 64, 64), lambda fw, x: fw.nn.functional.pad(x, (1, 1, 1, 1))),
    "bags 256x50 of 5000x32": (
        (5000, 32),
        lambda fw, x: fw.nn.functional.embedding_bag(
            places(fw, 12800, 5000).reshape(256, 50), x, mode="sum"
        ),
    ),
    "grid_sample 4x16x32x32": (
        (4, 16, 32, 32),
        lambda fw, x: fw.nn.functional.grid_sample(x, points(fw, x), align_corners=False),
    ),
    "pdist 100x32": ((100, 32), lambda fw, x: fw.nn.functional.pdist(x)),
    "nll_loss 16 of 32003": (
        (16, 32003), lambda fw, x: fw.nn.functional.nll_loss(x, places(fw, 16, 32003))
    ),
    "take 64 of 512x512": ((512, 512), lambda fw, x: x.take(places(fw, 64, 512 * 512))),
    "diagonal of 512x512": ((512, 512), lambda fw, x: x.diag()),
    "trace 512x512": ((512, 512), lambda fw, x: x.trace()),
    "masked_scatter 512x512": ((512, 512), lambda fw, x: x.masked_scatter(x > 0, x * 2)),
    "dot 4000": ((4000,), lambda fw, x: fw.dot(x, x)),
    "dot 1000000": ((1000000,), lambda fw, x: fw.dot(x, x)),
    "products 3000 of 3x3": ((3000, 3, 3), lambda fw, x: x @ x),
    "turned 997x1009": ((997, 1009), lambda fw, x: x.t() + x.t()),
}  # fmt: skip


# Elements that are read of large operands of which few are.
FEW_READ = {
    "nll_loss 16 of 32003": 16, "take 64 of 512x512": 64, "diagonal of 512x512": 512,
    "trace 512x512": 512,
}  # fmt: skip


def _picks() -> list[Case]:
    """What positions pick, what is put around, many small ones at once."""
    return [
        Case(
            f"{name} float32", "picks", "float32", (shape,), of(call),
            bytes=4.0 * FEW_READ.get(name, prod(shape)),
        )
        for name, (shape, call) in PICKS.items()
    ]  # fmt: skip


def pairs_sum(fw: Any, x: Any) -> Any:
    """The sum of two tensors of complex numbers, of pairs to pairs."""
    z = fw.view_as_complex(x)
    return fw.view_as_real(z + z)


# Name: the shape of the operand, dtype, the call, whether backward too.
MIDDLING: dict[str, tuple[Shape, str, Callable[[Any, Any], Any], bool]] = {
    "group_norm 16x64x14x14": (
        (16, 64, 14, 14), "float32",
        lambda fw, x: fw.nn.functional.group_norm(x, 2) * x.detach(), True,
    ),
    "sum of images 16x64x14x14": ((16, 64, 14, 14), "float32", lambda fw, x: x.sum((2, 3)), False),
    "nearest 8x16x56x56, twice": (
        (8, 16, 56, 56), "float32", lambda fw, x: fw.nn.functional.interpolate(x, scale_factor=2),
        False,
    ),
    "reflected 8x16x56x56": (
        (8, 16, 56, 56), "bfloat16",
        lambda fw, x: fw.nn.functional.pad(x, (2, 2, 1, 1), mode="reflect"), False,
    ),
    "mean 512x512": ((512, 512), "bfloat16", lambda fw, x: x.mean(-1), True),
    "norm 512x512": ((512, 512), "bfloat16", lambda fw, x: x.norm(dim=-1), True),
    "nansum 512x512": ((512, 512), "float32", lambda fw, x: x.nansum(-1), False),
    "l1_loss 512x512": (
        (512, 512), "bfloat16", lambda fw, x: fw.nn.functional.l1_loss(x, x.detach() * 2), True
    ),
    "cumprod 7x65536": ((7, 65536), "float32", lambda fw, x: (x * 0.01 + 1).cumprod(-1), True),
    "logcumsumexp 512x512": ((512, 512), "float32", lambda fw, x: x.logcumsumexp(-1), True),
    "lu_factor 256x8x8": ((256, 8, 8), "float32", lambda fw, x: fw.linalg.lu_factor(x)[0], False),
    "sum of few columns 4096x10": ((4096, 10), "float32", lambda fw, x: x.sum(0), False),
    "searchsorted in rows 256x128": (
        (256, 128), "float32", lambda fw, x: fw.searchsorted(x.cumsum(-1).cummax(-1)[0], x), False
    ),
    "svdvals 64x64": ((64, 64), "float32", lambda fw, x: fw.linalg.svdvals(x), False),
    "power of integers 256x256": (
        (256, 256), "float32", lambda fw, x: (x * 4).long() ** (x * 4).abs().long(), False
    ),
    "fft 300x333": ((300, 333), "float32", lambda fw, x: fw.fft.fft(x).real, False),
    "softplus 32x32": ((32, 32), "float32", lambda fw, x: fw.nn.functional.softplus(x), False),
    "complex sum 256x256": ((256, 256, 2), "float32", lambda fw, x: pairs_sum(fw, x), False),
    "det 16x40x40": ((16, 40, 40), "float64", lambda fw, x: fw.linalg.det(x), True),
}  # fmt: skip


def _middling() -> list[Case]:
    """Some hundred thousand elements, of several dimensions, and in halves."""
    return [
        Case(
            f"{name} {dtype}{', forward and backward' if backward else ''}", "middling", dtype,
            (shape,), (with_gradient if backward else of)(call), bytes=SIZES[dtype] * prod(shape),
        )
        for name, (shape, dtype, call, backward) in MIDDLING.items()
    ]  # fmt: skip


CASES = {
    c.name: c
    for make in (
        _gemms,
        _convolutions,
        _attentions,
        _passes,
        _writes,
        _transforms,
        _factors,
        _picks,
        _middling,
    )
    for c in make()
}
