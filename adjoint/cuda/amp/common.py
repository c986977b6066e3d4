"""Whether mixed precision on a GPU can be used at all."""

from adjoint.engine.backends.array.gpu import cuda


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU to compute on."""
    return not cuda.is_available()
