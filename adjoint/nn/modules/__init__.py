"""The layers, one file per kind. Every class of `adjoint.nn` is found here too."""

from typing import Any as _Any

from adjoint.engine.core.operations.record import HOOKS as _HOOKS
from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.nn.modules.module import Module as Module

_HOOKS.recorded_by.append("adjoint.nn.modules.base.recorded")


def __getattr__(name: str) -> _Any:
    nn = _brought("adjoint.nn")
    layer = nn.__dict__.get(name)
    if isinstance(layer, type):
        return layer
    raise _lacking(__name__, name)
