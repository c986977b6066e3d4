"""Data types: the twelve element types, their categories, and PyTorch's promotion lattice."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from adjoint.engine.core.errors import DTypeError, DTypeTypeError
from adjoint.engine.core.state import config

BOOL, INT, FLOAT, COMPLEX = range(4)


class DType:
    """An element type, such as ``adjoint.float32``. One object per type; compare with ``is``."""

    __slots__ = (
        "category",
        "is_complex",
        "is_floating_point",
        "is_inexact",  # floating or complex: the types that can carry a gradient
        "is_signed",
        "itemsize",
        "name",
    )

    def __init__(self, name: str, category: int, itemsize: int, *, signed: bool = True) -> None:
        self.name: Final = name
        self.category: Final = category
        self.itemsize: Final = itemsize
        self.is_signed: Final = signed
        self.is_floating_point: Final = category == FLOAT
        self.is_complex: Final = category == COMPLEX
        self.is_inexact: Final = category >= FLOAT

    @property
    def is_half(self) -> bool:
        """The 16-bit floats, whose arithmetic accumulates in float32."""
        return self.category == FLOAT and self.itemsize == 2

    def to_real(self) -> DType:
        """The type of the real part."""
        parts = {"complex32": float16, "complex64": float32, "complex128": float64}
        return parts.get(self.name, self)

    def to_complex(self) -> DType:
        """The complex type with parts of this type (halves widen to complex64)."""
        if self.category == COMPLEX:
            return self
        return complex128 if self is float64 else complex64

    def __repr__(self) -> str:
        return f"{config.display_name}.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (named, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


bool_ = DType("bool", BOOL, 1, signed=False)
uint8 = DType("uint8", INT, 1, signed=False)
int8 = DType("int8", INT, 1)
int16 = DType("int16", INT, 2)
int32 = DType("int32", INT, 4)
int64 = DType("int64", INT, 8)
float16 = DType("float16", FLOAT, 2)
bfloat16 = DType("bfloat16", FLOAT, 2)
float32 = DType("float32", FLOAT, 4)
float64 = DType("float64", FLOAT, 8)
complex64 = DType("complex64", COMPLEX, 8)
complex128 = DType("complex128", COMPLEX, 16)

DTYPES: Final = (
    bool_, uint8, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
# Types that tensors are kept in and converted from, but not computed with.
uint16 = DType("uint16", INT, 2, signed=False)
uint32 = DType("uint32", INT, 4, signed=False)
uint64 = DType("uint64", INT, 8, signed=False)
float8_e4m3fn = DType("float8_e4m3fn", FLOAT, 1)
float8_e5m2 = DType("float8_e5m2", FLOAT, 1)
complex32 = DType("complex32", COMPLEX, 4)
STORAGE_DTYPES: Final = (uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, complex32)
# What quantised tensors say their elements are: whole numbers that stand for real ones.
qint8 = DType("qint8", INT, 1)
quint8 = DType("quint8", INT, 1, signed=False)
qint32 = DType("qint32", INT, 4)
QUANTIZED_DTYPES: Final = (qint8, quint8, qint32)
# Types of PyTorch's that programs name in their tables; nothing is kept in them.
NAMED_ONLY: Final = {
    name: DType(name, FLOAT if name.startswith("float") else INT, 1)
    for name in (
        *("quint4x2", "quint2x4", "bits8", "bits1x8", "bits2x4", "bits4x2", "float8_e8m0fnu"),
        *("float4_e2m1fn_x2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)),
    )
}
ALIASES: Final = {
    "half": float16, "float": float32, "double": float64, "cfloat": complex64,
    "cdouble": complex128, "chalf": complex32, "short": int16, "int": int32, "long": int64,
}  # fmt: skip
_BY_NAME: Final = {d.name: d for d in (*DTYPES, *STORAGE_DTYPES, *QUANTIZED_DTYPES)}


def named(name: str) -> DType:
    """The dtype called ``name``."""
    return _BY_NAME[name]


_BY_TYPE: Final = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(name: str, given: object) -> DType:
    """The dtype an argument means: Python's number types stand for their widest.

    >>> as_dtype("zeros", float)
    adjoint.float64
    """
    if isinstance(given, DType):
        return given
    dtype = _BY_TYPE.get(given) if isinstance(given, type) else None
    if dtype is None:
        text = f"the text {given!r}" if isinstance(given, str) else repr(given)
        raise TypeError(
            f"{name}: dtype must be a dtype such as adjoint.float32 or float, received {text}"
        )
    return dtype


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that both convert to.

    >>> promote_types(uint8, int8)
    adjoint.int16
    >>> promote_types(float16, bfloat16)
    adjoint.float32
    """
    if a is b:
        return a
    known = PROMOTED.get((a, b))
    if known is None:
        known = PROMOTED[a, b] = _promoted(a, b)
    return known


