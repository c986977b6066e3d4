"""Regular sequences of numbers, and the identity matrix."""

from __future__ import annotations

from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, ShapeError, warn_user
from adjoint.engine.core.layout import check_layout
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.common.scalars import require_fit
from adjoint.engine.ops.create.creation import ARANGE, finish, place

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LINSPACE = primitive(
    "linspace",
    lambda *, start, end, steps, dtype, device: Spec((steps,), dtype, device),
    creates=True,
)
LOGSPACE = primitive(
    "logspace", lambda *, start, end, steps, base, dtype, device: Spec((steps,), dtype, device)
)
EYE = primitive("eye", lambda *, n, m, dtype, device: Spec((n, m), dtype, device), creates=True)


def _number(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def _length(start: Any, end: Any, step: Any, dtype: DType) -> int:
    """How many numbers there are from start to end, PyTorch's way."""
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not (isfinite(start) and isfinite(end)):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}")
    if (step > 0 and end < start) or (step < 0 and end > start):
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign: {start} -> {end} "
            f"by {step}"
        )
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return -((start - end) // step)
    if dtype is dt.int64:
        return -((int(start) - int(end)) // int(step))
    return ceil((float(end) - float(start)) / float(step))


@public(numbers="values")
def arange(
    *args: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from `start` (0) up to, not including, `end`, by `step` (1).

    >>> import adjoint as ad
    >>> ad.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    check_layout("arange", layout)
    names = ("end",) if len(args) == 1 and end is None else ("start", "end", "step")
    if len(args) > len(names):
        raise TypeError(f"arange: takes at most 3 positional arguments, received {len(args)}")
    given = {"start": start, "end": end, "step": step} | dict(zip(names, args, strict=False))
    if given["end"] is None:
        raise TypeError("arange: missing the required argument 'end'")
    first, by = (
        d if given[k] is None else _number(given[k]) for k, d in (("start", 0), ("step", 1))
    )
    last = _number(given["end"])
    if dtype is None:
        if out is not None:
            dtype = out.dtype
        else:
            integers = all(isinstance(v, int) for v in (first, last, by))
            dtype = dt.int64 if integers else dt.get_default_dtype()
    dtype = dt.as_dtype("arange", dtype)
    if dtype.is_complex or dtype is dt.bool_:
        raise NotImplementedError(f"arange: not implemented for {dtype.name}")
    for number in (first, last, by):
        if isinstance(number, int):
            require_fit("arange", number, dt.float64 if dtype.is_inexact else dt.int64)
    if not dtype.is_inexact and by and int(by) == 0:
        raise ValueError(f"arange: step must be nonzero, received {by} for {dtype.name}")
    numbers = ARANGE(
        start=first,
        step=by,
        length=_length(first, last, by, dtype),
        dtype=dtype,
        device=place(device),
    )
    return finish(numbers, requires_grad, "arange", out)


def _between(start: Any, end: Any, dtype: DType | None, out: Any) -> tuple[Any, Any, DType]:
    for x in (start, end):
        if is_tensor(x) and x.ndim:
            raise ShapeError(
                "linspace/logspace: only supports 0-dimensional start and end tensors, but got "
                f"{x.ndim} dimension(s)."
            )
    a, b = _number(start), _number(end)
    if dtype is None:
        dtype = dt.get_default_dtype() if out is None else out.dtype
        if out is None and (isinstance(a, complex) or isinstance(b, complex)):
            dtype = dtype.to_complex()
    dtype = dt.as_dtype("linspace/logspace", dtype)
    if not dtype.is_complex and (isinstance(a, complex) or isinstance(b, complex)):
        raise DTypeError(
            "linspace/logspace: inferred dtype complex can't be safely cast to passed dtype "
            f"{dtype.name}"
        )
    return a, b, dtype


def _check_steps(name: str, steps: Any) -> int:
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{name}: steps must be int, received {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, received {steps}")
    return int(steps.__index__())


def _require_ends(name: str, ends: tuple[Any, ...], steps: int, dtype: DType) -> None:
    """Refuse ends that the dtype has no room for, of as many numbers as are made."""
    if dtype is dt.bool_ and steps > 1:
        raise NotImplementedError(f"{name}: not implemented for bool")
    for end in ends[:steps]:
        for part in (end.real, end.imag) if dtype.is_complex else (end,):
            require_fit(name, part, dtype.to_real())


@public(numbers="values")
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers evenly spaced from `start` to `end`, both included.

    Example:
        >>> import adjoint as ad
        >>> ad.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    check_layout("linspace", layout)
    count = _check_steps("linspace", steps)
    a, b, kind = _between(start, end, dtype, out)
    _require_ends("linspace", (a, b), count, kind)
    numbers = LINSPACE(start=a, end=b, steps=count, dtype=kind, device=place(device))
    return finish(numbers, requires_grad, "linspace", out)


def _power(base: Any, exponent: Any) -> float:
    try:
        return float(float(base) ** float(exponent))
    except OverflowError:
        return inf


@public(numbers="values")
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`base` to the powers of `linspace`.

    Example:
        >>> import adjoint as ad
        >>> ad.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    check_layout("logspace", layout)
    count = _check_steps("logspace", steps)
    a, b, kind = _between(start, end, dtype, out)
    if count > 1:
        _require_ends("logspace", (a, b), count, kind)
    elif count and kind.category == dt.INT:  # a single power may be of a fraction
        require_fit("logspace", _power(base, a), kind)
    numbers = LOGSPACE(start=a, end=b, steps=count, base=base, dtype=kind, device=place(device))
    return finish(numbers, requires_grad, "logspace", out)


@public()
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere.

    Example:
        >>> import adjoint as ad
        >>> ad.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    check_layout("eye", layout)
    n = whole("eye", "n", n)
    columns = n if m is None else whole("eye", "m", m)
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {columns}")
    if dtype is None:
        dtype = dt.get_default_dtype() if out is None else out.dtype
    matrix = EYE(n=n, m=columns, dtype=dt.as_dtype("eye", dtype), device=place(device))
    return finish(matrix, requires_grad, "eye", out)


@method
def new_arange(self: Tensor, length: int) -> Tensor:
    """0, 1, ... length - 1 on this tensor's device (used by derivative and batching rules)."""
    length = whole("new_arange", "length", length)
    return ARANGE(start=0, step=1, length=length, dtype=dt.int64, device=self.device)


@method
def new_eye(self: Tensor, n: int) -> Tensor:
    """The identity matrix of this tensor's dtype and device (used by jacobians)."""
    return EYE(n=n, m=n, dtype=self.dtype, device=self.device)


@public(name="range")
def range_(
    start: Any = 0, end: Any = None, step: Any = 1, *, dtype: DType | None = None, **options: Any
) -> Tensor:
    """Numbers from `start` up to and including `end`, by `step`; `arange` is the usual one.

    >>> import adjoint as ad
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     ad.range(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000, 2.5000])
    """
    warn_user(
        "range is deprecated because its behavior is inconsistent with Python's range builtin: it "
        "includes `end`. Use arange."
    )
    if end is None:
        start, end = 0, start
    first, last, by = (_number(n) for n in (start, end, step))
    if by == 0:
        raise RuntimeError("range: step must be nonzero")
    if (last - first) * by < 0:
        raise RuntimeError("range: upper bound and lower bound inconsistent with step sign")
    count = int((last - first) / by) + 1
    out = arange(count, dtype=dt.float64, **options) * by + first
    return out.to(dtype or dt.get_default_dtype())
