"""The order of products in `einsum`: chosen by Adjoint itself, without the library."""

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether the library is used: no."""
    return False
