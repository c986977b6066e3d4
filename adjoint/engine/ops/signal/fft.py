"""Discrete Fourier transforms.

Three linear primitives carry the family: FFT, complex to complex over several dimensions; RFFT,
real to the non-negative half of a Hermitian spectrum along one; IRFFT, back from the half.

Note [half spectra]
    RFFT drops the negative frequencies, which IRFFT adds again as conjugates. So IRFFT counts each
    kept frequency twice but for those that are their own conjugates, 0 and n / 2; its transpose is
    RFFT times 2 there, and the transpose of RFFT is IRFFT of halves there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import composite, linear, primitive
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Dims = tuple[int, ...]
# The normalisation of the other direction; also that of the transpose.
OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _shift(params: dict[str, Any], size: int) -> dict[str, Any]:
    if "dims" in params:
        return {**params, "dims": tuple(d + 1 for d in params["dims"])}
    return {**params, "dim": params["dim"] + 1}


def _resized(x: Spec, dim: int, n: int, dtype: DType) -> Spec:
    return Spec((*x.shape[:dim], n, *x.shape[dim + 1 :]), dtype, x.device)


# FFT(x, dims, inverse, norm): x complex.
FFT: Record = linear(
    "fft",
    lambda x, dims, inverse, norm: x,
    lambda g, dims, inverse, norm: FFT(g, dims=dims, inverse=not inverse, norm=OPPOSITE[norm]),
    batched_params=_shift,
    fragment="computed",
    by_library=True,
)
# RFFT(x, dim, norm): x real; the result has n // 2 + 1 frequencies along dim.
RFFT: Record = linear(
    "rfft",
    lambda x, dim, norm: _resized(x, dim, x.shape[dim] // 2 + 1, x.dtype.to_complex()),
    lambda g, x_spec, dim, norm: IRFFT(
        WEIGHTED_HALF(g, dim=dim, n=x_spec.shape[dim], divided=True),
        dim=dim,
        n=x_spec.shape[dim],
        norm=OPPOSITE[norm],
    ),
    batched_params=_shift,
    fragment="computed",
    pulled="computed",
    by_library=True,
)
# IRFFT(x, dim, n, norm): x has n // 2 + 1 frequencies along dim; the result is real.
IRFFT: Record = linear(
    "irfft",
    lambda x, dim, n, norm: _resized(x, dim, n, x.dtype.to_real()),
    lambda g, dim, n, norm: WEIGHTED_HALF(
        RFFT(g, dim=dim, norm=OPPOSITE[norm]), dim=dim, n=n, divided=False
    ),
    batched_params=_shift,
    fragment="computed",
    pulled="computed",
    by_library=True,
)


# RFFT_SEVERAL(x, dims, norm): RFFT along the last of some dimensions and FFT along the others; in
# eager mode on a GPU one transform of cuFFT's.
RFFT_SEVERAL: Record = composite(
    "rfft_several",
    lambda x, dims, norm: FFT(
        RFFT(x, dim=dims[-1], norm=norm), dims=dims[:-1], inverse=False, norm=norm
    ),
    operands=("x",),
    fragment="device",
    by_table=lambda operands, params: True,
)


def _of_pairs(x: Spec, way: str, dim: int, n: int, inverse: bool, norm: str) -> Spec:
    shape = x.shape if way == "half" else x.shape[:-1]
    length = n // 2 + 1 if way == "half" else n
    pair = () if way == "back" else (2,)
    return Spec((*shape[:dim], length, *shape[dim + 1 :], *pair), x.dtype, x.device)


# SPECTRUM(x, way, dim, n, inverse, norm): the three of numbers as pairs along a further dimension,
# to which compiled programs bring them. way: "whole" is FFT along one dimension, "half" RFFT of
# reals, "back" IRFFT to them; n: the length of the transform.
SPECTRUM = primitive("spectrum", _of_pairs, None)


def _weighted(x: Tensor, dim: int, n: int, divided: bool) -> Tensor:
    """IRFFT counts a frequency twice, or once where it is its own opposite: Note [half spectra].

    To multiply by one half rounds nothing, and is sooner done than to divide by two.
    """
    k = x.new_arange(x.shape[dim]).reshape((-1, *(1,) * (x.ndim - dim - 1)))
    alone = k * (n - 2 * k) == 0
    one = x.new_ones((), dtype=x.dtype.to_real())
    return x * one.where(alone, 0.5 if divided else 2.0)


# WEIGHTED_HALF(x, dim, n, divided): a half spectrum times how often IRFFT counts each frequency, or
# divided by it; a record so that on a GPU it is one kernel. It is its own transpose.
WEIGHTED_HALF: Record = composite(
    "weighted_half",
    _weighted,
    lambda g, dim, n, divided: WEIGHTED_HALF(g, dim=dim, n=n, divided=divided),
    batched_params=_shift,
    fragment="device",
    lies_in_rows=True,
)


# -- arguments ----------------------------------------------------------------------------------


def _norm(name: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in OPPOSITE:
        raise RuntimeError(
            f'{name}: invalid normalization mode: "{norm}". Use "backward", "ortho" or "forward".'
        )
    return norm


def _check(name: str, x: Any) -> None:
    if not is_tensor(x):
        raise TypeError(f"{name}: argument 'input' must be Tensor, not {type(x).__name__}")
    if x.dtype.is_half:
        raise DTypeError(f"{name}: unsupported dtype {x.dtype.name}. Convert with .float().")


def _complex(name: str, x: Any) -> Tensor:
    """The input as complex numbers."""
    _check(name, x)
    d = x.dtype if x.dtype.is_inexact else dt.get_default_dtype()
    return x.to(d.to_complex())


def _real(name: str, x: Any) -> Tensor:
    """The input as real numbers; complex is an error, not a cast."""
    _check(name, x)
    if x.dtype.is_complex:
        raise DTypeError(f"{name}: expects a real input tensor, but got {x.dtype.name}")
    return x if x.dtype.is_inexact else x.to(dt.get_default_dtype())


def _one_dim(name: str, x: Tensor, dim: int) -> int:
    if x.ndim == 0:
        raise ShapeIndexError(f"{name}: dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(name, dim, x.ndim)


def _resize(name: str, x: Tensor, dim: int, n: int) -> Tensor:
    """Cut off or filled with zeros to n elements along dim."""
    if n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified, wanted >= 1")
    have = x.shape[dim]
    if have == n:
        return x
    if have > n:
        return x.narrow(dim, 0, n)
    return cat([x, x.new_zeros((*x.shape[:dim], n - have, *x.shape[dim + 1 :]))], dim)


def _plan(name: str, x: Tensor, s: Any, dim: Any) -> tuple[Dims, list[int]]:
    """The dimensions to transform, and the length asked for in each (-1: as it is)."""
    s = (s,) if hasattr(s, "__index__") else s  # a tensor of one number, too
    dim = (dim,) if hasattr(dim, "__index__") else dim
    if dim is not None:
        dims = tuple(wrap_dim(name, d, x.ndim) for d in dim)
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique, received {tuple(dim)}")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(
                f"{name}: when given, dim and shape arguments must have the same length, received "
                f"{tuple(dim)} and {tuple(s)}"
            )
    elif s is not None:
        if len(s) > x.ndim:
            raise ShapeError(
                f"{name}: got shape with {len(s)} values but input tensor only has {x.ndim} "
                "dimensions."
            )
        dims = tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(range(x.ndim))
    return dims, [-1] * len(dims) if s is None else list(s)


def _need_axis(name: str, dims: Sequence[int]) -> None:
    if not dims:
        raise RuntimeError(f"{name}: must transform at least one axis")


# -- the transforms -----------------------------------------------------------------------------


def _c2c(name: str, x: Tensor, dims: Dims, lengths: Sequence[int], inverse: bool, n: str) -> Tensor:
    for d, length in zip(dims, lengths, strict=True):
        x = _resize(name, x, d, x.shape[d] if length == -1 else length)
    return FFT(x, dims=dims, inverse=inverse, norm=n) if dims else x


def _transform(name: str, input: Any, n: int | None, dim: int, norm: Any, inverse: bool) -> Tensor:
    x = _complex(name, input)
    d = _one_dim(name, x, dim)
    length = _length(name, n)
    x = _resize(name, x, d, x.shape[d] if length == -1 else length)
    return FFT(x, dims=(d,), inverse=inverse, norm=_norm(name, norm))


def _transform_n(name: str, input: Any, s: Any, dim: Any, norm: Any, inverse: bool) -> Tensor:
    x = _complex(name, input)
    dims, lengths = _plan(name, x, s, dim)
    return _c2c(name, x, dims, lengths, inverse, _norm(name, norm))


def _to_half(name: str, x: Tensor, d: int, n: int, norm: str) -> Tensor:
    return RFFT(_resize(name, x, d, x.shape[d] if n == -1 else n), dim=d, norm=norm)


def _from_half(name: str, x: Tensor, d: int, n: int, norm: str) -> Tensor:
    if n == -1:
        n = 2 * (x.shape[d] - 1)
    if n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified, wanted >= 1")
    return IRFFT(_resize(name, x, d, n // 2 + 1), dim=d, n=n, norm=norm)


def _length(name: str, n: Any) -> int:
    if n is not None and not hasattr(n, "__index__"):
        raise TypeError(f"{name}: argument 'n' must be int, not {type(n).__name__}")
    if n is not None and n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified, wanted >= 1")
    return -1 if n is None else n


@public(out=True, namespaces=("fft",))
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`.

    >>> import adjoint as ad
    >>> ad.fft.fft(ad.tensor([1.0, 0.0])).real
    tensor([1., 1.])
    """
    return _transform("fft", input, n, dim, norm, inverse=False)


