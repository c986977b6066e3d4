"""How values of several processes become one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class RedOpType(Enum):
    """The kinds of reduction."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
    PREMUL_SUM = "premul_sum"


@dataclass(frozen=True, slots=True)
class PremulSum:
    """A sum of values that are multiplied by a factor first."""

    factor: Any
    value: str = "premul_sum"


class ReduceOp:
    """How values of several processes become one: `ReduceOp.SUM`, `AVG`, `MIN`, ...

    AVG is of floating-point and complex values, BAND, BOR and BXOR of integers and booleans. NaN
    among the values of MIN or MAX is the result, on every process.
    """

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    def __new__(cls, op: Any = RedOpType.SUM) -> Any:
        return kind_of(op)


def _make_nccl_premul_sum(factor: Any) -> PremulSum:
    """The sum of values multiplied by a factor."""
    return PremulSum(factor)


def kind_of(op: Any) -> Any:
    """A reduction as engines know it, from what a program passes."""
    if isinstance(op, (RedOpType, PremulSum)):
        return op
    if isinstance(op, str):
        lowered = op.lower()
        if lowered in _BY_NAME:
            return _BY_NAME[lowered]
    raise ValueError(
        f"ReduceOp: expected one of {', '.join(m.name for m in RedOpType)}, received {op!r}"
    )


_BY_NAME = {m.value: m for m in RedOpType} | {"mean": RedOpType.AVG, "prod": RedOpType.PRODUCT}
