"""Where an epoch stands: what a checkpoint needs so that a resumed one continues exactly.

Note [resuming an epoch]
    The order of an epoch follows from the generators at its start. A position keeps their states
    then, and counts the batches given out since. To resume, the generators go back to the start,
    the order is drawn again, as many batches are skipped, and the default generator returns to
    where the checkpoint left it. Nothing is fetched for the batches skipped, except of a stream.
    Samplers and streams that others wrote may draw from Python's and NumPy's generators, which
    are then part of it. One that has a generator of its own has to have `state_dict`, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.data.dataset import is_stream
from adjoint.data.sampler import (
    BatchSampler,
    DistributedSampler,
    Endless,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from adjoint.engine.backends.array.host_random import host_state, set_host_state
from adjoint.engine.core.state.rng import Generator, default_generator

State = dict[str, list[int]]
# What draws from Adjoint's generators alone, or not at all.
OWN = (
    BatchSampler, DistributedSampler, Endless, RandomSampler, SequentialSampler,
    SubsetRandomSampler, WeightedRandomSampler, list, range, tuple,
)  # fmt: skip


@dataclass(slots=True)
class Position:
    """The states at the start of an epoch, and how many batches have been given out."""

    start: State = field(default_factory=dict)
    samplers: dict[str, Any] = field(default_factory=dict)
    batches: int = 0
    finished: bool = False
    host: dict[str, Any] | None = None  # the states of Python's and NumPy's generators


def samplers_of(loader: Any) -> dict[str, Any]:
    """The loader's samplers by name, nested ones included."""
    samplers: dict[str, Any] = {"sampler": loader.sampler}
    batches = loader.batch_sampler
    if batches is not None:
        samplers["batch_sampler"] = batches
        inner = getattr(batches, "sampler", None)
        if inner is not None and inner is not loader.sampler:
            samplers["batch_sampler.sampler"] = inner
    return samplers


def generators_of(loader: Any) -> dict[str, Generator]:
    """The generators the loader's order depends on."""
    generators = {"loader": loader.generator}
    generators |= {name: getattr(s, "generator", None) for name, s in samplers_of(loader).items()}
    own = {name: g for name, g in generators.items() if isinstance(g, Generator)}
    return {"default": default_generator} | own


def draws_elsewhere(loader: Any) -> bool:
    """Whether the order may follow from Python's and NumPy's generators."""
    if is_stream(loader.dataset) and not loader.num_workers:
        return True
    met: list[Any] = list(samplers_of(loader).values())
    for sampler in met:
        inner = getattr(sampler, "sampler", None)
        if inner is not None and not any(inner is other for other in met):
            met.append(inner)
    return any(type(sampler) not in OWN for sampler in met)


def states_now(loader: Any) -> tuple[State, dict[str, Any] | None]:
    """Those of the default generator, and of Python's and NumPy's where they matter."""
    host = host_state() if draws_elsewhere(loader) else None
    return read({"default": default_generator}), host


def return_to(states: tuple[State, dict[str, Any] | None]) -> None:
    """Put back what `states_now` gave."""
    write({"default": default_generator}, states[0])
    if states[1] is not None:
        set_host_state(states[1])


def read(generators: dict[str, Generator]) -> State:
    """Seed and offset of each generator."""
    return {name: [g.initial_seed(), g.get_offset()] for name, g in generators.items()}


def write(generators: dict[str, Generator], state: State) -> None:
    """Move generators to states that `read` gave."""
    for name, generator in generators.items():
        if name in state:
            seed, offset = state[name]
            generator.manual_seed(seed)
            generator.set_offset(offset)


def sampler_states(loader: Any) -> dict[str, Any]:
    """The states of samplers that have one, such as DistributedSampler's epoch."""
    return {
        name: sampler.state_dict()
        for name, sampler in samplers_of(loader).items()
        if hasattr(sampler, "state_dict")
    }


def restore_samplers(loader: Any, states: dict[str, Any]) -> None:
    """Return samplers to states that `sampler_states` gave."""
    for name, sampler in samplers_of(loader).items():
        if name in states and hasattr(sampler, "load_state_dict"):
            sampler.load_state_dict(states[name])
