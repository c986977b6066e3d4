"""`assert_close`: equality up to the tolerance of a dtype, with a message that finds the worst."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.layout import strided
from adjoint.engine.tensor.tensor import Tensor

# Relative and absolute tolerance by dtype; all others must be equal.
TOLERANCES = {
    dt.float16: (1e-3, 1e-5),
    dt.bfloat16: (1.6e-2, 1e-5),
    dt.float32: (1.3e-6, 1e-5),
    dt.float64: (1e-7, 1e-7),
    dt.complex64: (1.3e-6, 1e-5),
    dt.complex128: (1e-7, 1e-7),
}


@dataclass(slots=True, frozen=True)
class _Rules:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool
    msg: str | Callable[[str], str] | None

    def fail(self, text: str, where: str, kind: type[Exception] = AssertionError) -> None:
        if where:
            text += f"\n\nThe failure occurred for item {where}"
        if self.msg is not None:
            text = self.msg(text) if callable(self.msg) else self.msg
        raise kind(text)

    def tolerances(self, *dtypes: dt.DType) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in known), max(a for _, a in known)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    r"""Raise AssertionError unless two values agree.

    .. math:: |actual - expected| \le atol + rtol \cdot |expected|

    Tensors, arrays, numbers, and sequences and mappings of them; dtypes, devices and shapes must
    agree too.

    Args:
        actual: the value to look at.
        expected: what it should be.
        allow_subclasses: accept different types, one of them a subclass of the other.
        rtol: relative tolerance; by dtype unless both are given.
        atol: absolute tolerance; by dtype unless both are given.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must agree.
        check_dtype: whether dtypes must agree.
        check_layout: whether layouts must agree.
        check_stride: whether strides must agree.
        msg: the message instead, or a function that makes it of the usual one.

    Example:
        >>> import adjoint as ad
        >>> assert_close(ad.ones(2), ad.tensor([1.0, 1.0 + 1e-7]))
        >>> assert_close(ad.ones(2), ad.zeros(2))
        Traceback (most recent call last):
        ...
        AssertionError: Tensor-likes are not close!
        <BLANKLINE>
        Mismatched elements: 2 / 2 (100.0%)
        Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)
        Greatest relative difference: inf at index (0,) (up to 1.3e-06 allowed)
    """
    if (rtol is None) != (atol is None):
        given, other = ("rtol", "atol") if atol is None else ("atol", "rtol")
        raise ValueError(f"assert_close: {given} is given but {other} is not; pass both or none")
    rules = _Rules(
        rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride,
        allow_subclasses, msg,
    )  # fmt: skip
    _compare(actual, expected, rules, "")


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` as it was called before: dtypes, devices and kinds may differ."""
    assert_close(
        as_tensor(actual), as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan,
        check_device=False, check_dtype=False, msg=msg or None,
    )  # fmt: skip


def _compare(actual: Any, expected: Any, rules: _Rules, where: str) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing = sorted(set(expected) - set(actual), key=str)
            extra = sorted(set(actual) - set(expected), key=str)
            rules.fail(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {extra}",
                where,
            )
        for key in expected:
            _compare(actual[key], expected[key], rules, f"{where}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            rules.fail(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where
            )
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            _compare(one, other, rules, f"{where}[{i}]")
    elif actual is None or expected is None or isinstance(expected, str):
        if actual != expected:
            rules.fail(f"{actual!r} and {expected!r} are not equal", where)
    elif _is_number(actual) and _is_number(expected):
        _tensors(_as_tensor(actual), _as_tensor(expected), rules, where, "Scalars")
    else:
        _check_kinds(actual, expected, rules, where)
        _tensors(_as_tensor(actual), _as_tensor(expected), rules, where, "Tensor-likes")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.number, np.bool_))


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, float):
        return as_tensor(value, dtype=dt.float64)
    if isinstance(value, complex):
        return as_tensor(value, dtype=dt.complex128)
    return as_tensor(value)


