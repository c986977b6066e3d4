"""Whether new compressed tensors are asked for what only a look at every place tells."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class check_sparse_tensor_invariants:  # PyTorch's name
    """In a block, or throughout, places in the lines of new compressed tensors must rise.

    Shapes and bounds are checked always.

    Example:
        >>> import adjoint as ad
        >>> with ad.sparse.check_sparse_tensor_invariants():
        ...     ad.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0])
        Traceback (most recent call last):
        RuntimeError: sparse_csr_tensor: col_indices must rise within each row
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are asked."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Ask from here on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Ask no more."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *_: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run in such a block."""

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
