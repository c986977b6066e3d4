"""From operand dtypes to the dtype computed in and the dtype returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.spec import Spec


def _float(common: DType) -> DType:
    return common if common.category >= dt.FLOAT else dt.get_default_dtype()


# kind -> (common dtype -> dtype computed in, common dtype -> result dtype)
KINDS: dict[str, tuple[Callable[[DType], DType], Callable[[DType], DType]]] = {
    "same": (lambda c: c, lambda c: c),
    "float": (_float, _float),
    "compare": (lambda c: c, lambda _: dt.bool_),
    "logical": (lambda c: c, lambda _: dt.bool_),
    "real": (lambda c: c, lambda c: c.to_real()),
    "real_float": (_float, lambda c: _float(c).to_real()),
    "complex": (lambda c: c, lambda c: c.to_complex()),
    "exact": (lambda c: c, lambda c: c),  # "same", and halves are not widened to compute
}


def common_dtype(operands: Iterable[Any]) -> DType:
    """PyTorch's result type of specs (or anything with dtype and shape) and Python scalars."""
    dims: list[DType] = []
    zeros: list[DType] = []
    scalars: list[DType] = []
    for x in operands:
        if isinstance(x, (bool, int, float, complex)):  # the host's count as what they hold now
            scalars.append(dt.of_scalar(x))
        else:
            (dims if len(x.shape) else zeros).append(x.dtype)
    if dims and not zeros and not scalars and dims.count(dims[0]) == len(dims):
        return dims[0]
    return dt.join(dims, zeros, scalars)


def promote(kind: str, operands: Iterable[Any]) -> tuple[DType, DType]:
    """(dtype computed in, dtype of the result) for an operation of the given kind."""
    compute, result = KINDS[kind]
    common = common_dtype(operands)
    return compute(common), result(common)


def check_whole_numbers(kind: str | None, operands: Iterable[Any]) -> None:
    """Refuse whole numbers that 64 bits do not hold, where integers are computed with.

    Eager execution refuses them when it converts them; native code would drop their upper digits.
    """
    given = list(operands)
    if kind is None or all(type(x) is not int or -(2**63) <= x < 2**64 for x in given):
        return
    if promote(kind, given)[0].category < dt.FLOAT:
        raise OverflowError("Python int too large to convert to C long")


def specs_of(operands: Iterable[Any]) -> list[Spec]:
    """The specs among operands, leaving scalars out."""
    return [x for x in operands if isinstance(x, Spec)]
