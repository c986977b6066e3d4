"""Making a module without using up random numbers."""

from __future__ import annotations

import inspect
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import default_generator
from adjoint.nn.modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters' values are not meant to be used, as before loading weights.

    The random generator is left where it was.

    Args:
        module_cls: the class of the module, which must take a `device`.
        args, kwargs: what to construct it with.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.utils.skip_init(ad.nn.Linear, 5, 1)
        Linear(in_features=5, out_features=1, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    before = default_generator.get_state()
    try:
        with CONTEXT.having(initialise=False):
            return module_cls(*args, **kwargs)
    finally:
        default_generator.set_state(before)
