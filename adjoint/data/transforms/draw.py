"""Random numbers for transforms, from Adjoint's default generator."""

from __future__ import annotations

from adjoint.engine.ops.random.random import rand, randint


def uniform(low: float, high: float) -> float:
    """A number between two bounds."""
    return low + (high - low) * float(rand(1).item())


def integer(low: int, high: int) -> int:
    """A whole number from `low` up to `high`, which is left out."""
    return int(randint(low, high, (1,)).item())


def chance(p: float) -> bool:
    """True with probability p."""
    return float(rand(1).item()) < p