@public(out=True, namespaces=("fft",))
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse discrete Fourier transform along `dim`."""
    return _transform("ifft", input, n, dim, norm, inverse=True)


@public(out=True, namespaces=("fft",))
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform over several dimensions (all by default)."""
    return _transform_n("fftn", input, s, dim, norm, inverse=False)


@public(out=True, namespaces=("fft",))
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse discrete Fourier transform over several dimensions."""
    return _transform_n("ifftn", input, s, dim, norm, inverse=True)


@public(out=True, namespaces=("fft",))
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The discrete Fourier transform over two dimensions."""
    return _transform_n("fft2", input, s, dim, norm, inverse=False)


@public(out=True, namespaces=("fft",))
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse discrete Fourier transform over two dimensions."""
    return _transform_n("ifft2", input, s, dim, norm, inverse=True)


@public(out=True, namespaces=("fft",))
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The Fourier transform of real input along `dim`: the non-negative frequencies."""
    x = _real("rfft", input)
    d = _one_dim("rfft", x, dim)
    return _to_half("rfft", x, d, _length("rfft", n), _norm("rfft", norm))


@public(out=True, namespaces=("fft",))
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: `n` real values from the non-negative frequencies."""
    x = _complex("irfft", input)
    d = _one_dim("irfft", x, dim)
    return _from_half("irfft", x, d, _length("irfft", n), _norm("irfft", norm))


@public(out=True, namespaces=("fft",))
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The Fourier transform of a Hermitian signal given by its first half: real."""
    x = _complex("hfft", input)
    d = _one_dim("hfft", x, dim)
    return _from_half("hfft", x.conj(), d, _length("hfft", n), OPPOSITE[_norm("hfft", norm)])


