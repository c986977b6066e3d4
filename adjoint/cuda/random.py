"""Seeding and saving the default generators of CUDA devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import device_count
from adjoint.engine.core.device import Device
from adjoint.engine.core.state.rng import Generator, default_generator_of


def _generator(device: Any = "cuda") -> Generator:
    return default_generator_of(Device(device))


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    for i in range(max(device_count(), 1)):
        _generator(i).manual_seed(seed)


def seed() -> None:
    """Seed the current device's generator from the operating system."""
    _generator().seed()


def seed_all() -> None:
    """Seed every device's generator from the operating system, alike."""
    manual_seed_all(_generator().seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a device's generator, as a uint8 tensor."""
    return _generator(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Return a device's generator to a state that `get_rng_state` gave."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of all devices' generators."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Return all devices' generators to given states."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
