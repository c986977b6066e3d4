"""The order of products in `einsum`: chosen by Adjoint itself, without the library."""

from __future__ import annotations

from adjoint.engine.core.state.switches import route


def is_available() -> bool:
    """Whether the library is used: no."""
    return False


route(__name__)