@public(out=True, namespaces=("fft",))
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first half of the Hermitian signal with a real spectrum."""
    x = _real("ihfft", input)
    d = _one_dim("ihfft", x, dim)
    half = _to_half("ihfft", x, d, _length("ihfft", n), OPPOSITE[_norm("ihfft", norm)])
    return half.conj()


def _is_one_plan(x: Tensor, dims: Dims, lengths: Sequence[int]) -> bool:
    """Whether several dimensions on a GPU, as long as they are, are transformed off the tape."""
    if len(dims) == 1 or x._array.__class__ not in DEVICE_LAYOUTS or not CONTEXT.settled:
        return False
    if CONTEXT.grad_enabled and x.requires_grad:
        return False
    as_they_are = all(n in (-1, x.shape[d]) for d, n in zip(dims, lengths, strict=True))
    return as_they_are and x.numel() > 0


def _rfft_n(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _real(name, input)
    dims, lengths = _plan(name, x, s, dim)
    _need_axis(name, dims)
    mode = _norm(name, norm)
    if _is_one_plan(x, dims, lengths):
        return RFFT_SEVERAL(x, dims=dims, norm=mode)
    half = _to_half(name, x, dims[-1], lengths[-1], mode)
    return _c2c(name, half, dims[:-1], lengths[:-1], inverse=False, n=mode)


def _irfft_n(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _complex(name, input)
    dims, lengths = _plan(name, x, s, dim)
    _need_axis(name, dims)
    mode = _norm(name, norm)
    x = _c2c(name, x, dims[:-1], lengths[:-1], inverse=True, n=mode)
    return _from_half(name, x, dims[-1], lengths[-1], mode)


def _hfft_n(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _complex(name, input)
    dims, lengths = _plan(name, x, s, dim)
    _need_axis(name, dims)
    mode = _norm(name, norm)
    x = _c2c(name, x, dims[:-1], lengths[:-1], inverse=False, n=mode)
    return _from_half(name, x.conj(), dims[-1], lengths[-1], OPPOSITE[mode])


def _ihfft_n(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x = _real(name, input)
    dims, lengths = _plan(name, x, s, dim)
    _need_axis(name, dims)
    mode = _norm(name, norm)
    half = _to_half(name, x, dims[-1], lengths[-1], OPPOSITE[mode]).conj()
    return _c2c(name, half, dims[:-1], lengths[:-1], inverse=True, n=mode)


@public(out=True, namespaces=("fft",))
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The Fourier transform of real input over several dimensions, the last one halved."""
    return _rfft_n("rfftn", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The Fourier transform of real input over two dimensions, the last one halved."""
    return _rfft_n("rfft2", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`."""
    return _irfft_n("irfftn", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `rfft2`."""
    return _irfft_n("irfft2", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The Fourier transform of a signal Hermitian in its last dimension: real."""
    return _hfft_n("hfftn", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfftn` over two dimensions."""
    return _hfft_n("hfft2", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    return _ihfft_n("ihfftn", input, s, dim, norm)


@public(out=True, namespaces=("fft",))
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `hfft2`."""
    return _ihfft_n("ihfft2", input, s, dim, norm)
