"""What operations are made of, as programs tell PyTorch's compiler.

Adjoint's follows an operation's own function into its parts, so that nothing depends on these: the
tables hold what programs put there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]
KINDS = ("post_autograd", "pre_autograd", "meta")
global_decomposition_table: dict[str, dict[Any, Callable[..., Any]]] = {kind: {} for kind in KINDS}
decomposition_table = global_decomposition_table["post_autograd"]


def _table(kind: str) -> dict[Any, Callable[..., Any]]:
    if kind not in KINDS:
        raise AssertionError(f"type must be one of {set(KINDS)}, got {kind!r}")
    return global_decomposition_table[kind]


def register_decomposition(
    aten_op: Any, registry: dict[Any, Any] | None = None, *, type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Any], Any]:  # fmt: skip
    """Note a function that does what operations do.

    Args:
        aten_op: an operation, or several.
        registry: the table it is noted in, where it is not one of these.
        type: which table: "post_autograd", "pre_autograd" or "meta".
        unsafe: accepted as PyTorch has it.
    """
    table = _table(type) if registry is None else registry

    def noted(fn: Any) -> Any:
        for op in aten_op if isinstance(aten_op, (list, tuple)) else [aten_op]:
            table[op] = fn
        return fn

    return noted


def get_decompositions(
    aten_ops: Iterable[Any], type: str = "post_autograd"
) -> dict[Any, Callable[..., Any]]:
    """Those of some operations that have been noted.

    >>> get_decompositions(["no such operation"])
    {}
    """
    table = _table(type)
    return {op: table[op] for op in aten_ops if op in table}


def remove_decompositions(
    decompositions: dict[Any, Callable[..., Any]], aten_ops: Iterable[Any]
) -> None:
    """Take those of some operations out of a table."""
    for op in aten_ops:
        decompositions.pop(op, None)


def core_aten_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """What PyTorch's exports are decomposed into: of Adjoint's graphs nothing is, see `export`."""
    return dict(decomposition_table)
