"""The type that PyTorch raises, of one of our errors."""

from __future__ import annotations

import adjoint as ad


def builtin(error: Exception) -> type[Exception]:
    """The type of an error; of one of ours, the type that PyTorch raises."""
    ours = isinstance(error, ad.errors.AdjointError)
    kinds = (kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return next(kinds) if ours else type(error)
