"""The functions behind the layers: stateless, parameters passed as arguments.

Names are those of the public table under "nn.functional"; families that wait for first use load
when one of theirs is asked for. Where they are: `engine/ops/nn` (activations, attention, losses),
`engine/ops/image` (convolution, pooling), `engine/ops/products/linear.py`.
"""

from typing import Any

from adjoint.engine import assembly as _assembly
from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.core.state.loading import lacking as _lacking

# What PyTorch has here beside its functions, and where it is.
_BESIDE = {
    "ScalingType": "adjoint.nn.scaling",
    "SwizzleType": "adjoint.nn.scaling",
    "Tensor": "adjoint.engine.tensor.tensor",
    "GRID_SAMPLE_INTERPOLATION_MODES": "adjoint.nn.grid_modes",
    "GRID_SAMPLE_PADDING_MODES": "adjoint.nn.grid_modes",
    **dict.fromkeys(
        ("BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "boolean_dispatch"),
        "adjoint._jit_internal",
    ),
    **dict.fromkeys(
        (
            "_Reduction",
            "_canonical_mask",
            "_get_softmax_dim",
            "_in_projection",
            "_in_projection_packed",
            "_mha_shape_check",
            "_none_or_dtype",
            "_verify_batch_size",
        ),
        "adjoint.nn.copied_layers",
    ),
    **dict.fromkeys(
        (
            "handle_torch_function",
            "has_torch_function",
            "has_torch_function_unary",
            "has_torch_function_variadic",
        ),
        "adjoint.overrides",
    ),
}


def __getattr__(name: str) -> Any:
    if name == "grad":  # PyTorch has its module here
        return _brought("adjoint.nn.grad")
    if name in _BESIDE:
        return getattr(_brought(_BESIDE[name]), name)
    if not name.startswith("__"):
        value = _assembly.find_in("nn.functional", name)
        globals()[name] = value
        return value
    raise _lacking(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_assembly.namespace("nn.functional")})
