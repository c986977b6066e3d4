"""Operations by name, under PyTorch's inner address."""

from __future__ import annotations

from typing import Any

from adjoint.ops import OpOverload as OpOverload

OpOverloadPacket = OpOverload


class HigherOrderOperator:
    """An operation on functions, such as `cond`; has no instances here: they are functions."""

    def __init__(self, name: str, **_: Any) -> None:
        raise NotImplementedError(
            f"HigherOrderOperator({name!r}): what works on functions is a function here (cond)"
        )
