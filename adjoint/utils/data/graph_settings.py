"""Settings for every data pipe of a chain: whether it shuffles, its part of the data, its seed."""

from __future__ import annotations

from typing import Any

from adjoint.data.sampler import random_seed
from adjoint.engine.core.state.rng import Generator
from adjoint.utils.data.graph import DataPipeGraph, traverse_dps

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """Every pipe of a graph, once."""
    pipes: dict[int, Any] = {}
    for name, (pipe, below) in graph.items():
        pipes[name] = pipe
        pipes.update({id(inner): inner for inner in get_all_graph_pipes(below)})
    return list(pipes.values())


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None
) -> Any:
    """Have the pipes that divide the data keep one part of it."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if hasattr(pipe, "apply_sharding"):
            pipe.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the pipes that shuffle on or off; None leaves them."""
    if shuffle is not None:
        for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
            if hasattr(pipe, "set_shuffle") and hasattr(pipe, "set_seed"):
                pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Generator | int) -> Any:
    """Give each pipe that draws numbers a seed of its own."""
    drawn = rng if isinstance(rng, Generator) else Generator().manual_seed(int(rng))
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if hasattr(pipe, "set_seed"):
            pipe.set_seed(random_seed(drawn))
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Generator) -> Any:
    """The same, under its older name."""
    return apply_random_seed(datapipe, rng)
