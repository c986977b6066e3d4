"""Printing tensors as PyTorch does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core import html
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.ownership import is_own
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.settings import SETTINGS, AmbientSetting, consult
from adjoint.engine.tensor.meta import is_meta
from adjoint.engine.tensor.reading.item import unknown
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor


@dataclass(slots=True)
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()
_SETTING = "print options"
_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


@public()
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print: digits, how many elements before eliding, line width.

    >>> import adjoint as ad
    >>> ad.set_printoptions(precision=2)
    >>> ad.tensor([0.123456])
    tensor([0.12])
    >>> ad.set_printoptions(profile="default")
    """
    consult(_SETTING)
    if profile is not None:
        chosen = _PROFILES[profile]
        for name in ("precision", "threshold", "edgeitems", "linewidth"):
            setattr(OPTIONS, name, getattr(chosen, name))
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def _put_back(options: PrintOptions) -> None:
    for field in fields(options):
        setattr(OPTIONS, field.name, getattr(options, field.name))


SETTINGS[_SETTING] = AmbientSetting(lambda: replace(OPTIONS), _put_back)


class _Formatter:
    """One width and notation for all elements shown."""

    def __init__(self, values: list[Any], *, floating: bool) -> None:
        self.floating = floating
        self.integral = True
        self.scientific = False
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
        if not finite:
            return
        self.integral = all(v == math.ceil(v) for v in finite)
        high, low = max(finite), min(finite)
        self.scientific = high / low > 1000 or high > 1e8 or (not self.integral and low < 1e-4)
        if OPTIONS.sci_mode is not None:
            self.scientific = OPTIONS.sci_mode
        shown = (v for v in values if math.isfinite(v) and v != 0)
        self.width = max(1, *(len(self._number(v)) for v in shown))

    def _number(self, v: float) -> str:
        if self.scientific:
            return f"{v:.{OPTIONS.precision}e}"
        if self.integral:
            return f"{v:.0f}" + ("." if math.isfinite(v) else "")
        return f"{v:.{OPTIONS.precision}f}"

    def __call__(self, v: Any) -> str:
        text = self._number(v) if self.floating else str(v)
        return text.rjust(self.width)


