"""`fully_shard`: parameters, gradients and optimizer state divided among processes (ZeRO-3).

What a unit does is in `sharded.unit`: Note [gathered parameters].
"""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.groups.group import resolve
from adjoint.distributed.sharded.offload import computing_device, offloads
from adjoint.distributed.sharded.unit import GatheredUnit, own_modules
from adjoint.distributed.sharded.unit import MixedPrecisionPolicy as MixedPrecisionPolicy
from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.engine.core.device import Device
from adjoint.nn.modules.container import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module


class FSDPModule:
    """What `fully_shard` makes of a module: the same, with these methods."""

    _unit: GatheredUnit

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError(  # a copy's forward would be the original's
            "FSDP does not support deepcopy. Please use state dict for serialization."
        )

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Accepted: gradients are averaged in every backward, which adds up to the same."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: gradients are averaged in every backward."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Accepted: it changes when parameters are gathered, and no result."""

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Accepted: it changes when parameters are gathered, and no result."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether backward gathers parameters again."""
        modules: Any = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        for module in modules:
            if isinstance(module, FSDPModule):
                module._unit.reshard = reshard_after_forward

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Accepted: gradients are averaged in every backward, which adds up to the same."""

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Accepted: every forward gathers parameters anew; it changes no result."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: a backward gathers what it needs; it changes no result."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: how an average is formed on the way changes no result but its rounding."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: where memory comes from changes no result."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Refused, but for the number of processes: gradients are averages."""
        if factor != self._unit.mesh.size():
            raise NotImplementedError(
                f"set_gradient_divide_factor({factor}): gradients are averages over "
                f"{self._unit.mesh.size()} processes. Scale the loss instead."
            )

    set_reduce_scatter_divide_factor = set_gradient_divide_factor  # an older name

    def unshard(self, async_op: bool = False) -> None:
        """Accepted, as a hint to gather early: parameters are gathered by forward."""

    def reshard(self) -> None:
        """Accepted: what was gathered goes with the call or the backward that needed it."""


def line_of(mesh: Any, module: Module, *, offload: bool) -> DeviceMesh:
    """The mesh that was given, or the processes of a group in one line."""
    if isinstance(mesh, DeviceMesh):
        if mesh.ndim > 2:
            raise ValueError(
                f"fully_shard expects a mesh of one or two dimensions, received {mesh.ndim}"
            )
        return mesh
    group = resolve(mesh)
    first = next(iter(module.parameters()), None)
    kind = "cpu" if first is None or first.device.type == "meta" else first.device.type
    if offload and "nccl" in group.backend and is_available():
        kind = "cuda"  # parameters wait on the host for it
    return DeviceMesh(kind, list(group.ranks), _groups=[group])


def tie_again(module: Any, _: Any) -> None:
    """Look at what a unit was loaded with."""
    module._unit.parts()


def move_buffers(module: Module, device: Device) -> None:
    """Bring buffers, which are not divided, to where a unit computes."""
    for owner in own_modules(module):
        for name, buffer in owner._buffers.items():
            if buffer is not None and buffer.device.type != "meta":
                owner._buffers[name] = buffer.to(device)


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: Any = None,
    ignored_params: Any = None,
) -> Any:
    """Divide a module's parameters among the processes of a mesh; inner modules first.

    Each process keeps some rows of each parameter (a DTensor placed `Shard(0)`), with its gradient
    and optimizer state; forward and backward gather the whole ones of a unit when they need them.
    Gradients are averages over the processes. Optimizers that treat elements alone (SGD, Adam, ...)
    work as they do on whole parameters; those of ours that do not refuse.

    Args:
        module: the module; every call makes one unit of what inner calls have left. It becomes an
            `FSDPModule`.
        mesh: a mesh of one dimension, or of two: repeated along the first; or a group. All
            processes unless given.
        reshard_after_forward: whether backward gathers again; the default.
        shard_placement_fn: not supported.
        mp_policy: the dtypes to compute and to reduce in.
        offload_policy: `CPUOffloadPolicy()` keeps parts, gradients and optimizer state on the host.
        ignored_params: parameters that stay whole; their gradients are not averaged.

    Returns:
        The module.
    """
    if shard_placement_fn is not None:
        raise NotImplementedError("fully_shard: shard_placement_fn is not supported")
    offload = offloads(offload_policy)
    if isinstance(module, (list, tuple)):
        return [
            fully_shard(m, mesh=mesh, reshard_after_forward=reshard_after_forward,
                        mp_policy=mp_policy, offload_policy=offload_policy,
                        ignored_params=ignored_params)
            for m in module
        ]  # fmt: skip
    if hasattr(module, "_unit"):
        raise ValueError("fully_shard: this module is sharded already")
    if isinstance(module, (ModuleList, ModuleDict)):
        raise ValueError(
            f"fully_shard does not support containers that do not implement forward: "
            f"{type(module).__name__}. Shard the modules in it."
        )
    reshard = reshard_after_forward is not False
    ignored = {id(p) for p in ignored_params or ()}
    line = line_of(mesh, module, offload=offload)
    if offload:
        move_buffers(module, computing_device(line))
    precision = mp_policy or MixedPrecisionPolicy()
    unit = GatheredUnit(module, line, precision, reshard, ignored, offload)
    forward = module.forward
    object.__setattr__(module, "_unit", unit)
    # Names of one parameter that a loaded state gave two tensors have one again.
    module.register_load_state_dict_post_hook(tie_again)
    if unit.places:
        object.__setattr__(
            module, "forward", lambda *inputs, **kwargs: unit.call(forward, inputs, kwargs)
        )
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Have another method of a sharded module see whole parameters, as `forward` does.

    Args:
        module: a module; where it is not sharded nothing is changed.
        method_name: the method, for example "generate".
    """
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"{type(module).__name__} does not have a method {method_name}")
    unit = getattr(module, "_unit", None)
    if unit is not None and unit.places:
        object.__setattr__(
            module, method_name, lambda *inputs, **kwargs: unit.call(method, inputs, kwargs)
        )
