"""State of sharded models and optimizers under the names of their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.communication.objects import broadcast_object_list
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import move
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.state.processes import STATE
from adjoint.engine.ops.create.creation import empty, zeros_like
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


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state: DTensors where it is divided, or whole tensors if the options say so.

    With `full_state_dict` and `cpu_offload`, only the first process is given it.
    """
    if submodules:
        raise NotImplementedError("get_model_state_dict: submodules is not supported")
    chosen = options or StateDictOptions()
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    state = {
        _plain_name(name): _shown(value, chosen)
        for name, value in model.state_dict().items()
        if not (chosen.ignore_frozen_params and name in frozen)
    }
    return state if _given_here(chosen) else {}


def _plain_name(name: str) -> str:
    """A name as it is without wrappers."""
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name.replace("_orig_mod.", "")


def _shown(value: Any, options: StateDictOptions) -> Any:
    if isinstance(value, DTensor) and options.full_state_dict:
        value = value.full_tensor()
    if isinstance(value, Tensor) and options.cpu_offload:
        value = value.cpu()
    return value


def _given_here(options: StateDictOptions) -> bool:
    alone = STATE.group is None or STATE.group.rank() == 0
    return alone or not (options.full_state_dict and options.cpu_offload)


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Incompatible:
    """Give a model its state back, from DTensors or whole tensors."""
    chosen = options or StateDictOptions()
    state = _spread(model_state_dict) if chosen.broadcast_from_rank0 else model_state_dict
    state = {_plain_name(k): v for k, v in state.items()}
    own: dict[str, Any] = {
        _plain_name(n): p for n, p in model.named_parameters(remove_duplicate=False)
    }
    names = {_plain_name(n) for n in model.state_dict()}
    buffers = {_plain_name(n): b for n, b in model.named_buffers(remove_duplicate=False)}
    own.update({n: b for n, b in buffers.items() if n in names})
    missing = sorted(set(own) - set(state))
    unexpected = sorted(set(state) - set(own))
    if chosen.strict and (missing or unexpected):
        raise RuntimeError(
            f"set_model_state_dict: missing {missing or 'nothing'}, unexpected "
            f"{unexpected or 'nothing'}"
        )
    with no_grad():
        for name, value in state.items():
            if name in own:
                own[name].copy_(_as_kept(name, own[name], value))
    return Incompatible(missing, unexpected)


@dataclass(frozen=True, slots=True)
class Incompatible:
    """The names that a state lacks, and those a model does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _spread(state: dict[str, Any]) -> dict[str, Any]:
    """The first process's state on every process."""
    names: list[Any] = [
        {k: (tuple(v.shape), v.dtype) if isinstance(v, Tensor) else v for k, v in state.items()}
    ]
    if STATE.group is None or STATE.group.size() == 1:
        return state
    broadcast_object_list(names, src=0)
    spread = {}
    for name, about in names[0].items():
        if not isinstance(about, tuple):
            spread[name] = about
            continue
        shape, dtype = about
        mine = STATE.group.rank() == 0
        value = state[name].detach().contiguous() if mine else empty(shape, dtype=dtype)
        broadcast(value, src=0)
        spread[name] = value
    return spread


def _as_kept(name: str, own: Any, value: Any) -> Any:
    """A value as its owner keeps it: of a DTensor, the same kind of part."""
    if tuple(own.shape) != tuple(value.shape):
        raise ShapeError(
            f"size mismatch for {name}: {tuple(value.shape)} in the state, {tuple(own.shape)} in "
            "the current model"
        )
    if isinstance(value, DTensor) and not isinstance(own, DTensor):
        return value.full_tensor()
    if isinstance(own, DTensor) and not isinstance(value, DTensor):
        layout = own._layout
        return as_dtensor(move(value.detach(), layout.replicated(), layout), layout)
    return value


def _entry(parameter: Any, value: Any) -> Any:
    """An entry of an optimizer's state: a DTensor where it is one number for each element kept."""
    if not isinstance(parameter, DTensor) or not isinstance(value, Tensor):
        return value
    if isinstance(value, DTensor) or value.shape != part_of(parameter).shape or not value.ndim:
        return value
    return as_dtensor(value, parameter._layout)


def _init_optim_state(optimizer: Any) -> None:
    """Make an optimizer's state, as its first step would, without changing a parameter."""
    if optimizer.state or not hasattr(optimizer, "prepare_state"):
        return
    params = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
    bare = [p for p in params if p.grad is None]
    for p in bare:
        p.grad = zeros_like(p)
    optimizer.prepare_state()
    for p in bare:
        p.grad = None


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """An optimizer's state by the names of the model's parameters."""
    if isinstance(optimizers, (list, tuple)) and len(optimizers) == 1:
        (optimizers,) = optimizers
    chosen = options or StateDictOptions()
    _init_optim_state(optimizers)
    names = {id(p): _plain_name(n) for n, p in model.named_parameters()}
    state: dict[str, Any] = {
        names[id(parameter)]: {
            key: _shown(_entry(parameter, value), chosen) for key, value in state.items()
        }
        for parameter, state in _in_order(optimizers)
    }
    groups = [
        {
            **{k: v for k, v in g.items() if k != "params"},
            "params": [names[id(p)] for p in g["params"]],
        }
        for g in optimizers.param_groups
    ]
    return {"state": state, "param_groups": groups} if _given_here(chosen) else {}


def _in_order(optimizer: Any) -> Iterable[tuple[Any, Any]]:
    """Parameters and their state, in the order that all processes have."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter in optimizer.state:
                yield parameter, optimizer.state[parameter]


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Give an optimizer its state back."""
    if isinstance(optimizers, (list, tuple)) and len(optimizers) == 1:
        (optimizers,) = optimizers
    if options is not None and options.broadcast_from_rank0:
        raise NotImplementedError(
            "set_optimizer_state_dict: broadcast_from_rank0 is not supported; load a checkpoint "
            "with distributed.checkpoint.load, or give every process the state"
        )
    named = {_plain_name(n): p for n, p in model.named_parameters()}
    for name, entries in optim_state_dict["state"].items():
        parameter = named[_plain_name(name)]
        state_of_parameter = optimizers.state[parameter]
        for key, value in entries.items():
            fitted = value
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim:
                fitted = _as_kept(f"{name} {key}", parameter, value)
            state_of_parameter[key] = fitted.clone() if isinstance(fitted, Tensor) else fitted
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
