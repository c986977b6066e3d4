"""Names that a model's tensors have wherever they are kept: without those of wrappers.

Note [names without wrappers]
    A wrapper (`DistributedDataParallel`, `FullyShardedDataParallel`, a compiled module, a
    checkpoint's) says in `_named_as_inner` under which name it has the module that it wraps. That
    name alone is left out: a module that a program calls `module` keeps its own. A class whose
    hooks leave out another inner module's name says so in `_fqn_modifiers()`.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.modules import is_compiled_module
from adjoint.nn.modules.module import Module


def inner_name(module: Any) -> str | None:
    """The name under which a wrapper has what it wraps; None of other modules."""
    if is_compiled_module(module):
        return "_orig_mod"
    name: str | None = getattr(type(module), "_named_as_inner", None)
    return name


def unwrapped(model: Any) -> Module:
    """What wrappers around a whole model wrap."""
    name = inner_name(model)
    while name is not None:
        model = getattr(model, name)
        name = inner_name(model)
    wrapped: Module = model
    return wrapped


def plain_name(model: Any, name: str, modifiers: str = "_fqn_modifiers") -> str:
    """A name of a parameter, a buffer or an entry of the state, as it is without wrappers.

    >>> import adjoint as ad
    >>> class Mine(ad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.module = ad.compile(ad.nn.Linear(1, 1))
    >>> plain_name(Mine(), "module._orig_mod.weight")
    'module.weight'
    """
    kept = []
    current: Any = model
    for part in name.split("."):
        if isinstance(current, Module):
            inner = inner_name(current)
            if part == inner:
                current = getattr(current, part)
                continue
            while inner is not None and part not in current._modules:  # left out by its hooks
                current = getattr(current, inner)
                inner = inner_name(current)
            left_out = getattr(current, modifiers, None)
            below = current._modules.get(part)
            if left_out is not None and below is not None and part in left_out().values():
                current = below
                continue
            current = below
        kept.append(part)
    return ".".join(kept)


def names_of_parameters(model: Module, modifiers: str) -> dict[int, list[str]]:
    """All the names of each parameter, by its id."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(plain_name(model, name, modifiers))
    return names


def prefixes_of(model: Module, submodules: Any, modifiers: str) -> list[str]:
    """What the names of submodules' tensors begin with."""
    chosen = {id(m) for m in submodules}
    found = {id(m): name for name, m in model.named_modules() if id(m) in chosen}
    if len(found) != len(chosen):
        raise ValueError("submodules: some are not modules of the model")
    plain = [plain_name(model, name, modifiers) for name in found.values()]
    return [f"{name}." if name else "" for name in plain]


def within(name: str, prefixes: list[str] | None, *, keep: bool) -> str | None:
    """A name as it is given where submodules are asked for; None if it is in none of them.

    >>> within("a.b.weight", ["a."], keep=True), within("a.b.weight", ["a."], keep=False)
    ('a.b.weight', 'b.weight')
    """
    if prefixes is None:
        return name
    for prefix in prefixes:
        if name.startswith(prefix):
            return name if keep else name.removeprefix(prefix)
    return None
