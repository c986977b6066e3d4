"""The named tuples that operations with several results return.

>>> import adjoint as ad
>>> ad.return_types.sort._fields
('values', 'indices')
"""

from __future__ import annotations

from adjoint.engine.core.operations.return_types import all_types

_TYPES = all_types()
__all__ = list(_TYPES)

globals().update(_TYPES)
