"""Parts of parameters that lie on the host while they are not used.

Note [parts on the host]
    With `CPUOffloadPolicy` parts, their gradients and so the optimizer's state lie on the host. A
    unit's parts are moved to the mesh's device as one flat tensor before they are gathered; the
    derivative of that move brings gradients back. On a mesh of CPUs nothing has to be moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.engine.backends.array.gpu.cuda import current_device
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class OffloadPolicy:
    """Nothing is offloaded."""


@dataclass(frozen=True, slots=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Parts, gradients and the optimizer's state on the host, moved for computing.

    Args:
        pin_memory: accepted: it changes how fast parts are moved, and no result.
    """

    pin_memory: bool = True


def offloads(policy: Any) -> bool:
    """Whether a policy keeps parts on the host; others than PyTorch's two are refused."""
    if policy is None or type(policy) is OffloadPolicy:
        return False
    if isinstance(policy, CPUOffloadPolicy):
        return True
    raise NotImplementedError(
        f"fully_shard: offload_policy is OffloadPolicy() or CPUOffloadPolicy(), received {policy!r}"
    )


def computing_device(mesh: DeviceMesh) -> Device:
    """Where this process of a mesh computes."""
    return Device("cuda", current_device()) if mesh.device_type == "cuda" else CPU


def require_on_host(name: str, part: Tensor) -> None:
    """Refuse a part that was put elsewhere after all."""
    if part.device.type not in ("cpu", "meta"):
        raise RuntimeError(
            "FSDP parameters should be materialized on CPU when enabling CPU offloading. For "
            'example, load a CPU state dict or call module.to_empty(device="cpu"). Found '
            f"{name!r} on {part.device}."
        )