PROMOTED: dict[tuple[DType, DType], DType] = {}  # of pairs that were asked about


def _promoted(a: DType, b: DType) -> DType:
    for d in (a, b):
        if d in STORAGE_DTYPES and not (d.category == INT and FLOAT in (a.category, b.category)):
            raise DTypeError(
                f"Promotion for {d.name} is not supported, attempted to promote {a.name} and "
                f"{b.name}. Convert it first: x.to({'int64' if d.category == INT else 'float32'})."
            )
    if a.category < b.category:
        a, b = b, a
    if a.category != b.category:
        if a is complex64 and b is float64:
            return complex128
        return a
    if a.category == INT and a.is_signed != b.is_signed:
        signed = a if a.is_signed else b
        return int16 if signed is int8 else signed
    if a.itemsize == b.itemsize:  # float16 with bfloat16
        return float32
    return a if a.itemsize > b.itemsize else b


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a result of dtype ``from_`` may be written to ``to`` without losing its category."""
    return from_.category <= to.category


_default: DType = float32


def get_default_dtype() -> DType:
    """The dtype of floating-point tensors made from Python numbers.

    >>> get_default_dtype()
    adjoint.float32
    """
    return _default


def set_default_dtype(d: DType) -> None:
    """Make ``d`` (a floating dtype) the default for tensors made from Python floats."""
    global _default
    if not isinstance(d, DType) or not d.is_floating_point:
        raise DTypeTypeError(
            "set_default_dtype: only floating-point types are supported as the default type, "
            f"received {d!r}. Pass float32, float64, float16 or bfloat16."
        )
    _default = d
    for clear in DEFAULT_LISTENERS:
        clear()


# Promotion plans are cached per dtype pattern and depend on the default dtype.
DEFAULT_LISTENERS: list[Callable[[], None]] = []


def of_scalar(value: object) -> DType:
    """The dtype a Python number (or an array library's, as one) has when it stands alone."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, float):
        return _default
    return _default.to_complex()


def combine_categories(higher: DType | None, lower: DType | None) -> DType | None:
    """Join operands of different priority: the lower counts only by its category."""
    if higher is None:
        return lower
    if lower is None or higher.category == COMPLEX:
        return higher
    if higher.category == FLOAT:
        return higher.to_complex() if lower.category == COMPLEX else higher
    if higher is bool_ or lower.category >= FLOAT:
        return promote_types(higher, lower)
    return higher


def _widest(group: list[DType]) -> DType | None:
    """What all of some dtypes convert to; None of none."""
    if len(group) < 2:
        return group[0] if group else None
    return reduce(promote_types, group)


def join(dimensioned: list[DType], zero_dim: list[DType], scalars: list[DType]) -> DType:
    """PyTorch's result type: tensors first, then 0-d tensors, then Python scalars."""
    first, second, third = _widest(dimensioned), _widest(zero_dim), _widest(scalars)
    result = combine_categories(first, combine_categories(second, third))
    if result is None:
        raise TypeError("result_type: needs at least one operand")
    return result
