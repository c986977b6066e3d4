"""Lazy modules: layers that learn their input's size from the first input."""

from __future__ import annotations

import itertools
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.state.context import concrete
from adjoint.nn.parameter import is_lazy


class LazyModuleMixin:
    """Put before the base class of a module whose parameters wait for the first input.

    The subclass defines `initialize_parameters(*args, **kwargs)`, called with the first input,
    and `cls_to_become`, the class the module then turns into.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyLinear(3)
        >>> layer(ad.ones(1, 2)).shape
        adjoint.Size([1, 3])
        >>> layer
        Linear(in_features=2, out_features=3, bias=True)
    """

    cls_to_become: type[Any] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(
        self: Any, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            if tensor is not None and name not in self._non_persistent_buffers_set:
                attached = keep_vars or is_lazy(tensor)
                destination[prefix + name] = tensor if attached else tensor.detach()

    def _lazy_load_hook(self: Any, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Before loading: take the shapes of the tensors that have one."""
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                with no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes and values that fit the input."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(
        self: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        """Before the first forward: initialise, and become the ordinary class."""
        with concrete():  # what is made here outlives a capture
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
