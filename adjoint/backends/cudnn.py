"""`backends.cudnn`: the switches programs set. Results are deterministic whatever they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether operations run through cuDNN; they do not."""
    return False


def version() -> int | None:
    """cuDNN's version where it is used: None."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Set the switches inside a `with` block."""
    scope = globals()
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    before = {name: scope[name] for name in names}
    scope.update(
        enabled=enabled, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32
    )
    try:
        yield
    finally:
        scope.update(before)
