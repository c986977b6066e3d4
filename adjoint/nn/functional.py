"""The functions behind the layers: stateless, parameters passed as arguments.

Names are those of the public table under "nn.functional"; families that wait for first use load
when one of theirs is asked for. Where they are: `engine/ops/nn` (activations, attention, losses),
`engine/ops/image` (convolution, pooling), `engine/ops/products/linear.py`.
"""

from typing import Any

from adjoint.engine import assembly as _assembly
from adjoint.engine.core.state.loading import brought as _brought


def __getattr__(name: str) -> Any:
    if name == "grad":  # PyTorch has its module here
        return _brought("adjoint.nn.grad")
    if name in ("ScalingType", "SwizzleType"):
        return getattr(_brought("adjoint.nn.scaling"), name)
    if not name.startswith("__"):
        value = _assembly.find_in("nn.functional", name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'adjoint.nn.functional' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_assembly.namespace("nn.functional")})
