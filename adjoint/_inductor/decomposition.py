"""How operations of one's own are made of others, as programs tell PyTorch's compiler.

Adjoint's follows an operation's own function into its parts, so that nothing depends on these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

decompositions: dict[Any, Callable[..., Any]] = {}


def register_decomposition(ops: Any) -> Callable[[Any], Any]:
    """Note a function that does what operations do."""

    def noted(function: Any) -> Any:
        for op in ops if isinstance(ops, (list, tuple)) else [ops]:
            decompositions[op] = function
        return function

    return noted