class _ComplexFormatter:
    """A formatter for each part."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Formatter([v.real for v in values], floating=True)
        self.imag = _Formatter([v.imag for v in values], floating=True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v: complex) -> str:
        sign = "-" if v.imag < 0 or str(v.imag).startswith("-") else "+"
        return f"{self.real(v.real)}{sign}{self.imag(abs(v.imag)).strip()}j"


Formatter = _Formatter | _ComplexFormatter


def _edges(n: int, elide: bool) -> list[int | None]:
    """The positions shown along a dimension; None for the dots."""
    edge = OPTIONS.edgeitems
    if elide and n > 2 * edge:
        return [*range(edge), None, *range(n - edge, n)]
    return list(range(n))


def _leaves(nested: Any, elide: bool) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    shown = [nested[i] for i in _edges(len(nested), elide) if i is not None]
    return [leaf for item in shown for leaf in _leaves(item, elide)]


def _vector(values: list[Any], indent: int, elide: bool, fmt: Formatter) -> str:
    per_line = max(1, (OPTIONS.linewidth - indent) // (fmt.width + 2))
    items = [" ..." if i is None else fmt(values[i]) for i in _edges(len(values), elide)]
    lines = [items[i : i + per_line] for i in range(0, len(items), per_line)] or [[]]
    return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"


def _nested(nested: Any, depth: int, indent: int, elide: bool, fmt: Formatter) -> str:
    if depth == 0:
        return fmt(nested)
    if depth == 1:
        return _vector(nested, indent, elide, fmt)
    parts = [
        "..." if i is None else _nested(nested[i], depth - 1, indent + 1, elide, fmt)
        for i in _edges(len(nested), elide)
    ]
    return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(parts) + "]"


def _elements(tensor: Tensor, indent: int) -> str:
    nested = HOOKS.array.to_list(tensor)
    elide = tensor._array.size > OPTIONS.threshold
    values = _leaves(nested, elide)
    fmt: Formatter
    if tensor.dtype.is_complex:
        fmt = _ComplexFormatter(values)
    else:
        fmt = _Formatter(values, floating=tensor.dtype.is_floating_point)
    return _nested(nested, tensor.ndim, indent, elide, fmt)


def _suffixes(tensor: Tensor) -> list[str]:
    remarks: list[str] = []
    default = dt.get_default_dtype()
    plain = tensor.dtype in (default, dt.int64, dt.bool_, default.to_complex())
    empty = tensor._array.size == 0
    if tensor.device.type != "cpu":
        remarks.append(f"device='{tensor.device}'")
    meta = tensor.is_meta
    if meta or (empty and tensor.ndim != 1):
        remarks.append(f"size={tuple(tensor.shape)}")
    if (tensor.dtype is not default) if empty or meta else not plain:
        remarks.append(f"dtype={tensor.dtype}")
    return remarks + tape_remarks(tensor)


def tape_remarks(tensor: Tensor) -> list[str]:
    """What is said of a tensor's place on the tape."""
    node = tensor.grad_fn
    if node is not None:
        return [f"grad_fn=<{node.name()}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def to_string(tensor: Tensor, prefix: str = "tensor(", remarks: Sequence[str] = ()) -> str:
    """The tensor as PyTorch prints it; `remarks` come last."""
    if is_meta(tensor):
        return with_suffixes(f"{prefix}...", _suffixes(tensor), len(prefix)) + ")"
    if CONTEXT.capture is not None and CONTEXT.capture.observed:  # options may change until then
        raise unknown(tensor, "repr", "Print the tensor itself, or return it and print it outside.")
    if type(tensor._array) is Window:
        return f"{prefix}<{tensor._spec}, a traced value>)"
    indent = len(prefix)
    suffixes = [*_suffixes(tensor), *remarks]
    return with_suffixes(prefix + body_of(tensor, indent), suffixes, indent) + ")"


def _called(tensor: Tensor) -> str:
    """What a tensor is called: a class of its own by its name."""
    kind = type(tensor)
    plain = kind is Tensor or is_own(kind)
    return "tensor" if plain else kind.__name__


def body_of(tensor: Tensor, indent: int) -> str:
    """The elements alone, in brackets."""
    return "[]" if tensor._array.size == 0 else _elements(tensor, indent)


def with_suffixes(text: str, suffixes: list[str], indent: int, *, apart: bool = False) -> str:
    """Text followed by remarks, on a new line where one does not fit, or all `apart`."""
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if apart or last + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
            apart = False
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text


def format_tensor(self: Tensor, spec: str) -> str:
    """f"{x:.3f}" formats a single number, which must be known; otherwise the tensor prints."""
    concrete = type(self._array) is not Window
    if self.ndim == 0 and (concrete or spec) and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def to_html(tensor: Tensor) -> str:
    """What a notebook shows: a table for small matrices, else the text."""
    about = f"{tensor._spec}" + (", requires grad" if tensor.requires_grad else "")
    small = tensor.ndim == 2 and max(tensor.shape) <= 12 and 0 not in tensor.shape
    if small and tensor.device.type == "cpu" and type(tensor._array) is not Window:
        rows = [[f"{x:.4g}" if isinstance(x, float) else x for x in r] for r in tensor.tolist()]
        body = html.table([str(j) for j in range(tensor.shape[1])], rows)
        return f"<div><small>{html.escape(about)}</small>{body}</div>"
    return f"<div><small>{html.escape(about)}</small>{html.code(to_string(tensor))}</div>"


def install_printing() -> None:
    """Put printing on Tensor."""
    setattr(Tensor, "__repr__", lambda self: to_string(self, f"{_called(self)}("))  # noqa: B010
    setattr(Tensor, "_repr_html_", to_html)  # noqa: B010
    setattr(Tensor, "__format__", format_tensor)  # noqa: B010
