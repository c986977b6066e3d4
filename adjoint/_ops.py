"""Operations by name, under PyTorch's inner address."""

from __future__ import annotations

from typing import Any

from adjoint.ops import OpOverload as OpOverload

OpOverloadPacket = OpOverload


class HigherOrderOperator:
    """An operation on functions, such as `cond`: may be named and inherited from, not called.

    What works on functions is a function here.
    """

    def __init__(self, name: str, **_: Any) -> None:
        self.__name__ = name

    def name(self) -> str:
        """The name it was given."""
        return self.__name__

    def py_impl(self, key: Any) -> Any:
        """Takes a function for one kind of tensors, which nothing here calls."""
        return lambda function: function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused."""
        raise NotImplementedError(
            f"HigherOrderOperator({self.__name__!r}): what works on functions is a function here "
            "(cond)"
        )
