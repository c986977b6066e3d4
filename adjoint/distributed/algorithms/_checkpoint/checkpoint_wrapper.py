"""Modules that keep no intermediate values and compute them again for their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from adjoint.nn.modules.module import Module
from adjoint.utils.checkpoint import checkpoint

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """The two ways to compute again; see `adjoint.utils.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class CheckpointWrapper(Module):
    """A module whose inner values are computed again in backward; its state is the inner one's.

    Example:
        >>> import adjoint as ad
        >>> layer = CheckpointWrapper(ad.nn.Linear(2, 1))
        >>> list(layer.state_dict())
        ['weight', 'bias']
    """

    _named_as_inner = "_checkpoint_wrapped_module"  # Note [names without wrappers]

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        plain = partial(checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = partial(checkpoint_fn or plain, **checkpoint_fn_kwargs)
        self.checkpoint_impl = checkpoint_impl
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The inner module's, by the names they have there."""
        for name, value in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), value


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> dict[str, Any]:
    for name in [name for name in state if name.startswith(prefix + _PREFIX)]:
        state[prefix + name.removeprefix(prefix + _PREFIX)] = state.pop(name)
    return state


def _with_prefix(state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in [name for name in state if name.startswith(prefix)]:
        inner = name.removeprefix(prefix)
        if not inner.startswith(_PREFIX):
            state[prefix + _PREFIX + inner] = state.pop(name)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """The module, wrapped so that its inner values are computed again in backward."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., Any] | None = None,
) -> None:
    """Wrap the modules inside a model that `check_fn` (or a policy of sharding) chooses."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(parent, CheckpointWrapper) or isinstance(child, CheckpointWrapper):
                continue
            count = sum(value.numel() for value in child.parameters())
            chosen = (
                check_fn(child)
                if auto_wrap_policy is None
                else auto_wrap_policy(module=child, recurse=False, nonwrapped_numel=count)
            )
            if chosen:
                setattr(parent, name, checkpoint_wrapper_fn(child))
