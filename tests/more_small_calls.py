"""Calls of two matrices whose programs must give the bits of the functions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.nn import functional as F

Call = Callable[..., Any]
UNARY = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erfcx erfinv gammaln i0 i0e i1 "
    "i1e log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 "
    "ndtr ndtri psi scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 sinc"
)
TOP = (
    "deg2rad rad2deg lgamma isneginf isposinf isreal frexp angle signbit frac erfc mode msort "
    "nanmedian cov corrcoef diagflat combinations vander diff trapezoid sgn"
)
BINARY = "gammainc gammaincc xlog1py zeta"
POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p"
)
PAIRS = "gcd lcm ldexp logaddexp2 nextafter heaviside igamma igammac isin remainder fmod hypot"
WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window"
LOSSES = (
    "poisson_nll_loss soft_margin_loss margin_ranking_loss hinge_embedding_loss "
    "multilabel_soft_margin_loss gaussian_nll_loss triplet_margin_loss"
)


def at(x: ad.Tensor) -> ad.Tensor:
    """Places along the second dimension."""
    return ad.arange(x.numel()).reshape(x.shape) % x.shape[1]


def square(x: ad.Tensor) -> ad.Tensor:
    return x @ x.transpose(0, 1) + 3 * ad.eye(x.shape[0], dtype=x.dtype)


def images(x: ad.Tensor) -> ad.Tensor:
    """A picture with two channels."""
    return ad.stack([x, x * 2])[None].contiguous()


def loss(name: str) -> Call:
    call = getattr(F, name)
    third = {
        "margin_ranking_loss": "sign",
        "gaussian_nll_loss": "abs",
        "triplet_margin_loss": "exp",
    }
    if name in third:
        return lambda x, y: call(x, y, getattr(x, third[name])())
    return lambda x, y: call(x, y.sign() if "embedding" in name else y)


def _halves(x: ad.Tensor) -> list[ad.Tensor]:
    """Halves and back, as bits that NumPy has."""
    return [t for d in (ad.float16, ad.bfloat16) for t in (x.to(d).view(ad.int16), x.to(d).float())]


MORE: dict[str, Call] = {
    **{name: lambda x, y, name=name: getattr(ad.special, name)(x) for name in UNARY.split()},
    **{name: lambda x, y, name=name: getattr(ad, name)(x) for name in TOP.split()},
    **{name: lambda x, y, name=name: getattr(ad.special, name)(x, y) for name in BINARY.split()},
    **{name: lambda x, y, name=name: getattr(ad.special, name)(x, 3) for name in POLYNOMIALS.split()},
    **{name: lambda x, y, name=name: getattr(ad, name)(x, y) for name in PAIRS.split()},
    **{name: lambda x, y, name=name: getattr(ad, name)(7) for name in WINDOWS.split()},
    **{name: loss(name) for name in LOSSES.split()},
    "as halves": lambda x, y: _halves(x) + _halves(y.T),
    "halves added up": lambda x, y: [
        t.sum(*dims, keepdim=kept).float() for d in (ad.float16, ad.bfloat16)
        for t in (x.to(d), y.to(d).T) for dims in ((), (0,), (-1,), ((0, 1),)) for kept in (False, True)
        if dims or not kept
    ],
    "halves moved": lambda x, y: [
        t for x in _halves(x) for t in (x.clone(), ad.cat([x, x]), x.flip(0), x.T.contiguous())
    ],
    "shifts by a number": lambda x, y: [
        t for n in (0, 1, 7, 31, 63, 64, -1) for d in (ad.int64, ad.int8, ad.uint8)
        for t in (at(x).to(d) << n, (at(x).to(d) - 2) >> n, n << at(x).to(d))
    ],
    "tensors by name": lambda x, y: (
        F.layer_norm(x, (x.shape[1],), weight=y[0], bias=y[1]), F.linear(x, weight=y),
        F.cross_entropy(x, weight=y[0].abs(), target=at(x)[:, 0]), ad.clamp(x, min=y),
        F.layer_norm(x, (x.shape[1],), bias=y[1], weight=y[0]), F.mse_loss(target=y, input=x),
        F.layer_norm(x, (x.shape[1],), bias=y[0], weight=y[1]), ad.clamp(x, max=y),
    ),
    "where they are": lambda x, y: (
        ad.zeros(2, 3, device=x.device), ad.arange(5, device="cpu"), x.to(device="cpu", dtype=ad.float64),
        ad.ones_like(x, device=x.device, dtype=ad.int64), x.new_zeros(2, device=x.device),
        ad.full((2,), 3, device=ad.device("cpu"), requires_grad=False),
    ),
    "as they are": lambda x, y: (
        x.to(x.dtype, non_blocking=True), x.to("cpu", x.dtype), x.to(device="cpu"), x.to(y, copy=True),
        x.to(device=x.device, dtype=y.dtype), ad.as_tensor(x), ad.as_tensor([1.0, 2.0]), ad.as_tensor(3),
    ),
    "to what cannot be": lambda x, y: x.to(x.dtype, "cpu"),
    "to a dtype twice": lambda x, y: x.to(x.dtype, dtype=x.dtype),
    "in an order": lambda x, y: [
        image.contiguous(memory_format=order)
        for image in (x[None, None], ad.stack([x, y, x])[None], ad.stack([x, y])[None].transpose(1, 3))
        for order in (ad.channels_last, ad.contiguous_format)
    ],
    "in an order by to": lambda x, y: ad.stack([x, y, x])[None].to(memory_format=ad.channels_last),
    "a copy in an order": lambda x, y: ad.stack([x, y])[None].clone(memory_format=ad.channels_last),
    "by a number in a tensor": lambda x, y: (x[at(x)[0, 1]], x[at(x)[0, 1] - 2], x[at(x)[0, 0].int()]),
    "by a number that is too large": lambda x, y: x[at(x)[0, 1] + 9],
    "polygamma": lambda x, y: ad.polygamma(1, x),
    "lgamma of tiny ones": lambda x, y: (ad.lgamma(x * 1e-305), ad.lgamma(-x * 0), ad.digamma(x * 0)),
    "mvlgamma": lambda x, y: ad.mvlgamma(x.abs() + 3, 2),
    "shifts": lambda x, y: (ad.bitwise_left_shift(x, y.abs()), x >> 1, x << 2),
    "rsub": lambda x, y: ad.rsub(x, y, alpha=2),
    "dist": lambda x, y: ad.dist(x, y, 3),
    "threshold": lambda x, y: F.threshold(x, 0.1, 7.0),
    "lerp by weights": lambda x, y: ad.lerp(x, y, y.sigmoid()),
    "complex": lambda x, y: (ad.complex(x, y), ad.polar(x.abs(), y)),
    "made of numbers": lambda x, y: (
        ad.tril_indices(5, 4), ad.triu_indices(3, 3, 1), ad.logspace(0, 1, 5), ad.scalar_tensor(2.5),
        ad.fft.fftfreq(8), ad.fft.rfftfreq(7, 0.5), x.new_arange(3) if hasattr(x, "new_arange") else x,
    ),
    "windows of signals": lambda x, y: (
        ad.signal.windows.gaussian(5, std=2.0), ad.signal.windows.cosine(6),
        ad.signal.windows.exponential(5, tau=1.5), ad.signal.windows.nuttall(6),
    ),
    "quantile": lambda x, y: (x.quantile(0.4), ad.nanquantile(x, 0.5, dim=1)),
    "renorm": lambda x, y: ad.renorm(x, 2, 0, 1.0),
    "isin of numbers": lambda x, y: ad.isin(at(x), ad.tensor([1, 2])),
    "block_diag": lambda x, y: ad.block_diag(x, y, x[0]),
    "products of all": lambda x, y: ad.cartesian_prod(x[0], y[0]),
    "gradient": lambda x, y: ad.gradient(x),
    "cumulative_trapezoid": lambda x, y: ad.cumulative_trapezoid(x, y),
    "diff of two": lambda x, y: ad.diff(x, 2, append=y[:, :1]),
    "scattered views": lambda x, y: (
        ad.select_scatter(x, y[0], 0, 1), ad.slice_scatter(x, y[:, :2], 1, 0, 4, 2),
        ad.diagonal_scatter(x, y.diagonal()),
    ),
    "index_fill": lambda x, y: x.index_fill(1, ad.tensor([0, 2]), 5.0),
    "index_fill out of range": lambda x, y: x.index_fill(0, ad.tensor([9]), 5.0),
    "index_copy": lambda x, y: x.index_copy(0, ad.tensor([1, 0]), y[:2]),
    "index_reduce": lambda x, y: x.index_reduce(0, ad.tensor([1, 1]), y[:2], "amax"),
    "scatter of a number": lambda x, y: (x.scatter(1, at(x), 2.5), x.scatter(0, at(x) * 0, -1)),
    "masked_scatter": lambda x, y: x.masked_scatter(x > 0, y),
    "masked_scatter of too few": lambda x, y: x.masked_scatter(x == x, y[0]),
    "put": lambda x, y: x.put(ad.tensor([0, 3]), y[0, :2]),
    "put beyond": lambda x, y: x.put(ad.tensor([0, 99]), y[0, :2]),
    "scatter_reduce": lambda x, y: [x.scatter_reduce(1, at(x), y, r) for r in ("sum", "amax", "mean", "prod")],
    "sum_to_size": lambda x, y: x.sum_to_size(1, x.shape[1]),
    "unravel_index": lambda x, y: ad.unravel_index(at(x), (2, 9)),
    "histogram": lambda x, y: ad.histogram(x, 4),
    "constant_pad_nd": lambda x, y: ad.constant_pad_nd(x, (1, 0), 2.0),
    "channel_shuffle": lambda x, y: F.channel_shuffle(ad.cat([images(x), images(y)], 1), 2),
    "pooled": lambda x, y: (
        F.adaptive_max_pool2d(images(x), 2), F.adaptive_max_pool1d(x, 2, return_indices=True),
        F.max_pool2d(images(x), 2, return_indices=True), F.lp_pool1d(x, 2, 2),
        F.adaptive_avg_pool3d(images(x), 2),
    ),
    "unpooled": lambda x, y: F.max_unpool1d(*F.max_pool1d(x[:, :4], 2, return_indices=True), 2),
    "unpooled beyond": lambda x, y: F.max_unpool1d(x[:, :2], at(x)[:, :2] + 9, 2),
    "resized": lambda x, y: [
        F.interpolate(images(x), scale_factor=2, mode=mode) for mode in ("nearest", "bilinear", "bicubic")
    ],
    "sampled": lambda x, y: F.grid_sample(images(x), F.affine_grid(y[None, :2, :3], (1, 2, 3, 2))),
    "folded": lambda x, y: F.fold(x[None, :2, :4].repeat(1, 2, 1), (3, 3), 2),
    "transposed convolution": lambda x, y: F.conv_transpose1d(x[None], y[:, None, :2]),
    "response norm": lambda x, y: F.local_response_norm(images(x), 2),
    "bilinear": lambda x, y: F.bilinear(x, y, (y[0] * x[0, :, None])[None]),
    "cosine_embedding_loss": lambda x, y: F.cosine_embedding_loss(x, y, y[:, 0].sign()),
    "multi_margin_loss": lambda x, y: F.multi_margin_loss(x, at(x)[:, 0]),
    "multi_margin_loss of no class": lambda x, y: F.multi_margin_loss(x, at(x)[:, 0] + 9),
    "multilabel_margin_loss": lambda x, y: F.multilabel_margin_loss(x, at(x)),
    "pdist": lambda x, y: (F.pdist(x), F.pdist(y, 1)),
    "weighted cross entropy": lambda x, y: F.cross_entropy(x, at(x)[:, 0], weight=y[0].abs()),
    "factors": lambda x, y: (
        ad.linalg.cholesky_ex(square(x)), ad.linalg.lu_factor(square(x)), ad.linalg.lu(square(x)),
        ad.linalg.inv_ex(square(x)), ad.linalg.ldl_factor(square(x)), ad.logdet(square(x)),
    ),
    "factors of none": lambda x, y: (ad.linalg.cholesky_ex(x @ y.T), ad.linalg.inv_ex(x[:2, :2] * 0)),
    "cholesky_ex of none": lambda x, y: ad.linalg.cholesky_ex(-square(x), check_errors=True),
    "lu_factor of nothing": lambda x, y: ad.linalg.lu_factor(x[:2, :2] * 0),
    "solved": lambda x, y: (
        ad.linalg.solve_ex(square(x), y), ad.cholesky_solve(y, square(x)),
        ad.cholesky_inverse(square(x)), ad.linalg.lu_solve(*ad.linalg.lu_factor(square(x)), y),
        ad.linalg.lstsq(square(x), y),
    ),
    "eigenvalues": lambda x, y: (ad.linalg.eigvals(square(x)), ad.linalg.cond(square(x))),
    "ranks": lambda x, y: (ad.linalg.matrix_rank(x), ad.linalg.pinv(x), ad.linalg.vecdot(x, y)),
    "matrix_exp": lambda x, y: ad.linalg.matrix_exp(square(x) / 9),
    "multi_dot": lambda x, y: ad.linalg.multi_dot([x, y.T, x]),
    "householder_product": lambda x, y: ad.linalg.householder_product(square(x), y[:, 0]),
    "shifted spectra": lambda x, y: (ad.fft.fftshift(x), ad.fft.ifftshift(y, 1)),
    "hermitian spectra": lambda x, y: (
        ad.fft.hfft(ad.complex(x, y)), ad.fft.ihfft(x), ad.fft.irfft2(ad.complex(x, y)),
        ad.fft.irfftn(ad.complex(x, y)),
    ),
    "stft": lambda x, y: ad.stft(x, 2, window=y[0, :2], return_complex=True, center=False),
    "narrow ones": lambda x, y: (x.half(), x.bfloat16(), x.cfloat(), x.cdouble()),
}  # fmt: skip
