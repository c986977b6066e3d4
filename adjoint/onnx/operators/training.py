"""Steps of optimizers."""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.table import operator

_DOMAIN = "ai.onnx.preview.training"


def _groups(tensors: tuple[Tensor, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """Each variable with its gradient and states, from all variables, all gradients, all states."""
    count = len(tensors) // kinds
    return [tuple(tensors[k * count + i] for k in range(kinds)) for i in range(count)]


def _flat(rows: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(t for column in zip(*rows, strict=True) for t in column)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """One step of Adagrad."""
    step = rate / (1 + count * decay_factor)
    rows: list[tuple[Tensor, ...]] = []
    for x, g, h in _groups(tensors, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        rows.append((x - step * g / (ad.sqrt(h) + epsilon), h))
    return _flat(rows)


@operator("Momentum", domain=_DOMAIN)
def momentum(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    """One step with momentum, standard or Nesterov's."""
    factor = ad.where(count > 0, ad.full((), beta, dtype=rate.dtype), ad.ones((), dtype=rate.dtype))
    rows: list[tuple[Tensor, ...]] = []
    for x, g, v in _groups(tensors, 3):
        g = norm_coefficient * x + g
        v = alpha * v + factor * g
        rows.append((x - rate * (g + alpha * v if mode == "nesterov" else v), v))
    return _flat(rows)


@operator("Adam", domain=_DOMAIN)
def adam(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """One step of Adam."""
    power = count.to(rate.dtype)
    adjusted = ad.where(count > 0, rate * ad.sqrt(1 - beta**power) / (1 - alpha**power), rate)
    rows: list[tuple[Tensor, ...]] = []
    for x, g, v, h in _groups(tensors, 4):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        rows.append(
            ((1 - norm_coefficient_post) * (x - adjusted * v / (ad.sqrt(h) + epsilon)), v, h)
        )
    return _flat(rows)
