"""`torch._dynamo.config`: one setting has a meaning here, and the others say that they have none.

`recompile_limit` (also `cache_size_limit`) is the number of recordings of one function after which
a warning tells what varies; there is no limit on the recordings themselves.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

from adjoint.engine.capture import retracing

LIMITS = ("cache_size_limit", "recompile_limit")
# Settings of PyTorch's that programs change, with its defaults.
WITHOUT_EFFECT = {
    "accumulated_cache_size_limit": 256,
    "accumulated_recompile_limit": 256,
    "allow_unspec_int_on_nn_module": False,
    "assume_static_by_default": True,
    "automatic_dynamic_shapes": True,
    "capture_dynamic_output_shape_ops": False,
    "capture_scalar_outputs": False,
    "compiled_autograd": False,
    "disable": False,
    "dynamic_shapes": True,
    "error_on_recompile": False,
    "force_parameter_static_shapes": True,
    "guard_nn_modules": True,
    "inline_inbuilt_nn_modules": True,
    "log_level": 30,
    "optimize_ddp": True,
    "suppress_errors": False,
    "verbose": False,
}


class Settings(ModuleType):
    """The module's class, for the sake of assignments to its attributes."""

    def __getattr__(self, name: str) -> Any:
        if name in LIMITS:
            return retracing.LIMIT
        if name in WITHOUT_EFFECT:
            return WITHOUT_EFFECT[name]
        raise AttributeError(
            f"torch._dynamo.config.{name}: Adjoint knows no such setting",
            name=name,
            obj=self,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name in LIMITS:
            retracing.LIMIT = int(value)
        elif getattr(self, name) != value:
            warnings.warn(
                f"torch._dynamo.config.{name} = {value!r} has no effect in Adjoint "
                "(see docs/compile.md for what compile does instead)",
                stacklevel=2,
            )


sys.modules[__name__].__class__ = Settings
