"""State dicts: a module's parameters and buffers by name, and loading them back."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.__future__ import get_swap_module_params_on_conversion
from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.identity import swap_tensors
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_IncompatibleKeys):
    """What `load_state_dict` returns: keys that were missing, keys that have no place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__().replace(type(self).__name__, "_IncompatibleKeys", 1)

    __str__ = __repr__


def _swap_in(own: Tensor, given: Tensor, assign: bool) -> None:
    """Make a module's tensor what `module_load` makes of the one given."""
    loaded = own.module_load(given, assign=assign)
    if loaded is own or loaded is given:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    if isinstance(own, Parameter):
        if not isinstance(loaded, Parameter):
            loaded = Parameter(loaded, requires_grad=own.requires_grad)
        loaded.requires_grad_(own.requires_grad)
    swap_tensors(own, loaded)


class BoundHook:
    """A load hook that gets the module it was registered on; the module is not copied with it."""

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
        import weakref

        self.hook = hook
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        if self.module is None:
            return self.hook(*args)
        return self.hook(self.module(), *args)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.module is not None}
        return state if self.module is None else state | {"module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state.get("module"))  # type: ignore[misc]


class StateDict:
    """The part of Module that saves and loads its tensors."""

    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Any]
    _state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    # -- hooks --------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict` filled it."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return Handle(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> Handle:
        """The same, but the hook may return a dict to use instead."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return Handle(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects."""
        return Handle(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> Handle:
        """Call `hook` with the arguments of `_load_from_state_dict` before it runs."""
        bound = BoundHook(hook, self if with_module else None)  # type: ignore[arg-type]
        return Handle(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module's part is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists."""
        return Handle(self._load_state_dict_post_hooks, hook)

    # -- saving -------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else belongs in the state dict; override together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Override it in your module."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Override it in your module."
        )

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put this module's own tensors, not its submodules', into `destination`."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by dotted name.

        Args:
            destination: a dict to fill; a new one otherwise.
            prefix: put in front of every name.
            keep_vars: keep the tensors themselves rather than detached ones.

        Example:
            >>> import adjoint as ad
            >>> list(ad.nn.Linear(1, 1).state_dict(prefix="layer."))
            ['layer.weight', 'layer.bias']
        """
        if args:  # the old positional form
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination") if destination is None else destination
            prefix = given.get("prefix", prefix) if prefix == "" else prefix
            keep_vars = given.get("keep_vars", keep_vars) if keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in tuple(self._state_dict_hooks.values()):
            replaced = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if replaced is None else replaced
            elif replaced is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    # -- loading ------------------------------------------------------------------------------

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors, not its submodules', from `state_dict`."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        persistent = {
            name: buffer
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        }
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, own in itertools.chain(self._parameters.items(), persistent.items()):
            if own is None:
                continue
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, own, key, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            tensors = {**self._parameters, **persistent}
            own_names = {name for name, own in tensors.items() if own is not None}
            self._find_unexpected(state_dict, prefix, own_names, unexpected_keys)

    def _load_tensor(
        self, name: str, own: Tensor, key: str, given: Any, assign: bool
    ) -> str | None:
        """Load one tensor; what is wrong with the one given, or None."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(given)}"
            )
        if not is_lazy(own):
            if len(own.shape) == 0 and len(given.shape) == 1:
                given = given[0]  # scalars were once saved with a dimension
            if tuple(given.shape) != tuple(own.shape):
                return (
                    f"size mismatch for {key}: copying a param with shape {given.shape} from "
                    f"checkpoint, the shape in current model is {own.shape}."
                )
        elif is_lazy(given) and not assign:
            return None  # nothing known on either side
        swap = get_swap_module_params_on_conversion()
        try:
            if swap:
                with no_grad():
                    _swap_in(own, given, assign)
            elif assign:
                self._assign_tensor(name, own, given)
            else:
                with no_grad():
                    own.copy_(given)
        except Exception as error:
            action = "swapping" if swap or assign else "copying"
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are '
                f"{own.size()} and whose dimensions in the checkpoint are {given.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def _assign_tensor(self, name: str, own: Tensor, given: Tensor) -> None:
        """Make the given tensor the parameter or buffer, rather than copy its elements."""
        if isinstance(own, Parameter):
            if not isinstance(given, Parameter):
                given = Parameter(given, requires_grad=own.requires_grad)
            else:
                given.requires_grad_(own.requires_grad)
        setattr(self, name, given)

    def _load_extra_state(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _find_unexpected(
        self, state_dict: dict[str, Any], prefix: str, own_names: set[str], unexpected: list[str]
    ) -> None:
        """Keys under this module's prefix that name neither a submodule nor a tensor of it."""
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else own_names):
                    unexpected.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors from a state dict into this module and those below it.

        Args:
            state_dict: tensors by dotted name, as `state_dict` gives them.
            strict: whether the names must agree; an error lists all that do not.
            assign: make the given tensors the module's own instead of copying their elements.

        Returns:
            The missing and the unexpected keys.

        Example:
            >>> import adjoint as ad
            >>> layer = ad.nn.Linear(2, 2)
            >>> layer.load_state_dict(ad.nn.Linear(2, 2).state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            remedy = " Pass its state_dict()." if hasattr(state_dict, "state_dict") else ""
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.{remedy}")
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        _load(self, copied, "", metadata, assign, (missing, unexpected, errors))
        if strict:
            if unexpected:
                shown = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {shown}. ")
            if missing:
                shown = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {shown}. ")
            inside = [
                key
                for key, value in state_dict.items()
                if isinstance(value, Mapping) and missing and set(missing) <= set(value)
            ]
            if inside:
                errors.append(f"The weights are in its entry {inside[0]!r}: load that.")
            else:
                errors += _about_names(missing, unexpected)
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(
                    type(self).__name__, "\n\t".join(errors)
                )
            )
        return IncompatibleKeys(missing, unexpected)


def _about_names(missing: Sequence[str], unexpected: Sequence[str]) -> list[str]:
    """Which missing names the unexpected ones may stand for.

    >>> _about_names(["head.weight"], ["head.wieght"])
    ["Is 'head.wieght' meant to be 'head.weight'?"]
    """
    prefixes = [
        key[: -len(name)] for name in missing[:1] for key in unexpected if key.endswith(name)
    ]
    for prefix in prefixes:
        whole = prefix and all(key.startswith(prefix) for key in unexpected)
        if whole and {prefix + name for name in missing} <= set(unexpected):
            remove = f"consume_prefix_in_state_dict_if_present(state_dict, {prefix!r})"
            return [f"Every key begins with {prefix!r}. `nn.modules.utils.{remove}` takes it away."]
    left = list(missing)
    hints = []
    for key in unexpected[:20]:
        close = get_close_matches(key, left, 1, 0.8)
        if close:
            left.remove(close[0])
            hints.append(f"Is {key!r} meant to be {close[0]!r}?")
    return hints


def _load(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    metadata: Any,
    assign: bool,
    report: tuple[list[str], list[str], list[str]],
) -> None:
    """Load a module, then those below it, each with the part of the dict under its prefix."""
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = assign
    missing, unexpected, errors = report
    module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {k: v for k, v in state.items() if k.startswith(below)}
            _load(child, part, below, metadata, assign, report)
    keys = IncompatibleKeys(missing, unexpected)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, keys) is not None:
            raise AssertionError(  # as PyTorch does
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )
