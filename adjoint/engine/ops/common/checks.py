"""Conditions on values: checked where the values are known, whatever the mode of execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.errors import BoundsError, LinAlgError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

complete(globals())

NUMBER = "{number}"  # stands in a message for an integer that was wrong
# Stand for the matrix of a batch and the place in it, which are told in one number.
MATRIX, PLACE = "{matrix}", "{place}"
PLACE_BITS = 16
ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (BoundsError, IndexError, LinAlgError, RuntimeError, ValueError)
}

# REQUIRE(x, condition, message, error): x, or an error where some element of the condition is
# False. `error` is a name of ERRORS, since parameters are plain data.
REQUIRE = primitive(
    "require",
    lambda x, condition, message, error="RuntimeError": x,
    lambda g: g,
    None,
    jvp=lambda tx: tx,
    batched_params=lambda params, size: params,
    native_check=True,
    rounding="exact",
    fails="values",
    fragment="device",  # where nobody waits for the GPU: it is told later (Note [late faults])
)


def require(
    x: Tensor, condition: Tensor, message: str, error: type[Exception] = RuntimeError
) -> Tensor:
    """x, provided that `condition` holds everywhere.

    Where x are integers and the condition is one for each, the message can have NUMBER for one of
    those that do not meet it.
    """
    return REQUIRE(x, condition, message=message, error=error.__name__)


FEWEST = 32  # elements that are sooner looked at as numbers
LOOKED_AT = 1 << 15  # elements up to which looking takes no longer than operations


def are_between(x: Tensor, low: float, high: float) -> bool:
    """Whether floats are seen to lie between two numbers, so that it need not be required.

    False as well where nobody may look, where there are too many, and where they do not lie row by
    row, as what `require` gives does.
    """
    array = x._array
    if array.__class__ is not ndarray or array.dtype.kind != "f" or array.size > LOOKED_AT:
        return False
    if not CONTEXT.plain or LISTENERS or not array.flags.c_contiguous:
        return False
    if array.size <= FEWEST:
        return all(low <= number <= high for number in array.reshape(-1).tolist())
    return bool(low <= array.min() and array.max() <= high)  # neither holds of NaN


def failure(message: str, error: str, number: Any = None) -> Exception:
    """What to raise: the message with the number, or with none where it is not known.

    >>> failure("f: class {number} is too large", "IndexError", 7)
    IndexError('f: class 7 is too large')
    >>> failure("f: class {number} is too large", "IndexError")
    IndexError('f: class is too large')
    >>> failure("(Batch element {matrix}): U[{place},{place}]", "ValueError", 5 << PLACE_BITS | 2)
    ValueError('(Batch element 5): U[2,2]')
    """
    if number is not None and (MATRIX in message or PLACE in message):
        matrix, place = number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1)
        message = message.replace(MATRIX, str(matrix)).replace(PLACE, str(place))
    shown = message.replace(f"{NUMBER} ", "" if number is None else f"{number} ")
    return ERRORS[error](shown.replace(NUMBER, "" if number is None else str(number)))
