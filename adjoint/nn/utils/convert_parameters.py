"""Parameters as one flat vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import type_name


def _check_device(tensor: Tensor, first: Tensor) -> None:
    if tensor.device != first.device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.utils.parameters_to_vector(ad.nn.Linear(3, 2).parameters()).shape
        adjoint.Size([8])
    """
    listed = list(parameters)
    for parameter in listed:
        _check_device(parameter, listed[0])
    return cat([parameter.reshape(-1) for parameter in listed])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make parameters show consecutive pieces of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type_name(vec)}")
    start = 0
    listed = list(parameters)
    parameter: Any
    for parameter in listed:
        _check_device(parameter, listed[0])
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view(parameter.shape).data
        start = stop
