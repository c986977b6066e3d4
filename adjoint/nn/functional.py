"""The functions behind the layers: stateless, parameters passed as arguments."""

from typing import Any

from adjoint import assembly as _assembly

globals().update(_assembly.namespace("nn.functional"))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'adjoint.nn.functional' has no attribute {name!r}. If PyTorch has it, Adjoint "
        "does not yet."
    )
