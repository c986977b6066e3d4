"""Fake tensors: there are none; tensors on the device "meta" have shapes without elements."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.state import config


class FakeTensor:
    """A tensor without elements; has no instances."""


class FakeTensorMode:
    """Refused: use the device "meta"."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f'{config.display_name}: FakeTensorMode is not there. Use the device "meta".'
        )


def is_fake(x: Any) -> bool:
    """Whether a tensor is fake: none is."""
    return False
