"""State of models and optimizers, sharded or not, under the names of parameters without wrappers.

What names are is in `checkpoint.naming`; what an optimizer is given back, in `optimizer_state`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from adjoint.distributed.checkpoint.flattening import flatten_state
from adjoint.distributed.checkpoint.materialising import materialise
from adjoint.distributed.checkpoint.naming import (
    names_of_parameters,
    plain_name,
    prefixes_of,
    unwrapped,
    within,
)
from adjoint.distributed.checkpoint.optimizer_state import (
    _init_optim_state as _init_optim_state,
)
from adjoint.distributed.checkpoint.optimizer_state import (
    entry_of,
    give_back,
    states_in_order,
)
from adjoint.distributed.checkpoint.spreading import (
    announce,
    device_of_messages,
    map_leaves,
    receive,
)
from adjoint.distributed.tensor.dtensor import DTensor
from adjoint.distributed.tensor.fitting import as_kept
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.state.processes import STATE
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


@dataclass(slots=True)
class StateDictOptions:
    """What states are given and taken.

    Args:
        full_state_dict: whole tensors rather than DTensors.
        cpu_offload: tensors on the host; with `full_state_dict`, only the first process is given
            the state, and the others an empty one.
        ignore_frozen_params: without parameters that do not require gradients.
        keep_submodule_prefixes: whether names of submodules' tensors begin with the submodule's.
        strict: whether a state must have all the names of the model, and no others, and an
            optimizer's all of its parameters.
        broadcast_from_rank0: the first process has the (whole) state, and sends it to the others,
            which need not have any. Asks for `full_state_dict`.
        flatten_optimizer_state_dict: an optimizer's state as one flat dict.
        dsd_fqn_modifiers: the name of the method by which a class says which inner modules' names
            its hooks leave out: `{name in the state: inner module}`.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class Incompatible(NamedTuple):
    """The names that a state lacks, and those a model does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    chosen = options or StateDictOptions()
    if chosen.broadcast_from_rank0 and not chosen.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return chosen


def _prefixes(model: Any, submodules: Any, options: StateDictOptions) -> list[str] | None:
    """What names begin with where submodules are asked for; None: all names are."""
    if not submodules:
        return None
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. "
        "This feature can be achieved by manually filtering out the state_dict returned from "
        "get_state_dict.",
        FutureWarning,
        stacklevel=3,
    )
    prefixes = prefixes_of(model, submodules, options.dsd_fqn_modifiers)
    if len(prefixes) > 1 and not options.keep_submodule_prefixes:
        raise ValueError(
            "keep_submodule_prefixes=False: names of several submodules may be the same; give one"
        )
    return prefixes


def _shown(value: Any, options: StateDictOptions) -> Any:
    if isinstance(value, DTensor) and options.full_state_dict:
        with no_grad():
            value = value.full_tensor()
    if isinstance(value, Tensor) and options.cpu_offload:
        value = value.cpu()
    return value


def _entries_shown(parameter: Any, entries: dict[Any, Any], options: StateDictOptions) -> Any:
    return map_leaves(entries, lambda _, value: _shown(entry_of(parameter, value), options))


def _given_here(options: StateDictOptions) -> bool:
    alone = STATE.group is None or STATE.group.rank() == 0
    return alone or not (options.full_state_dict and options.cpu_offload)


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state: DTensors where it is divided, or whole tensors if the options say so.

    Args:
        model: the model. Every process calls this.
        submodules: some of its modules, where only theirs is wanted.
        options: what is given, and of what kind.

    Example:
        >>> import adjoint as ad
        >>> list(get_model_state_dict(ad.compile(ad.nn.Linear(1, 1))))
        ['weight', 'bias']
    """
    chosen = _checked(options)
    model = unwrapped(model)
    prefixes = _prefixes(model, submodules, chosen)
    left_out: set[str] = set()
    if chosen.ignore_frozen_params:
        names = names_of_parameters(model, chosen.dsd_fqn_modifiers)
        for p in model.parameters():
            left_out.update(names[id(p)] if not p.requires_grad else ())
    state = {}
    for key, value in _own_state(model).items():
        name = plain_name(model, key, chosen.dsd_fqn_modifiers)
        given = within(name, prefixes, keep=chosen.keep_submodule_prefixes)
        if given is not None and name not in left_out:
            state[given] = _shown(value, chosen)
    return state if _given_here(chosen) else {}


def _own_state(model: Module) -> dict[str, Any]:
    """A model's state, of parameters that are divided this process's parts."""
    if not any(getattr(type(m), "_gathers_state", False) for m in model.modules()):
        return dict(model.state_dict())
    state = model.state_dict(keep_vars=True)
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in state.items()}


def _by_names(model: Any, state: Any, modifiers: str) -> dict[str, Any]:
    """A state by names, also where it was given by submodules."""
    if not any(isinstance(key, Module) for key in state):
        return dict(state)
    warnings.warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will "
        "be removed in 2.5. If you need this feature, please preprocess the model_state_dict to "
        "achieve the same functionality.",
        FutureWarning,
        stacklevel=3,
    )
    named = {}
    for module, inner in state.items():
        (prefix,) = prefixes_of(model, [module], modifiers)
        named.update({prefix + name: value for name, value in inner.items()})
    return named


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[Any, Any], *, options: StateDictOptions | None = None
) -> Incompatible:
    """Give a model its state back, from DTensors or whole tensors.

    Parameters and buffers on the meta device are made where the model's others are.

    Args:
        model: the model. Every process calls this.
        model_state_dict: the state, by names without wrappers; or `{submodule: its state}`.
        options: see `StateDictOptions`.

    Returns:
        The names that were missing, and those that have no place.
    """
    chosen = _checked(options)
    model = unwrapped(model)
    modifiers = chosen.dsd_fqn_modifiers
    given: Any = _by_names(model, model_state_dict, modifiers)
    announced = announce(given) if chosen.broadcast_from_rank0 else given
    materialise(model, lambda key: plain_name(model, key, modifiers) in announced)
    own = {plain_name(model, key, modifiers): (key, v) for key, v in _own_state(model).items()}

    def fit(name: str, value: Any) -> Any:
        if name in own and isinstance(value, Tensor):
            return as_kept(name, own[name][1], value)
        return value

    with no_grad():
        if chosen.broadcast_from_rank0:
            device = device_of_messages()
            fitted = receive(announced, given, lambda path, v: fit(path[0], v), device)
        else:
            fitted = {name: fit(name, value) for name, value in given.items()}
    missing = [name for name in own if name not in fitted]
    unexpected = [name for name in fitted if name not in own]
    if chosen.strict and (missing or unexpected):
        raise RuntimeError(
            f"set_model_state_dict: missing {sorted(missing) or 'nothing'}, unexpected "
            f"{sorted(unexpected) or 'nothing'}"
        )
    model.load_state_dict(
        {own[name][0]: value for name, value in fitted.items() if name in own}, strict=False
    )
    return Incompatible(missing, unexpected)


def _listed(optimizers: Any) -> list[Any]:
    return [optimizers] if hasattr(optimizers, "param_groups") else list(optimizers)


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The state of an optimizer, or of several, by the names of the model's parameters.

    Args:
        model: the model. Every process calls this.
        optimizers: one or several that have its parameters.
        submodules: some of its modules, where only their parameters' is wanted.
        options: what is given, and of what kind.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Linear(1, 1, bias=False)
        >>> optimizer = ad.optim.SGD(net.parameters(), lr=0.5)
        >>> options = StateDictOptions(flatten_optimizer_state_dict=True)
        >>> get_optimizer_state_dict(net, optimizer, options=options)["param_groups.weight.lr"]
        0.5
    """
    chosen = _checked(options)
    model = unwrapped(model)
    prefixes = _prefixes(model, submodules, chosen)
    names = names_of_parameters(model, chosen.dsd_fqn_modifiers)

    def name_of(parameter: Any) -> str | None:
        if id(parameter) not in names:
            raise RuntimeError(
                f"get_optimizer_state_dict: the optimizer has a parameter of shape "
                f"{tuple(parameter.shape)} that is not one of the model's"
            )
        return within(names[id(parameter)][0], prefixes, keep=chosen.keep_submodule_prefixes)

    states: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _listed(optimizers):
        _init_optim_state(optimizer)
        for parameter, entries in states_in_order(optimizer):
            name = name_of(parameter)
            if name is not None:
                states[name] = _entries_shown(parameter, dict(entries), chosen)
        for group in optimizer.param_groups:
            params = [name for p in group["params"] if (name := name_of(p)) is not None]
            if params or not group["params"]:
                rest = {k: v for k, v in group.items() if k != "params"}
                groups.append(
                    {**map_leaves(rest, lambda _, v: _shown(v, chosen)), "params": params}
                )
    state: dict[str, Any] = {"state": states, "param_groups": groups}
    if chosen.flatten_optimizer_state_dict:
        state = flatten_state(state)
    return state if _given_here(chosen) else {}


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: Mapping[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Give an optimizer, or several, their state back; before backward, or after a step.

    Args:
        model: the model. Every process calls this.
        optimizers: one or several that have its parameters.
        optim_state_dict: the state by names, flat or not; there may be more in it.
        options: see `StateDictOptions`.
    """
    chosen = _checked(options)
    model = unwrapped(model)
    give_back(
        model, _listed(optimizers), optim_state_dict, strict=chosen.strict,
        spread=chosen.broadcast_from_rank0, modifiers=chosen.dsd_fqn_modifiers,
    )  # fmt: skip


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The states of a model and of its optimizers."""
    optimizers = _listed(optimizers)
    state = get_model_state_dict(model, submodules=submodules, options=options)
    if not optimizers:
        return state, {}
    return state, get_optimizer_state_dict(
        model, optimizers, submodules=submodules, options=options
    )


def set_state_dict(
    model: Module, optimizers: Any, *, model_state_dict: Mapping[Any, Any],
    optim_state_dict: Mapping[str, Any], options: StateDictOptions | None = None,
) -> Incompatible:  # fmt: skip
    """Give a model and its optimizers their states back."""
    optimizers = _listed(optimizers)
    loaded = set_model_state_dict(model, model_state_dict, options=options)
    if optimizers:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return loaded
