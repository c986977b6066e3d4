"""Made-up datasets for trying things out: points, curves, sequences."""

from __future__ import annotations

import math
from typing import Any

from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.random.random import rand, randint, randn, randperm
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor


def _shuffled(x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    order = randperm(len(x), generator=generator)
    return x[order], y[order]


def two_moons(
    n: int = 200, noise: float = 0.1, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Two half circles that reach into each other: points (n, 2) and classes (n,).

    Example:
        >>> points, classes = two_moons(10)
        >>> points.shape, int(classes.sum())
        (adjoint.Size([10, 2]), 5)
    """
    outer = rand(n - n // 2, generator=generator) * math.pi
    inner = rand(n // 2, generator=generator) * math.pi
    first = stack([outer.cos(), outer.sin()], 1)
    second = stack([1 - inner.cos(), 0.5 - inner.sin()], 1)
    x = cat([first, second]) + noise * randn(n, 2, generator=generator)
    y = cat([outer.new_zeros(len(outer)), inner.new_ones(len(inner))]).long()
    return _shuffled(x, y, generator)


def spirals(
    n: int = 300,
    classes: int = 3,
    noise: float = 0.1,
    turns: float = 0.75,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Arms of a spiral, one per class: points (n, 2) and classes (n,).

    Example:
        >>> points, arms = spirals(9)
        >>> arms.sort().values
        tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    """
    radius = rand(n, generator=generator)
    y = (radius.new_zeros(n).long() + 1).cumsum(0).sub(1).remainder(classes)
    angle = 2 * math.pi * (turns * radius + y / classes)
    angle = angle + noise * randn(n, generator=generator)
    return _shuffled(stack([radius * angle.cos(), radius * angle.sin()], 1), y, generator)


def regression(
    n: int = 200,
    features: int = 5,
    noise: float = 0.1,
    targets: int = 1,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A linear relation with noise: inputs (n, features), targets (n, targets), and the weights.

    Example:
        >>> x, y, w = regression(4, 2, noise=0.0)
        >>> bool((x @ w - y).abs().max() < 1e-6)
        True
    """
    x = randn(n, features, generator=generator)
    weights = randn(features, targets, generator=generator)
    return x, x @ weights + noise * randn(n, targets, generator=generator), weights


def sine_waves(
    n: int = 100, length: int = 50, noise: float = 0.0, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Sine waves of random frequency and phase, and the same one step on: both (n, length, 1).

    Example:
        >>> x, y = sine_waves(2, 5)
        >>> bool((x[:, 1:] == y[:, :-1]).all())
        True
    """
    frequency = 0.1 + 0.4 * rand(n, 1, generator=generator)
    phase = 2 * math.pi * rand(n, 1, generator=generator)
    steps = (frequency.new_zeros(length + 1) + 1).cumsum(0).sub(1)
    wave = (frequency * steps + phase).sin()
    wave = (wave + noise * randn(n, length + 1, generator=generator)).unsqueeze(-1)
    return wave[:, :-1], wave[:, 1:]


def sequences(
    n: int = 1000,
    length: int = 10,
    vocabulary: int = 10,
    task: str = "reverse",
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Random sequences of symbols and what a task makes of them: both (n, length).

    Args:
        n: how many sequences.
        length: symbols in each.
        vocabulary: how many symbols there are.
        task: "copy", "reverse" or "sort".
        generator: the source of randomness.

    Example:
        >>> x, y = sequences(2, 4, task="reverse")
        >>> bool((x.flip(1) == y).all())
        True
    """
    tasks: dict[str, Any] = {
        "copy": lambda x: x.clone(),
        "reverse": lambda x: x.flip(1),
        "sort": lambda x: x.sort(1).values,
    }
    if task not in tasks:
        raise ValueError(f"sequences: task must be one of {', '.join(tasks)}, received {task!r}")
    x = randint(0, vocabulary, (n, length), generator=generator)
    return x, tasks[task](x)
