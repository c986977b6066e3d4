"""Which modules a computation is inside of: PyTorch's `torch.utils.module_tracker`."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from adjoint.autograd.graph import register_multi_grad_hook
from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

__all__ = ["ModuleTracker"]


def _tensors(values: Any) -> list[Tensor]:
    return [x for x in flatten(values)[0] if isinstance(x, Tensor) and x.requires_grad]


class ModuleTracker:
    """Knows, inside its `with` block, the names of the modules that run, forward and backward.

    Attributes:
        parents: the names, beside "Global", which is always there.
        is_bw: whether a backward pass is under way.

    Example:
        >>> import adjoint as ad
        >>> class Loud(ad.nn.Module):
        ...     def forward(self, x):
        ...         print(sorted(tracker.parents))
        ...         return x
        >>> with ModuleTracker() as tracker:
        ...     y = ad.nn.Sequential(Loud())(ad.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._met: set[str] = set()
        self._in_backward = False
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is under way."""
        return self._in_backward

    def _name(self, module: Module) -> str:
        if module not in self._names:
            name = type(module).__name__
            taken = set(self._names.values())
            number = 0
            while (name if not number else f"{name}_{number}") in taken:
                number += 1
            self._names[module] = name if not number else f"{name}_{number}"
        own = self._names[module]
        for child_name, child in module.named_children():
            self._names.setdefault(child, f"{own}.{child_name}")
        return own

    def _enter(self, name: str, backward: bool) -> Callable[..., None]:
        def entered(*_: Any) -> None:
            if backward:
                self._in_backward = True
            self.parents.add(name)

        return entered

    def _leave(self, name: str) -> Callable[..., None]:
        def left(*_: Any) -> None:
            self.parents.discard(name)

        return left

    def _before(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self._enter(name, backward=False)()
        inputs = _tensors(args)
        if inputs:  # the gradients of its arguments are the last thing of a module's backward
            self._handles.append(register_multi_grad_hook(inputs, self._leave(name)))

    def _after(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        self._leave(name)()
        outputs = _tensors(output)
        if outputs:
            entered = self._enter(name, backward=True)
            self._handles.append(register_multi_grad_hook(outputs, entered, mode="any"))

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.parents = {"Global"}
        self._in_backward = False
