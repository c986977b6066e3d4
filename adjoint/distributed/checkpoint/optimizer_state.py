"""An optimizer's state taken and given back by the names of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adjoint.distributed.checkpoint.flattening import split_key, unflatten_state
from adjoint.distributed.checkpoint.naming import names_of_parameters
from adjoint.distributed.checkpoint.spreading import (
    announce,
    device_of_messages,
    map_leaves,
    receive,
)
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.fitting import as_kept
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


def entry_of(parameter: Any, value: Any) -> Any:
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


def states_in_order(optimizer: Any) -> Iterator[tuple[Any, Any]]:
    """Parameters and their state, in the order that all processes have."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter in optimizer.state:
                yield parameter, optimizer.state[parameter]


def give_back(
    model: Module, optimizers: list[Any], state: Mapping[str, Any], *, strict: bool, spread: bool,
    modifiers: str,
) -> None:  # fmt: skip
    """Give optimizers what is theirs in a state: see `set_optimizer_state_dict`."""
    names = names_of_parameters(model, modifiers)
    parameters = {n: p for p in model.parameters() for n in names[id(p)]}

    def fit(path: tuple[Any, ...], value: Any) -> Any:
        flat = split_key(str(path[0]), parameters)
        section, name = flat[:2] if flat is not None else (*path, None)[:2]
        owner = parameters.get(str(name)) if section == "state" else None
        return value if owner is None else fitted(".".join(map(str, path)), owner, value)

    with no_grad():
        if spread:
            whole: Any = receive(announce(state), state, fit, device_of_messages())
        else:
            whole = map_leaves(state, lambda path, v: fit(path, v) if isinstance(v, Tensor) else v)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            strangers = [p for p in group["params"] if id(p) not in names]
            if strangers:
                raise RuntimeError(
                    "set_optimizer_state_dict: the optimizer has a parameter of shape "
                    f"{tuple(strangers[0].shape)} that is not one of the model's"
                )
        groups = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
        if "state" in whole and "param_groups" in whole:
            mine = by_names(whole, groups, alone=len(optimizers) == 1)
        else:
            mine = unflatten_state(whole, groups)
        take_states(optimizer, groups, mine["state"], strict=strict)
        take_options(optimizer, groups, mine["param_groups"], strict=strict)


def fitted(what: str, parameter: Any, value: Any) -> Any:
    """An entry as it is kept beside a parameter; memory of its own."""
    if value.ndim and value.shape == parameter.shape:
        return as_kept(what, parameter, value).clone()
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value.clone()


def by_names(state: Any, groups: list[list[list[str]]], *, alone: bool) -> Any:
    """A state by names, also where it is by numbers, as `optimizer.state_dict` gives it."""
    numbered = [key for key in state["state"] if isinstance(key, int)]
    numbered += [p for g in state["param_groups"] for p in g["params"] if isinstance(p, int)]
    if not numbered:
        return state
    names = [aliases[0] for group in groups for aliases in group]
    if not alone or max(numbered) >= len(names):
        raise RuntimeError(
            "set_optimizer_state_dict: the state is by numbers of parameters, of another optimizer "
            "or of one among several. Take it with get_optimizer_state_dict."
        )
    return {
        "state": {names[key]: entries for key, entries in state["state"].items()},
        "param_groups": [
            {**g, "params": [names[p] for p in g["params"]]} for g in state["param_groups"]
        ],
    }


def take_states(
    optimizer: Any, groups: list[list[list[str]]], states: Mapping[str, Any], *, strict: bool
) -> None:
    """Entries for each parameter, under any of its names."""
    for group, named in zip(optimizer.param_groups, groups, strict=True):
        for parameter, aliases in zip(group["params"], named, strict=True):
            name = next((n for n in aliases if n in states), None)
            if name is None:
                if strict and states and parameter.requires_grad:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{aliases[0]}' in checkpoint. The "
                        "parameter requires gradients but has no saved optimizer state. To load "
                        "anyway, use StateDictOptions(strict=False)."
                    )
                continue
            kept = optimizer.state[parameter]
            for key, value in states[name].items():
                old = kept.get(key)
                place = old.device if isinstance(old, Tensor) else None
                moved = place is not None and isinstance(value, Tensor) and not value.ndim
                kept[key] = value.to(place) if moved else value


def take_options(
    optimizer: Any, groups: list[list[list[str]]], saved: list[dict[str, Any]], *, strict: bool
) -> None:
    """The options of each group: of the saved one that has its parameters."""
    for group, named in zip(optimizer.param_groups, groups, strict=True):
        names = {name for aliases in named for name in aliases}
        found = [g for g in saved if names & set(g["params"])] if names else []
        if not names:
            found = [g for g in saved if not g["params"]]
            if len(found) != 1:
                raise ValueError(
                    "There are param groups that have zero parameters. In such a case, DSD only "
                    "support exactly one param group with zero parameters."
                )
        options = [{k: v for k, v in g.items() if k not in NAMES} for g in found]
        if any(other != options[0] for other in options[1:]):
            raise RuntimeError(
                f"set_optimizer_state_dict: parameters of one group ({sorted(names)[0]!r}, ...) "
                "are in several groups of the state, whose options differ"
            )
        if options:
            group.update(options[0])
        elif strict:
            raise RuntimeError(
                f"set_optimizer_state_dict: no group of the state has {sorted(names)[0]!r}. To "
                "load anyway, use StateDictOptions(strict=False)."
            )


NAMES = ("params", "param_names")
