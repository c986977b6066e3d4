"""Matrices of which two in four elements are kept, as tensor cores multiply them: refused."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from adjoint.engine.core.state import config


class SparseSemiStructuredTensor:
    """Refused when made: Adjoint has no such products. `to_sparse` keeps any elements."""

    _DEFAULT_ALG_ID = 0
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, Any]] = {}
    SPARSE_DISPATCH: ClassVar[dict[Any, Any]] = {}

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{config.display_name}.sparse.{cls.__name__}: Adjoint has no sparsity of two in four. "
            "Use to_sparse(), or the dense matrix."
        )

    @classmethod
    def _load_dispatch_table(cls, custom_dispatch_table: Any = None) -> None:
        """Nothing: there is no such tensor to dispatch for."""


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """Refused when made."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """Refused when made."""


def to_sparse_semi_structured(original_tensor: Any, transposed: bool = False) -> NoReturn:
    """Refused: Adjoint has no sparsity of two in four."""
    SparseSemiStructuredTensor()