def _check_kinds(actual: Any, expected: Any, rules: _Rules, where: str) -> None:
    for value in (actual, expected):
        if not isinstance(value, (Tensor, np.ndarray)) and not _is_number(value):
            rules.fail(
                f"assert_close: no comparison of {type(actual).__name__} and "
                f"{type(expected).__name__}. Pass tensors, arrays, numbers or containers of them.",
                where,
                TypeError,
            )
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not related or (type(actual) is not type(expected) and not rules.allow_subclasses):
        rules.fail(
            f"assert_close: no comparison of {type(actual)} and {type(expected)}", where, TypeError
        )


def _tensors(actual: Tensor, expected: Tensor, rules: _Rules, where: str, kind: str) -> None:
    if actual.shape != expected.shape:
        rules.fail(
            f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.",
            where,
        )
    if not (actual.layout is expected.layout is strided):
        _sparse(actual, expected, rules, where)
        return
    checked = (
        ("device", rules.check_device, actual.device, expected.device),
        ("dtype", rules.check_dtype and kind != "Scalars", actual.dtype, expected.dtype),
        ("stride()", rules.check_stride, actual.stride(), expected.stride()),
    )
    for name, wanted, one, other in checked:
        if wanted and one != other:
            rules.fail(f"The values for attribute {name!r} do not match: {one} != {other}.", where)
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    a, b = (_wide(x) for x in (actual, expected))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        same = a == b
        if rules.equal_nan:
            same |= np.isnan(a) & np.isnan(b)
        distance = np.abs(a - b)
        close = same | (np.isfinite(b) & (distance <= atol + rtol * np.abs(b)))
        if not close.all():
            relative = distance / np.abs(b)
            _report(close, distance, relative, (rtol, atol), rules, where, kind)


def _sparse(actual: Any, expected: Any, rules: _Rules, where: str) -> None:
    """Tensors of which one at least is sparse: by parts, or as dense ones if layouts differ."""
    if actual.layout is not expected.layout:
        if rules.check_layout:
            rules.fail(
                "The values for attribute 'layout' do not match: "
                f"{actual.layout} != {expected.layout}.",
                where,
            )
        _tensors(actual.to_dense(), expected.to_dense(), rules, where, "Tensors")
        return
    actual, expected = actual.coalesce(), expected.coalesce()
    if actual._nnz() != expected._nnz():
        rules.fail(
            "The number of specified values in sparse tensors does not match: "
            f"{actual._nnz()} != {expected._nnz()}",
            where,
        )
    for one, other in zip(actual.tensors(), expected.tensors(), strict=True):
        _tensors(one, other, rules, where, "Tensors")


def _wide(x: Tensor) -> Any:
    array = x.detach().cpu().resolve_conj()
    if x.dtype.is_complex:
        return np.asarray(array.to(dt.complex128).numpy())
    if x.dtype.is_floating_point:
        return np.asarray(array.to(dt.float64).numpy())
    return np.asarray(array.to(dt.int64).numpy())


def _report(
    close: Any, distance: Any, relative: Any, tolerances: tuple[float, float],
    rules: _Rules, where: str, kind: str,
) -> None:  # fmt: skip
    rtol, atol = tolerances
    if kind == "Scalars":
        rules.fail(
            f"Scalars are not close!\n\nAbsolute difference: {float(distance)} "
            f"(up to {atol} allowed)\nRelative difference: {float(relative)} "
            f"(up to {rtol} allowed)",
            where,
        )
    lines = []
    for name, measure, allowed in (
        ("absolute", distance, atol),
        ("relative", relative, rtol),
    ):
        shown = np.where(close, -1.0, np.where(np.isnan(measure), np.inf, measure))
        index = np.unravel_index(int(shown.argmax()), shown.shape)
        place = tuple(int(i) for i in index)
        value = float(measure[index])
        lines.append(f"Greatest {name} difference: {value} at index {place} "
                     f"(up to {allowed} allowed)")  # fmt: skip
    wrong, total = int((~close).sum()), close.size
    equal = " equal" if tolerances == (0.0, 0.0) else " close"
    rules.fail(
        f"{kind} are not{equal}!\n\nMismatched elements: {wrong} / {total} "
        f"({100 * wrong / total:.1f}%)\n" + "\n".join(lines),
        where,
    )
