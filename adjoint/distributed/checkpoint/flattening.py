"""An optimizer's state as one flat dict, which states of several optimizers can be joined to.

state.layer.weight.exp_avg: a tensor         param_groups.layer.weight.lr: 0.1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from adjoint.engine.tensor.tensor import Tensor


def flatten_state(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """A flat dict of a state by names.

    >>> flatten_state({"state": {"w": {"step": 1}}, "param_groups": [{"lr": 0.1, "params": ["w"]}]})
    {'state.w.step': 1, 'param_groups.w.lr': 0.1}
    """
    flat: dict[str, Any] = {}
    for name, entries in state_dict["state"].items():
        flat.update(_flat_entries(entries, f"state.{name}"))
    for group in state_dict["param_groups"]:
        for name in group["params"]:
            flat.update({f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"})
    return flat


def _flat_entries(entries: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in entries.items():
        at = f"{prefix}.{key}"
        if isinstance(value, Mapping):
            yield from _flat_entries(value, at)
        elif isinstance(value, (Tensor, int, float)):
            yield at, value
        else:
            raise NotImplementedError(
                "Flattening optimizer state_dict only supports tensor, int, float, dict states "
                f"now. Type is {type(value)} ({at})."
            )


def split_key(key: str, names: Iterable[str]) -> tuple[str, str, list[str]] | None:
    """(section, parameter's name, what follows) of a flat key; None of a parameter not named.

    >>> split_key("state.layer.weight.exp_avg", {"layer.weight"})
    ('state', 'layer.weight', ['exp_avg'])
    """
    section, *parts = key.split(".")
    for end in range(1, len(parts)):
        name = ".".join(parts[:end])
        if name in names:
            return section, name, parts[end:]
    return None


def unflatten_state(flat: Mapping[str, Any], groups: list[list[list[str]]]) -> dict[str, Any]:
    """The state by names again.

    Args:
        flat: what `flatten_state` gave, of this optimizer or of several.
        groups: the names of each parameter (one that is tied has several) of each of the
            optimizer's groups.
    """
    names = {name for group in groups for aliases in group for name in aliases}
    state: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        found = split_key(key, names)
        if found is None:
            continue
        section, name, (*inner, last) = found
        if section == "param_groups":
            options.setdefault(name, {})[".".join((*inner, last))] = value
        elif section == "state":
            entries = state.setdefault(name, {})
            for part in inner:
                entries = entries.setdefault(part, {})
            entries[last] = value
    return {"state": state, "param_groups": [_group_of(group, options) for group in groups]}


def _group_of(group: list[list[str]], options: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One group's options, on which its parameters must agree."""
    params = [name for aliases in group for name in aliases if name in options]
    for name in params[1:]:
        for key, value in options[name].items():
            first = options[params[0]].get(key)
            if first is not value and not _alike(first, value):
                raise RuntimeError(
                    "All the parameters in the same parameter group should have the same saved "
                    f"param_group value. But {params[0]}.{key} is {first} while {name}'s is "
                    f"{value}."
                )
    return {**(options[params[0]] if params else {}), "params": params}


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.tolist() == other.tolist()
    return bool(one == other)
