"""Named results: the tuples PyTorch gives for operations with several results.

Everything here is published as `adjoint.return_types`; operations take theirs by name,
`RETURN_TYPES["sort"](values, indices)`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from adjoint.engine.core.state import config

FIELDS = {
    "aminmax": "min max",
    "cummax": "values indices",
    "cummin": "values indices",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "kthvalue": "values indices",
    "linalg_cholesky_ex": "L info",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "lu_unpack": "P L U",
    "max": "values indices",
    "median": "values indices",
    "min": "values indices",
    "mode": "values indices",
    "nanmedian": "values indices",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "sort": "values indices",
    "svd": "U S V",
    "topk": "values indices",
    "triangular_solve": "solution cloned_coefficient",
}


def _repr(self: Any) -> str:
    """The fields one to a line, as PyTorch prints them."""
    lines = ",\n".join(f"{k}={v!r}" for k, v in zip(self._fields, self, strict=True))
    return f"{config.display_name}.return_types.{type(self).__name__}(\n{lines})"


def _new(cls: Any, *parts: Any) -> Any:
    """One tuple of all parts, as PyTorch wants it, or the parts."""
    if len(parts) == 1:
        parts = tuple(parts[0])
    if len(parts) != len(cls._fields):
        name, fields = cls.__name__, ", ".join(cls._fields)
        raise TypeError(f"{name}: expected a sequence of ({fields}), received {len(parts)} parts")
    return tuple.__new__(cls, parts)


def _declare(name: str, fields: str) -> type[Any]:
    make: Any = namedtuple  # the names come from a table, which type checkers cannot follow
    members = {"__slots__": (), "__repr__": _repr, "__new__": _new}
    members |= {"__module__": "adjoint.return_types"}
    return type(name, (make(name, fields),), members)


class _ReturnTypes(dict[str, Any]):
    """The types by name, each made when it is first asked for: to make one takes a while."""

    def __missing__(self, name: str) -> Any:
        return self.setdefault(name, _declare(name, FIELDS[name]))


RETURN_TYPES = _ReturnTypes()


def all_types() -> dict[str, Any]:
    """Every one of them."""
    return {name: RETURN_TYPES[name] for name in FIELDS}
