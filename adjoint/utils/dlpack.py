"""Tensors to and from other libraries, without copies."""

from enum import IntEnum
from typing import Any

from adjoint.engine.backends.array.interop import from_dlpack as from_dlpack
from adjoint.engine.tensor.tensor import Tensor


class DLDeviceType(IntEnum):
    """The devices of DLPack, by its numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule on a tensor's memory."""
    return tensor.__dlpack__()
