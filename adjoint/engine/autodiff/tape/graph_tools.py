"""Looking at and reaching into the tape: what `autograd.graph` offers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjoint.engine.autodiff.tape.engine import Backward, innermost_run
from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.autodiff.tape.modes import Mode
from adjoint.engine.autodiff.tape.saved import saved_tensors_hooks
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT


class save_on_cpu(saved_tensors_hooks):
    """Keep what operations in the block save in main memory, and bring it back for backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> tuple[Any, Any]:
            return tensor.device, tensor.detach().to("cpu", copy=True)

        def unpack(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(Mode):
    """In the block, entering `saved_tensors_hooks` is an error with this message."""

    def __init__(self, error_message: str) -> None:
        super().__init__(saved_hooks_refused=error_message)

    def __enter__(self) -> None:
        if CONTEXT.saved_hooks:
            raise RuntimeError(self._fields["saved_hooks_refused"])
        super().__enter__()


def increment_version(tensor: Any) -> None:
    """Say that a tensor was written to behind the tape's back."""
    for t in (tensor,) if is_tensor(tensor) else tensor:
        t._storage.version += 1


class CopiedOnWrite:
    """A saved tensor that is copied when its storage is about to be written to."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class allow_mutation_on_saved_tensors:
    """In the block, a write to a tensor that was saved for backward copies it first."""

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        self._copies: dict[int, list[weakref.ref[CopiedOnWrite]]] = {}
        hooks = (self._pack, lambda saved: saved.tensor)
        self._before = CONTEXT.set(
            saved_hooks=(*CONTEXT.saved_hooks, hooks), before_write=self._copy
        )
        return self

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._before)
        self._copies.clear()

    def _pack(self, tensor: Any) -> CopiedOnWrite:
        saved = CopiedOnWrite(tensor)
        self._copies.setdefault(id(tensor._storage), []).append(weakref.ref(saved))
        return saved

    def _copy(self, storage: Any) -> None:
        for reference in self._copies.pop(id(storage), ()):
            saved = reference()
            if saved is not None and saved.tensor._storage is storage:
                with CONTEXT.having(saved_hooks=(), before_write=None, grad_enabled=False):
                    saved.tensor = saved.tensor.clone()


class MultiHandle:
    """Removes several hooks at once."""

    __slots__ = ("handles",)

    def __init__(self, handles: Iterable[Handle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _Together:
    """The hook of several tensors: what each of them had in each backward."""

    __slots__ = ("first_only", "found", "places")

    def __init__(self, tensors: Sequence[Any], first_only: bool) -> None:
        self.first_only = first_only
        # An in-place write gives a tensor another node; hooks stay where they were put.
        self.places = [t if t.grad_fn is None else t.grad_fn for t in tensors]
        self.found: weakref.WeakKeyDictionary[Backward, dict[int, Any]]
        self.found = weakref.WeakKeyDictionary()  # runs may be nested, or on several threads

    def hook(self, number: int, call: Callable[..., Any]) -> Callable[[Any], None]:
        """That of one of the tensors. Recordings look for the user's function in its closure."""

        def hook(grad: Any) -> None:
            shown = self.arrived(number, grad)
            if shown:
                call(*shown)

        return hook

    def arrived(self, number: int, grad: Any) -> tuple[Any, ...]:
        """Note the gradient of one of the tensors; what the user is shown now, if anything."""
        run = innermost_run()
        if run is None:
            raise RuntimeError("register_multi_grad_hook: the hook was called outside of backward")
        found = self.found.get(run)
        is_first = found is None
        if found is None:
            found = self.found[run] = {}
        found[number] = grad
        if self.first_only:
            return (grad,) if is_first else ()
        if len(found) != sum(map(run.comes_by, self.places)):
            return ()
        del self.found[run]
        return ([found.get(k) for k in range(len(self.places))],)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> MultiHandle:
    """Call `fn` once in each backward: with all gradients of `tensors`, or with the first ("any").

    In mode "all" it has a list, with None for those that the backward does not come to.

    Example:
        >>> import adjoint as ad
        >>> x, y = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
        >>> hook = ad.autograd.graph.register_multi_grad_hook((x, y), print)
        >>> (2 * x).sum().backward()
        [tensor([2., 2.]), None]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    together = _Together(tensors, mode == "any")
    return MultiHandle(t.register_hook(together.hook(i, fn)) for i, t in enumerate(tensors))
