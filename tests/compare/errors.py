"""The type that PyTorch raises, of one of our errors."""

from __future__ import annotations

import adjoint as ad

# A kind of ours that is of two of these is of PyTorch's type by the one that comes first.
_BUILTIN = (IndexError, TypeError, ValueError, RuntimeError)


def builtin(error: Exception) -> type[Exception]:
    """The type of an error; of one of ours, the type that PyTorch raises."""
    if not isinstance(error, ad.errors.AdjointError):
        return type(error)
    return next(kind for kind in _BUILTIN if isinstance(error, kind))
