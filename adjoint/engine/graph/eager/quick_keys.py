"""Keys of operations that take little to make.

Note [quick keys]
    A kind of fragment is decided by all that a recording may look at (Note [fragments]). To write
    that down takes longer than a launch, or than sorting a thousand numbers, so fragments are also
    kept under a key that is put together in one go: numbers with their types, arrays by dtype,
    shape and strides, a GPU's by alignment and device too. What such a key cannot tell apart safely
    (graphs, dicts, complex numbers) has none, and goes the long way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy import ndarray

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.value import TensorBase

PLAIN = frozenset({int, bool, str, type(None), DType, Device})  # equal ones of a type are alike


def given_kind(record: Record) -> type:
    """The type of numbers that a record's fragments are given at each call; `Ellipsis`: of none.

    Floats may differ at each call (an optimizer's corrections); those of functions stay, since
    much depends on them (the exponent of a power). So may the seed and the place of a draw.
    """
    if record.draws or record.given_a_draw:
        return int
    is_open = record.family == "elementwise" and record.cost != "function"
    return float if is_open or record.given_floats else type(Ellipsis)


def add_values(key: list[Any], values: Iterable[Any]) -> bool:
    """Add literals or parameters to a key; False: there is no quick one."""
    for x in values:
        kind = type(x)  # a host's number says it is of another class
        if kind in PLAIN:
            key.append(kind)
            key.append(x)
        elif kind is float:
            key.append(kind)
            key.append(x if x and x == x else repr(x))
        elif kind is tuple:
            for item in x:
                if item.__class__ is not int:
                    key.append((len(x),))
                    if not add_values(key, x):
                        return False
                    break
            else:
                key.append(x)
        else:
            return False
    return True


def add_params(key: list[Any], params: dict[str, Any]) -> bool:
    """Add parameters by name to a key; False: there is no quick one."""
    key.append((*params,))
    return add_values(key, params.values())


def add_operands(
    key: list[Any],
    operands: Iterable[Any],
    given: type,
    tensors: list[Any],
    numbers: list[Any],
) -> bool:
    """Add operands to a key, and sort them; False: there is no quick one."""
    for x in operands:
        if isinstance(x, TensorBase):
            array = x._array
            if array.__class__ is ndarray:
                key += (array.dtype, array.shape, array.strides)
            elif array.__class__ in DEVICE_LAYOUTS:
                data = array.data
                key += (array.dtype, array.shape, array.strides, data.ptr & 63 != 0, data.device_id)
            else:
                return False
            tensors.append(x)
        elif type(x) is given:
            key.append(given)
            numbers.append(x)
        elif not add_values(key, (x,)):
            return False
    if len(tensors) == 2:
        key.append(tensors[0] is tensors[1])
    elif len(tensors) > 2:
        names = [*map(id, tensors)]
        key += map(names.index, names)
    return True
