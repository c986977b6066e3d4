"""Dropout: elements, or whole channels, zeroed at random in training."""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError, warn_user
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import generator_for
from adjoint.engine.ops.nn.activations import SELU_ALPHA, SELU_SCALE
from adjoint.engine.ops.nn.common import FUNCTIONAL, apply
from adjoint.engine.ops.random.random import RANDOM, blocks, draw, word_bits

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# What a dropped element becomes in alpha dropout: the value selu tends to.
ALPHA = -SELU_ALPHA * SELU_SCALE


def _check(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


def _mask_shape(input: Tensor, channels: bool) -> tuple[int, ...]:
    shape = tuple(input.shape)
    return (*shape[:2], *(1,) * (len(shape) - 2)) if channels else shape


def _keep_mask(name: str, input: Tensor, p: float, channels: bool) -> Tensor:
    """1 where an element (or channel) stays, 0 where it is dropped."""
    shape = _mask_shape(input, channels)
    return draw(name, "bernoulli", (1.0 - p,), shape, input.dtype, input.device, None)


def _drop_by_place(x: Tensor, seed: Any, offset: Any, p: float, channels: bool) -> Tensor:
    mask = RANDOM(
        seed, offset, law="bernoulli", args=(1.0 - p,), shape=_mask_shape(x, channels),
        dtype=x.dtype, device=x.device,
    )  # fmt: skip
    return x * (mask / (1.0 - p))


# DROPOUT(x, seed, offset of the draw): on a GPU one kernel, which draws again for the gradient
# instead of keeping what was drawn.
DROPOUT: Record = composite(
    "dropout",
    _drop_by_place,
    lambda g, seed, offset, p, channels: DROPOUT(g, seed, offset, p=p, channels=channels),
    None,
    None,
    operands=("x", "seed", "offset"),
    fragment="device",
    given_a_draw=True,
    keeps_layout="first",
)


def _place_on_device(input: Tensor, name: str, channels: bool) -> tuple[Any, Any] | None:
    """Seed and offset of the mask that a GPU's kernel draws; None where it is drawn before."""
    if input._array.__class__ not in DEVICE_LAYOUTS or not CONTEXT.settled:
        return None
    count = prod(_mask_shape(input, channels)) * (2 if input.dtype.is_complex else 1)
    bits = word_bits("bernoulli", input.dtype)
    return generator_for(name, None, input.device).draw(blocks(count, bits))


def _drop(input: Tensor, name: str, p: float, channels: bool) -> Tensor:
    if p == 1:
        return input * input.new_zeros(())
    place = _place_on_device(input, name, channels)
    if place is not None:
        return DROPOUT(input, *place, p=p, channels=channels)
    return input * (_keep_mask(name, input, p, channels) / (1.0 - p))


def _kept_factor(p: float) -> float:
    """By what alpha dropout multiplies what it keeps."""
    return 1.0 / math.sqrt((1 - p) * (1 + p * ALPHA * ALPHA))


def _drop_alpha_by(x: Tensor, mask: Tensor, p: float) -> Tensor:
    a = _kept_factor(p)
    # kept: a x + b; dropped: a ALPHA + b, where b restores the mean
    return x * (mask * a) + ((1 - mask) * (ALPHA * a) - a * ALPHA * p)


def _mask_by_place(x: Tensor, seed: Any, offset: Any, p: float, channels: bool) -> Tensor:
    shape = _mask_shape(x, channels)
    how = {"law": "bernoulli", "args": (1.0 - p,), "shape": shape}
    return RANDOM(seed, offset, dtype=x.dtype, device=x.device, **how)


def _drop_alpha_by_place(x: Tensor, seed: Any, offset: Any, p: float, channels: bool) -> Tensor:
    return _drop_alpha_by(x, _mask_by_place(x, seed, offset, p, channels), p)


def _keep_by_place(x: Tensor, seed: Any, offset: Any, p: float, channels: bool) -> Tensor:
    return x * (_mask_by_place(x, seed, offset, p, channels) * _kept_factor(p))


# KEEP_BY_PLACE(x, seed, offset): what alpha dropout keeps of x; ALPHA_DROPOUT, as DROPOUT is.
KEEP_BY_PLACE: Record = composite(
    "kept_by_alpha_dropout",
    _keep_by_place,
    lambda g, seed, offset, p, channels: KEEP_BY_PLACE(g, seed, offset, p=p, channels=channels),
    None,
    None,
    operands=("x", "seed", "offset"),
    fragment="device",
    given_a_draw=True,
    keeps_layout="first",
)
ALPHA_DROPOUT: Record = composite(
    "alpha_dropout",
    _drop_alpha_by_place,
    lambda g, seed, offset, p, channels: KEEP_BY_PLACE(g, seed, offset, p=p, channels=channels),
    None,
    None,
    operands=("x", "seed", "offset"),
    fragment="device",
    given_a_draw=True,
    keeps_layout="first",
)


def _drop_alpha(input: Tensor, name: str, p: float, channels: bool) -> Tensor:
    if p == 1:
        return input * input.new_zeros(())
    place = _place_on_device(input, name, channels)
    if place is not None:
        return ALPHA_DROPOUT(input, *place, p=p, channels=channels)
    return _drop_alpha_by(input, _keep_mask(name, input, p, channels), p)


def _dropped(
    name: str,
    how: Any,
    input: Tensor,
    p: float,
    training: bool,
    inplace: bool,
    channels: bool = False,
) -> Tensor:
    _check(name, p)
    if not training or p == 0 or not input.numel():
        return input
    if not input.dtype.is_inexact:
        raise DTypeError(
            f"{name}: result type float32 can't be cast to the desired output type "
            f"{input.dtype.name}. Convert the input with .float() first."
        )
    if channels and p < 1 and input.ndim < 2:
        raise ShapeError(
            f"{name}: Feature dropout requires at least 2 dimensions in the input, received "
            f"{input.ndim}"
        )
    return apply(f"{name}_", how, input, inplace, name, p, channels)


@public(namespaces=FUNCTIONAL)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements zeroed with probability `p`, the others scaled by 1 / (1 - p), in training.

    >>> import adjoint as ad
    >>> ad.nn.functional.dropout(ad.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    return _dropped("dropout", _drop, input, p, training, inplace)


@public(name="dropout")
def dropout_function(input: Tensor, p: float, train: bool) -> Tensor:
    """Elements zeroed with probability `p` (see `nn.functional.dropout`)."""
    return dropout(input, p, train)


@public(name="dropout_")
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `dropout`."""
    return dropout(input, p, train, inplace=True)


@public(namespaces=FUNCTIONAL)
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance through `selu`: dropped elements saturate it."""
    return _dropped("alpha_dropout", _drop_alpha, input, p, training, inplace)


@public(name="alpha_dropout")
def alpha_dropout_function(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that keeps mean and variance through `selu`."""
    return alpha_dropout(input, p, train)


def _channels(
    name: str, how: Any, input: Tensor, p: float, training: bool, inplace: bool, batched: bool
) -> Tensor:
    """Drop channels of (N, C, ...), or of (C, ...) where there is no batch."""
    _check(name, p)
    if batched:
        return _dropped(name, how, input, p, training, inplace, channels=True)
    if inplace:
        _dropped(name, how, input.unsqueeze(0), p, training, inplace, channels=True)
        return input
    return _dropped(name, how, input.unsqueeze(0), p, training, False, channels=True).squeeze(0)


@public(namespaces=FUNCTIONAL)
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, L) or (C, L) zeroed with probability `p`."""
    if input.ndim not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension."
        )
    return _channels("dropout1d", _drop, input, p, training, inplace, input.ndim == 3)


@public(namespaces=FUNCTIONAL)
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, H, W) zeroed with probability `p`.

    As in PyTorch, a (N, C, L) input counts as batched, with a warning.
    """
    if input.ndim not in (3, 4):
        warn_user(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead."
        )
    if input.ndim == 3:
        warn_user(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L). To apply it to an "
            "input without a batch dimension, unsqueeze it first."
        )
    return _channels("dropout2d", _drop, input, p, training, inplace, batched=True)


@public(namespaces=FUNCTIONAL)
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zeroed with probability `p`."""
    if input.ndim not in (4, 5):
        warn_user(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead."
        )
    return _channels("dropout3d", _drop, input, p, training, inplace, input.ndim != 4)


@public(namespaces=FUNCTIONAL)
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels."""
    if input.ndim < 2 and training and p:
        raise ShapeError(
            "feature_alpha_dropout: Feature dropout requires at least 2 dimensions in the input, "
            f"received {input.ndim}"
        )
    return _channels("feature_alpha_dropout", _drop_alpha, input, p, training, inplace, True)


@public(name="feature_alpha_dropout")
def feature_alpha_dropout_function(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels."""
    return feature_alpha_dropout(input, p, train)


@public()
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels zeroed with probability `p`."""
    if input.ndim < 2:
        raise ShapeError(
            "feature_dropout: Feature dropout requires at least 2 dimensions in the input, "
            f"received {input.ndim}"
        )
    return _channels("feature_dropout", _drop, input, p, train, False, True)


@public(name="feature_dropout_")
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `feature_dropout`."""
    return _channels("feature_dropout", _drop, input, p, train, True, True)


@public(name="alpha_dropout_")
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `alpha_dropout`."""
    return alpha_dropout(input, p, train, inplace=True)


@public(name="feature_alpha_dropout_")
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `feature_alpha_dropout`."""
    return feature_alpha_dropout(input, p, train, inplace=True)
