"""Tensors kept for backward: staleness, and the hooks that pack and unpack them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor, alias_noted


class Packed:
    """What a pack hook made of a saved tensor, with the hook that undoes it.

    The hook sees the tensor off the tape; its place there is kept here and given back.
    """

    __slots__ = ("edge", "source", "unpack", "value")

    def __init__(self, tensor: Tensor, edge: Any) -> None:
        pack, self.unpack = CONTEXT.saved_hooks[-1]
        self.edge = edge
        self.source = weakref.ref(tensor)  # alive as long as the operation that saved it runs
        shown = alias_noted(tensor)
        with CONTEXT.having(saved_hooks=(), grad_enabled=False):
            self.value = pack(shown)

    def load(self) -> Tensor:
        """The tensor, off the tape."""
        tensor = self.unpack(self.value)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got "
                f"{type(tensor).__name__}"
            )
        return tensor


class Unpacked:
    """What `Packed` gave, for one run of a node's rules."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class FreedError(RuntimeError):
    """Backward through a part of the tape whose saved values are gone: freed, or written over."""


def freed(name: str) -> FreedError:
    """The error for a node whose saved values were freed."""
    return FreedError(
        f"Trying to backward through the graph a second time ({name}), or to access saved tensors "
        "after they have already been freed. Specify retain_graph=True if you need to backward "
        "through the graph a second time."
    )


def stale(tensor: Tensor, version: int, name: str) -> FreedError:
    """The error for a saved tensor that was written to."""
    return FreedError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: {tensor._spec}, saved by {name} at version {version}, is now at version "
        f"{tensor._storage.version}. Clone it before writing, or write before it is used. Hint: "
        "enable anomaly detection to find the operation that failed to compute its gradient, with "
        "autograd.set_detect_anomaly(True)."
    )


def refuse_inference() -> RuntimeError:
    """The error for an inference tensor that backward would need."""
    return RuntimeError(
        "Inference tensors cannot be saved for backward. To work around you can make a clone to "
        "get a normal tensor and use it in autograd."
    )


class saved_tensors_hooks:
    """Pack and unpack what operations in the block save for backward.

    >>> import adjoint as ad
    >>> x = ad.tensor([3.0], requires_grad=True)
    >>> with ad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), ad.from_numpy):
    ...     y = x.sin()
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.hooks = (pack_hook, unpack_hook)
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        if CONTEXT.saved_hooks_refused is not None:
            raise RuntimeError(CONTEXT.saved_hooks_refused)
        self._before.append(CONTEXT.set(saved_hooks=(*CONTEXT.saved_hooks, self.hooks)))

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._before.pop())
