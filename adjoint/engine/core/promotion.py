"""From operand dtypes to the dtype computed in and the dtype returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
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

NUMBERS = (bool, int, float, complex)


def common_dtype(operands: Iterable[Any]) -> DType:
    """PyTorch's result type of specs (or anything with dtype and shape) and Python scalars."""
    dims: list[DType] = []
    zeros: list[DType] = []
    scalars: list[DType] = []
    for x in operands:
        if isinstance(x, NUMBERS):  # the host's count as what they hold now
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


def is_word(number: int) -> bool:
    """Whether 64 bits hold a whole number, with a sign or without one.

    >>> is_word(2**64 - 1), is_word(2**64), is_word(-(2**63)), is_word(-(2**63) - 1)
    (True, False, True, False)
    """
    return -(2**63) <= number < 2**64


def check_whole_numbers(kind: str | None, operands: Iterable[Any]) -> None:
    """Refuse whole numbers that PyTorch refuses beside tensors like these.

    Those that 64 bits do not hold, and those of 2**63 and more where they alone are integers: with
    the sign that an integer tensor has, they would be others.
    """
    given = list(operands)
    large = [x for x in given if type(x) is int and not -(2**63) <= x < 2**63]
    if kind is None or not large:
        return
    for number in large:
        if not is_word(number):
            raise OverflowError(
                f"a whole number of 64 bits is expected, received {number}. Give a float."
            )
    kinds = [dt.of_scalar(x) if isinstance(x, NUMBERS) else x.dtype for x in given]
    if all(isinstance(x, (bool, int)) or k is dt.bool_ for x, k in zip(given, kinds, strict=True)):
        raise DTypeError(
            f"{large[0]} is no number of int64, the dtype that bool and a whole number have. "
            "Convert the tensor first: x.to(float32)."
        )


def specs_of(operands: Iterable[Any]) -> list[Spec]:
    """The specs among operands, leaving scalars out."""
    return [x for x in operands if isinstance(x, Spec)]
