"""GradientTape: TensorFlow's way of asking for gradients, on the same tape."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.autodiff.transforms.functional import rows_at_once, rows_one_by_one
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import TreeDef, flatten, matched, unflatten
from adjoint.engine.tensor.tensor import Tensor


class _Recording(threading.local):
    """The tapes this thread is recording on, outermost first."""

    def __init__(self) -> None:
        self.tapes: list[GradientTape] = []


_RECORDING = _Recording()


class GradientTape:
    """Record operations in a block, then ask for gradients of any of its results.

    Tensors with `requires_grad` are watched by themselves; others after `watch`. A tape gives one
    set of gradients unless it is `persistent`. Tapes nest, for derivatives of derivatives.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0)
    >>> with ad.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x)
    tensor(6.)
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._automatic = watch_accessed_variables
        self._watched: dict[int, Tensor] = {}
        self._restore: list[tuple[Tensor, bool]] = []
        self._used = False
        self._recording = False

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError("GradientTape: this tape is already recording.")
        self._recording = True
        self._used = False
        self._before = CONTEXT.set(grad_enabled=True)
        _RECORDING.tapes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recording:
            self._stop()

    def _stop(self) -> None:
        self._recording = False
        _RECORDING.tapes.remove(self)
        CONTEXT.set(**self._before)
        for tensor, required in self._restore:  # what was recorded keeps its edges to it
            tensor._requires_grad = required
        self._restore.clear()

    def watch(self, tensor: Any) -> None:
        """Record operations on a tensor, or on each of a structure of them."""
        for leaf in flatten(tensor)[0]:
            if not is_tensor(leaf):
                raise ValueError(
                    f"GradientTape.watch: expected tensors, received {type(leaf).__name__}"
                )
            self._watched[id(leaf)] = leaf
            if not leaf.requires_grad and leaf.dtype.is_inexact:
                self._restore.append((leaf, False))
                leaf._requires_grad = True

    def watched_variables(self) -> tuple[Tensor, ...]:
        """The tensors given to `watch`."""
        return tuple(self._watched.values())

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Operations in the block are not recorded."""
        if not self._recording:
            raise ValueError("GradientTape.stop_recording: the tape is not recording.")
        with CONTEXT.having(grad_enabled=False):
            yield

    def reset(self) -> None:
        """Forget what was watched and allow another set of gradients."""
        self._watched.clear()
        self._used = False

    def _begin(self, sources: Any) -> tuple[list[Any], Any]:
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                "(or jacobians)"
            )
        self._used = True
        if self._recording and not self._persistent:
            self._stop()
        leaves, structure = flatten(sources)
        return leaves, structure

    def _asked(self, leaves: list[Any]) -> tuple[list[Any], list[tuple[Tensor, bool]]]:
        """Which sources are on the tape; watched ones are so for the time of the question."""
        restored = []
        asked = []
        for x in leaves:
            if is_tensor(x) and id(x) in self._watched and not x.requires_grad:
                if not x.dtype.is_inexact:
                    continue
                restored.append((x, False))
                x._requires_grad = True
            if edge_of(x) is not None and (self._automatic or id(x) in self._watched):
                asked.append(x)
        return asked, restored

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = "none",
    ) -> Any:
        """The gradients of the sum of `target` with respect to `sources`, in their structure."""
        leaves, structure = self._begin(sources)
        targets, wanted = flatten(target)
        given = _output_gradients(output_gradients, wanted)
        roots = [
            (t, t.detach().new_ones(t.shape) if g is None else g)
            for t, g in zip(targets, given, strict=True)
            if edge_of(t) is not None
        ]
        asked, restored = self._asked(leaves)
        gradients: dict[int, Any] = {}
        if roots and asked:
            outer = bool(_RECORDING.tapes)  # a tape still recording sees the gradient's operations
            gs = grad(
                [t for t, _ in roots], asked, [g for _, g in roots],
                retain_graph=self._persistent or outer, create_graph=outer, allow_unused=True,
            )  # fmt: skip
            gradients = {id(x): g for x, g in zip(asked, gs, strict=True)}
        for tensor, required in restored:
            tensor._requires_grad = required
        return unflatten(
            structure, [_connected(x, gradients.get(id(x)), unconnected_gradients) for x in leaves]
        )

    def jacobian(
        self,
        target: Tensor,
        sources: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The Jacobian of `target` with respect to each of `sources`, in their structure."""
        leaves, structure = self._begin(sources)
        asked, restored = self._asked(leaves)
        jacobians: dict[int, Any] = {}
        if edge_of(target) is not None and asked:
            outer = bool(_RECORDING.tapes)
            rows = rows_at_once if experimental_use_pfor else rows_one_by_one
            used = grad(
                target, asked, target.detach().new_ones(target.shape),
                retain_graph=True, allow_unused=True,
            )  # fmt: skip
            connected = [x for x, g in zip(asked, used, strict=True) if g is not None]
            if connected:
                table = rows(target, tuple(connected), outer, False)
                jacobians = {id(x): j for x, j in zip(connected, table, strict=True)}
        for tensor, required in restored:
            tensor._requires_grad = required
        shape = tuple(target.shape)
        return unflatten(
            structure,
            [_connected(x, jacobians.get(id(x)), unconnected_gradients, shape) for x in leaves],
        )

    def batch_jacobian(self, target: Tensor, source: Tensor) -> Any:
        """Per element of the first dimension, the Jacobian of `target` with respect to `source`."""
        if not target.ndim or not source.ndim or target.shape[0] != source.shape[0]:
            raise ShapeValueError(
                "GradientTape.batch_jacobian: target and source need the same first dimension, "
                f"received {tuple(target.shape)} and {tuple(source.shape)}"
            )
        whole = self.jacobian(target, source)
        if whole is None:
            return None
        rank = target.ndim
        moved = whole.movedim(rank, 1)  # (batch, batch, *target, *source)
        i = moved.new_arange(moved.shape[0])
        return moved[i, i]


def _output_gradients(given: Any, wanted: TreeDef) -> list[Any]:
    """A gradient or None for each target: in the targets' structure, or a plain list of them."""
    if given is None:
        return [None] * wanted.num_leaves
    leaves, structure = flatten(given)
    plain = structure.kind in (list, tuple) and len(leaves) == len(structure.children)
    if plain and len(leaves) == wanted.num_leaves:
        return leaves
    try:
        return matched(wanted, given)
    except ValueError as error:
        raise ValueError(f"GradientTape.gradient: target and output_gradients: {error}") from None


def _connected(x: Any, g: Any, unconnected: str, lead: tuple[int, ...] = ()) -> Any:
    value = getattr(unconnected, "value", unconnected)
    if value not in ("none", "zero"):
        raise ValueError(
            f"GradientTape: unconnected_gradients must be 'none' or 'zero', received {value!r}"
        )
    if g is None and value == "zero":
        return x.detach().new_zeros((*lead, *x.shape))
    return g
