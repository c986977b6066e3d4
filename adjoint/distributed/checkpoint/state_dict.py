"""State of sharded models and optimizers under the names of their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.distributed.sharded.parameter import Shard, shard_of
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


@dataclass(frozen=True, slots=True)
class StateDictOptions:
    """Whether whole tensors are wanted, rather than this process's parts."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False


def whole_options() -> StateDictOptions:
    """Whole tensors on every process."""
    return StateDictOptions(full_state_dict=True)


@dataclass(frozen=True, slots=True)
class Part:
    """This process's part of a tensor, in a state dict."""

    tensor: Tensor
    shard: Shard

    def whole(self) -> Tensor:
        """The whole tensor; every process calls it."""
        return self.shard.whole(self.tensor)


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state: of sharded parameters `Part`s, or whole tensors if the options say so."""
    chosen = options or StateDictOptions()
    parts = dict(model.named_parameters(remove_duplicate=False))
    found: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        shard = shard_of(parts.get(name))
        if shard is None:
            found[name] = value
        elif chosen.full_state_dict:
            found[name] = shard.whole(value)
        else:
            found[name] = Part(value, shard)
    return found


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Give a model its state back, from parts or whole tensors."""
    own: dict[str, Any] = dict(model.named_parameters(remove_duplicate=False))
    own.update(model.named_buffers(remove_duplicate=False))
    missing = sorted(set(own) - set(model_state_dict))
    unexpected = sorted(set(model_state_dict) - set(own))
    if (options is None or options.strict) and (missing or unexpected):
        raise RuntimeError(
            f"set_model_state_dict: missing {missing or 'nothing'}, unexpected "
            f"{unexpected or 'nothing'}"
        )
    with no_grad():
        for name, value in model_state_dict.items():
            if name in own:
                own[name].copy_(_as_kept(own[name], value))


def _as_kept(parameter: Any, value: Any) -> Tensor:
    if isinstance(value, Part):
        return value.tensor
    shard = shard_of(parameter)
    if shard is not None and tuple(value.shape) == tuple(shard.shape):
        return shard.of(value)
    return value


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """An optimizer's state by the names of the model's parameters."""
    chosen = options or StateDictOptions()
    names = {id(p): n for n, p in model.named_parameters()}
    state: dict[str, Any] = {}
    for parameter, kept in optimizers.state.items():
        shard = shard_of(parameter)
        entries: dict[str, Any] = {}
        for key, value in kept.items():
            split = isinstance(value, Tensor) and value.shape == parameter.shape
            if shard is not None and split:
                value = shard.whole(value) if chosen.full_state_dict else Part(value, shard)
            entries[key] = value
        state[names[id(parameter)]] = entries
    groups = [
        {
            **{k: v for k, v in g.items() if k != "params"},
            "params": [names[id(p)] for p in g["params"]],
        }
        for g in optimizers.param_groups
    ]
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Give an optimizer its state back."""
    named = dict(model.named_parameters())
    for name, entries in optim_state_dict["state"].items():
        parameter = named[name]
        kept = optimizers.state[parameter]
        for key, value in entries.items():
            found = _as_kept(parameter, value) if isinstance(value, (Tensor, Part)) else value
            kept[key] = found.clone() if isinstance(found, Tensor) else found
    for group, saved in zip(optimizers.param_groups, optim_state_dict["param_groups"], strict=True):
        group.update({k: v for k, v in saved.items() if k != "params"})


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The states of a model and its optimizer."""
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module, optimizers: Any, *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Give a model and its optimizer their states back."""
    set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
