"""Names of the tensors that a function reaches by itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from adjoint.engine.capture.capture import Captured
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.optim.optimizer import Optimizer


def state_names(fn: Any) -> dict[int, str]:
    """Names by the id of a tensor's storage: a module's own, an optimizer's after its tensors'."""
    names: dict[int, str] = {}
    reached = list(_reached(fn))
    modules = [(name, x) for name, x in reached if isinstance(x, Module)]
    for name, module in modules:
        stem = f"{name}." if len(modules) > 1 and name else ""
        for own, tensor in [*module.named_parameters(), *module.named_buffers()]:
            names.setdefault(id(tensor._storage), f"{stem}{own}")
    for name, x in reached:
        if isinstance(x, Tensor):
            names.setdefault(id(x._storage), name)
    for _, x in reached:
        if isinstance(x, Optimizer):
            for tensor, state in x.state.items():
                stem = names.get(id(tensor._storage), "parameter")
                for key, value in state.items():
                    if isinstance(value, Tensor):
                        names.setdefault(id(value._storage), f"{stem}.{key}")
    return names


def _reached(fn: Any) -> Iterator[tuple[str, Any]]:
    """What a function can name: itself, what it is bound to, its closure and globals."""
    if isinstance(fn, Captured):
        fn = fn.fn
    if isinstance(fn, Module):
        yield "", fn
        return
    owner = getattr(fn, "__self__", None)
    if owner is not None:
        yield "", owner
        yield from vars(owner).items() if hasattr(owner, "__dict__") else ()
    plain = inspect.unwrap(getattr(fn, "__func__", fn))
    try:
        closed = inspect.getclosurevars(plain)
    except (TypeError, ValueError):
        return
    for names in (closed.nonlocals, closed.globals):
        for name, value in names.items():
            yield name, value
            if isinstance(value, (list, tuple)):
                yield from ((f"{name}.{k}", x) for k, x in enumerate(value))
            elif isinstance(value, dict):
                yield from ((f"{name}.{k}", x) for k, x in value.items())
