"""Seeding and saving the default generators: manual_seed, fork_rng and their kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.state.rng import (
    Generator,
    default_generator,
    default_generator_of,
    defaults,
    seed_all,
)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator of every device; returns the CPU's.

    >>> manual_seed(3).initial_seed()
    3
    """
    return seed_all(seed)


def seed() -> int:
    """Seed every default generator from the operating system, and return the seed."""
    value = default_generator.seed()
    seed_all(value)
    return value


def initial_seed() -> int:
    """The seed of the CPU's default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the CPU's default generator, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Return the CPU's default generator to a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """Give the default generators back their state when the block ends."""
    if not enabled:
        yield
        return
    if devices is None:
        others = [d for d in defaults() if d.type == device_type]
    else:
        others = [Device(device_type, d) if isinstance(d, int) else Device(d) for d in devices]
    generators = [default_generator, *(default_generator_of(d) for d in others)]
    states = [g.clone_state() for g in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.graphsafe_set_state(state)


__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
