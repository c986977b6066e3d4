"""finfo and iinfo: what numbers a dtype holds."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType

# bits of significand (without the implied one), and of exponent
_FLOATS = {
    "float16": (10, 5), "bfloat16": (7, 8), "float32": (23, 8), "float64": (52, 11),
    "float8_e4m3fn": (3, 4), "float8_e5m2": (2, 5),
}  # fmt: skip
# Formats with other ends than IEEE's: eps (PyTorch's), least, most and smallest normal number.
_UNUSUAL = {
    "float8_e4m3fnuz": (2.0**-3, -240.0, 240.0, 2.0**-7),
    "float8_e5m2fnuz": (2.0**-3, -57344.0, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**-127, 2.0**127, 2.0**-127),
}


class _ReadOnly:
    """What is stated once: one object is given to all who ask."""

    __slots__ = ()

    def _put(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse(name)

    def __delattr__(self, name: str) -> NoReturn:
        self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        own = type(self).__name__
        if hasattr(self, name):
            raise AttributeError(f"attribute {name!r} of {own!r} objects is not writable")
        raise AttributeError(f"{own!r} object has no attribute {name!r}")


class finfo(_ReadOnly):
    """Limits of a floating-point dtype.

    >>> finfo(dt.float32).eps
    1.1920928955078125e-07
    """

    __slots__ = (
        "_of", "bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny",
    )  # fmt: skip

    _of: DType
    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __new__(cls, type: DType | None = None) -> finfo:
        known = _KNOWN.get(type) if type.__class__ is DType else None
        if known is None or cls is not finfo:
            known = object.__new__(cls)
            known._state(dt.get_default_dtype() if type is None else dt.as_dtype("finfo", type))
            if cls is finfo:
                _KNOWN[known._of] = known
        return known

    def _state(self, chosen: DType) -> None:
        if not chosen.is_inexact:
            raise TypeError(
                f"finfo: requires a floating point input type, received {chosen!r}. Use iinfo."
            )
        real = chosen.to_real()
        self._put(_of=chosen, bits=real.itemsize * 8, dtype=real.name)
        if real.name in _UNUSUAL:
            eps, least, most, tiny = _UNUSUAL[real.name]
            self._put(eps=eps, min=least, max=most, tiny=tiny, smallest_normal=tiny, resolution=1.0)
            return
        if real.name not in _FLOATS:
            raise TypeError(f"finfo: the limits of {chosen!r} are not stated, nor are PyTorch's")
        fraction, exponent = _FLOATS[real.name]
        bias = 2 ** (exponent - 1) - 1
        eps, tiny = 2.0**-fraction, 2.0 ** (1 - bias)
        most = (2.0 - eps) * 2.0**bias
        if real.name == "float8_e4m3fn":  # no infinities: the top exponent holds numbers too
            most = 448.0
        digits = int(fraction * 0.30103)
        self._put(eps=eps, min=-most, max=most, tiny=tiny, smallest_normal=tiny)
        self._put(resolution=10.0**-digits)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._of,))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


_KNOWN: dict[DType, finfo] = {}  # one for each dtype: a program may ask all the time


class iinfo(_ReadOnly):
    """Limits of an integer dtype.

    >>> iinfo(dt.uint8).max
    255
    """

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: str
    max: int
    min: int

    def __new__(cls, type: DType) -> iinfo:
        known = _KNOWN_WHOLE.get(type) if type.__class__ is DType else None
        if known is None or cls is not iinfo:
            known = object.__new__(cls)
            known._state(dt.as_dtype("iinfo", type))
            if cls is iinfo:
                _KNOWN_WHOLE[type] = known
        return known

    def _state(self, type: DType) -> None:
        if type.category != dt.INT:
            raise TypeError(f"iinfo: requires an integer input type, received {type!r}. Use finfo.")
        bits = type.itemsize * 8
        most = 2 ** (bits - type.is_signed) - 1
        self._put(bits=bits, dtype=type.name, max=most, min=-(most + 1) if type.is_signed else 0)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (getattr(dt, self.dtype),))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_KNOWN_WHOLE: dict[DType, iinfo] = {}
