"""The class that carries Tensor's derived methods.

They are put on it by `tensor.install` from the public table; `methods.pyi` lists them for tools.
"""

from __future__ import annotations

from adjoint.engine.core.value import TensorBase


class TensorMethods(TensorBase):
    """Base of Tensor: every published method, in-place form and property."""

    __slots__ = ()
