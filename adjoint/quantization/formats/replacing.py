"""Layers of a model replaced by those that a file holds, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from adjoint import nn


def submodule(model: nn.Module, path: str, what: str) -> Any:
    """The layer at a path; that there is none is the file's error."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        raise RuntimeError(f"{what}: the model has no layer {path[:80]!r}") from None


@contextmanager
def replaced(model: nn.Module, layers: Mapping[str, nn.Module], what: str) -> Iterator[None]:
    """Layers at their paths in a model; what was there comes back if anything fails.

    Args:
        model: changed in place.
        layers: by path.
        what: the operation and the file, for messages.
    """
    places = []
    for path, layer in layers.items():
        parent, _, last = path.rpartition(".")
        holder = submodule(model, parent, what)
        if last not in holder._modules:
            raise RuntimeError(f"{what}: the model has no layer {path[:80]!r}")
        places.append((holder, last, layer))
    before = [holder._modules[last] for holder, last, _ in places]
    try:
        for holder, last, layer in places:
            holder._modules[last] = layer.train(holder.training)
        yield
    except BaseException:
        for (holder, last, _), old in zip(places, before, strict=True):
            holder._modules[last] = old
        raise
