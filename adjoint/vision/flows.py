"""Optical flows shown in colours (Baker et al., 2007)."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.errors import DTypeValueError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor

# From red round the circle and back: steps, the channel that changes, whether it grows.
ARCS = ((15, 1, True), (6, 0, False), (4, 2, True), (11, 1, False), (13, 0, True), (6, 2, False))


def _wheel() -> Any:
    """The colours of 55 directions, from 0 to 1."""
    colours, now = [], np.array([255.0, 0.0, 0.0], np.float32)
    for steps, channel, grows in ARCS:
        risen = np.floor(255 * np.arange(steps, dtype=np.float32) / steps)
        arc = np.tile(now, (steps, 1))
        arc[:, channel] = risen if grows else 255 - risen
        colours.append(arc)
        now = now.copy()
        now[channel] = 255.0 if grows else 0.0
    return np.concatenate(colours) / np.float32(255.0)


def flow_to_image(flow: Tensor) -> Tensor:
    """A flow (2, H, W) or (N, 2, H, W) as colours: the direction as hue, the length as strength.

    >>> import adjoint as ad
    >>> flow_to_image(ad.zeros(2, 1, 1)).flatten().tolist()
    [255, 255, 255]
    """
    if flow.dtype is not float32:
        raise DTypeValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    if flow.ndim not in (3, 4) or flow.shape[-3] != 2:
        raise ShapeValueError(
            f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {tuple(flow.shape)}."
        )
    moved: Any = flow.detach().to("cpu").numpy()
    moved = moved[None] if flow.ndim == 3 else moved
    longest = np.sqrt(np.square(moved).sum(1)).max()
    moved = moved / (longest + np.finfo(np.float32).eps)
    length = np.sqrt(np.square(moved).sum(1))
    wheel = _wheel()
    angle = np.arctan2(-moved[:, 1], -moved[:, 0]) / np.float32(np.pi)
    at = (angle + 1) / 2 * (len(wheel) - 1)
    low = np.floor(at).astype(np.int64)
    share = (at - low).astype(np.float32)[..., None]
    hue = (1 - share) * wheel[low] + share * wheel[(low + 1) % len(wheel)]
    shown = 1 - length[..., None] * (1 - hue)
    pixels = np.floor(255 * shown).astype(np.uint8).transpose(0, 3, 1, 2)
    out = from_numpy(np.ascontiguousarray(pixels)).to(flow.device)
    return out[0] if flow.ndim == 3 else out
