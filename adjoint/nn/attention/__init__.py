"""Which implementation attention may use, as PyTorch asks it; Adjoint has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum


class SDPBackend(IntEnum):
    """PyTorch's implementations of attention; they differ in speed and memory alone."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Choose implementations inside a `with` block; results are the same.

    Example:
        >>> import adjoint as ad
        >>> q = ad.ones(1, 1, 2, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     ad.nn.functional.scaled_dot_product_attention(q, q, q).shape
        adjoint.Size([1, 1, 2, 4])
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not given or not all(isinstance(b, SDPBackend) for b in given):
        raise TypeError(f"sdpa_kernel: expected SDPBackend or a list of them, received {backends}")
    yield
