"""The named tuples that operations with several results return.

>>> import adjoint as ad
>>> ad.return_types.sort._fields
('values', 'indices')
"""

from __future__ import annotations

from adjoint.engine.core.operations.return_types import RETURN_TYPES

__all__ = list(RETURN_TYPES)

globals().update(RETURN_TYPES)
