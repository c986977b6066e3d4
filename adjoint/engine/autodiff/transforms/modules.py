"""Modules as functions of their parameters: functional_call, stack_module_state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.engine.ops.shape.join import stack

MISSING = object()


def _owner(module: Any, path: str) -> tuple[Any, str]:
    """The submodule a dotted name lives in, and its name there."""
    *above, name = path.split(".")
    for part in above:
        module = getattr(module, part)
    return module, name


def _set(owner: Any, name: str, value: Any) -> Any:
    """Put a tensor where a parameter or buffer was; returns what was there."""
    for table in (getattr(owner, "_parameters", {}), getattr(owner, "_buffers", {})):
        if name in table:
            before = table[name]
            table[name] = value
            return before
    before = owner.__dict__.get(name, MISSING)
    if value is MISSING:
        del owner.__dict__[name]
    else:
        owner.__dict__[name] = value
    return before


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors, under every name their originals have."""
    names: dict[int, list[str]] = {}
    for kind in ("named_parameters", "named_buffers"):
        for name, tensor in getattr(module, kind)(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    group_of = {name: group for group in names.values() for name in group}
    full = dict(given)
    for name, tensor in given.items():
        for other in group_of.get(name, ()):
            if other in given and given[other] is not tensor:
                raise ValueError(
                    f"functional_call: got multiple values for keys {[name, other]}, which are "
                    "tied. Consider using tie_weights=False"
                )
            full.setdefault(other, tensor)
    return full


@contextmanager
def swapped(module: Any, tensors: dict[str, Any], *, tie: bool, strict: bool) -> Iterator[None]:
    """The module with other parameters and buffers, for a block.

    Those that the block replaces by others are in `tensors` after it.
    """
    given = tensors
    known = dict(module.named_parameters(remove_duplicate=False)) | dict(
        module.named_buffers(remove_duplicate=False)
    )
    if strict:
        missing = sorted(set(known) - set(_tied(module, tensors) if tie else tensors))
        unexpected = sorted(set(tensors) - set(known))
        if missing or unexpected:
            raise RuntimeError(
                f"functional_call: in strict mode; missing keys: {missing}, unexpected keys: "
                f"{unexpected}"
            )
    if tie:
        tensors = _tied(module, tensors)
    done: list[tuple[str, Any, str, Any]] = []
    try:
        for path, tensor in tensors.items():
            owner, name = _owner(module, path)
            done.append((path, owner, name, _set(owner, name, tensor)))
        yield
    finally:
        for path, owner, name, before in reversed(done):
            left = _set(owner, name, before)
            if path in given and given[path] is not left:
                given[path] = left


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers in place of its own."""
    tensors: dict[str, Any] = {}
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Mapping):
        tensors = dict(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        for members in parameter_and_buffer_dicts:
            repeated = set(tensors) & set(members)
            if repeated:
                raise ValueError(
                    f"functional_call: {sorted(repeated)} appeared in multiple dictionaries"
                )
            tensors |= members
    else:
        raise ValueError(
            "functional_call: expected parameter_and_buffer_dicts to be a dict, or a list/tuple "
            f"of dicts, but got {type(parameter_and_buffer_dicts)}"
        )
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, tensors, tie=tie_weights, strict=strict):
        return module(*given, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of modules of one architecture, stacked by name."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = {
        name: _stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: stack([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return params, buffers


def _stacked(tensors: list[Any]) -> Any:
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) != 1:
        raise RuntimeError(
            "stack_module_state: Expected parameters of all models to have the same requires_grad."
        )
    return stack([t.detach() for t in tensors]).requires_grad_(wanted.pop())


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make the batch norms in a module use the batch's statistics only, so that `vmap` can.

    Running statistics are written in place, which no transform of the input's batch allows.
    """
    for module in root.modules():
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if "_BatchNorm" in kinds and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
