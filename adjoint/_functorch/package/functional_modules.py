"""Modules as functions of their parameters, the older way; `func.functional_call` is the newer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.func import functional_call
from adjoint.nn.modules.module import Module


class FunctionalModuleWithBuffers(Module):
    """A module whose parameters and buffers are arguments of its call."""

    def __init__(
        self, model: Module, param_names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        state |= dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(Module):
    """A module whose parameters are arguments of its call."""

    def __init__(self, model: Module, param_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names = tuple(param_names)

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def _parts(named: Any, detached: bool) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
    parts = dict(named)
    values = parts.values()
    return tuple(parts), tuple(x.detach() if detached else x for x in values)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module as a function of its parameters, and those.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> call, params = make_functional(layer)
        >>> call(params, ad.ones(3, 2)).shape
        adjoint.Size([3, 1])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): model has buffers. Use make_functional_with_buffers(model)."
        )
    names, values = _parts(model.named_parameters(), disable_autograd_tracking)
    return FunctionalModule(copy.deepcopy(model), names), values


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and those."""
    names, values = _parts(model.named_parameters(), disable_autograd_tracking)
    buffer_names, buffers = _parts(model.named_buffers(), False)
    call = FunctionalModuleWithBuffers(copy.deepcopy(model), names, buffer_names)
    return call, values, buffers


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one kind as one function, with their parameters and buffers stacked for `vmap`."""
    functions = [
        make_functional_with_buffers(model, disable_autograd_tracking=True) for model in models
    ]
    params = tuple(
        stack(row).requires_grad_() for row in zip(*(m[1] for m in functions), strict=True)
    )
    buffers = tuple(stack(row) for row in zip(*(m[2] for m in functions), strict=True))
    return functions[0][0], params, buffers
