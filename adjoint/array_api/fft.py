"""The Fourier transform extension."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.array_api.arrays import anything
from adjoint.array_api.elementwise import Maker, named
from adjoint.engine.core.dtype import DType

_engine: Any = ad.fft  # its names come from the table of operations


def _one(name: str) -> Maker:
    compute = getattr(_engine, name)

    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return compute(x, n=n, dim=axis, norm=norm)

    return anything(named(function, name, f"The transform `{name}` along one dimension."))


def _many(name: str) -> Maker:
    compute = getattr(_engine, name)

    def function(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        return compute(x, s=s, dim=axes, norm=norm)

    return anything(named(function, name, f"The transform `{name}` along several dimensions."))


fft, ifft, rfft, irfft, hfft, ihfft = (
    _one(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = (_many(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


@anything
def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Any:
    """The frequencies that `fft` gives, for samples `d` apart."""
    return _engine.fftfreq(n, d, dtype=dtype, device=device)


@anything
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Any:
    """The frequencies that `rfft` gives, for samples `d` apart."""
    return _engine.rfftfreq(n, d, dtype=dtype, device=device)


@anything
def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Frequencies with zero in the middle."""
    return _engine.fftshift(x, dim=axes)


@anything
def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return _engine.ifftshift(x, dim=axes)
