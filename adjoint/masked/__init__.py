"""Reductions and normalisations in which a mask says which elements count; masked tensors."""

from __future__ import annotations

from typing import Any

from adjoint.engine import assembly as _assembly
from adjoint.engine.core.state.loading import lacking as _lacking

globals().update(_assembly.namespace("masked"))

# Loaded when one of them is read: few programs have masked tensors.
_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __getattr__(name: str) -> Any:
    if name in _TENSORS:
        from adjoint.masked import tensor

        return getattr(tensor, name)
    raise _lacking(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_TENSORS})
