"""`fully_shard`: parameters, gradients and optimizer state divided among processes (ZeRO-3).

Note [gathered parameters]
    A unit is a module whose parameters are gathered together. Its forward sees whole parameters,
    computed from everybody's parts by one operation whose derivative averages gradients and gives
    each process its part. What backward needs of the whole parameters is not kept: the tape holds
    a note of which it was, and the unit is gathered again when backward asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from adjoint.distributed.communication.kernels import all_gather
from adjoint.distributed.communication.operations import ALL_REDUCE, REDUCE_SCATTER
from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.groups.group import ProcessGroup, resolve
from adjoint.distributed.sharded.offload import computing_device, offloads, require_on_host
from adjoint.distributed.sharded.parameter import gathered_shape, shard_parameter
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout, padded
from adjoint.engine.autodiff.tape.checkpoint import SURROUNDINGS
from adjoint.engine.autodiff.tape.early import EARLY_LEAVES
from adjoint.engine.autodiff.tape.saved import saved_tensors_hooks
from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.container import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module


@dataclass(frozen=True, slots=True)
class MixedPrecisionPolicy:
    """The dtypes a sharded module computes, reduces and answers in; None leaves them."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


def _average(g: Any, x_spec: Any, group: str, replicas: str | None, reduce_dtype: Any) -> Any:
    sent = g if reduce_dtype is None else g.to(reduce_dtype)
    mean = REDUCE_SCATTER(sent, group=group) / resolve(group).size()
    if replicas is not None:
        mean = ALL_REDUCE(mean, op="avg", group=replicas)
    return mean.to(x_spec.dtype)


# GATHER_PARTS(x): everybody's part, in rows; the transpose averages, as gradients are averaged.
GATHER_PARTS: Record = primitive(
    "gather_parts",
    lambda x, group, replicas, reduce_dtype: Spec(
        (resolve(group).size(), *x.shape), x.dtype, x.device
    ),
    _average,
)


@lowers(GATHER_PARTS)
def gather_parts(xp: Any, x: Any, group: str, replicas: str | None, reduce_dtype: Any) -> Any:
    """Everybody's part, in rows."""
    return all_gather(xp, x, group)


class GatheredUnit:
    """A module whose parameters are gathered together."""

    def __init__(
        self, module: Module, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard: bool,
        ignored: set[int], offload: bool,
    ) -> None:  # fmt: skip
        self.module, self.mesh, self.policy, self.reshard = module, mesh, policy, reshard
        self.offload = offload  # see Note [parts on the host]
        self.group: ProcessGroup = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0).group_name if mesh.ndim == 2 else None
        self.places: list[tuple[Module, str]] = []
        self.inside = False  # whether whole parameters are in the places of parts
        self.again: list[Tensor] | None = None  # gathered for backward
        self.watched: dict[int, Any] = {}
        for owner in own_modules(module):
            for name, parameter in list(owner._parameters.items()):
                if parameter is not None and id(parameter) not in ignored:
                    owner._parameters[name] = self._part(parameter)
                    self.places.append((owner, name))
        self.parts()

    def _part(self, parameter: Any) -> Any:
        """A parameter's part; of one that is tied, within the unit or with another, the same."""
        if is_part(parameter):
            return parameter
        part = parameter.__dict__.get("kept_as")
        if part is None:
            part = parameter.kept_as = shard_parameter(
                parameter, self.mesh, CPU if self.offload else None
            )
            part.fully_sharded = True
        return part

    def parts(self) -> list[Any]:
        """The parts that the modules have now, each once: `load_state_dict` may give others."""
        parts_by_id: dict[int, Any] = {}
        for owner, name in self.places:
            part: Any = owner._parameters[name]
            if not isinstance(part, DTensor):
                raise RuntimeError(
                    f"fully_shard: parameter {name!r} was replaced by a plain tensor. Load whole "
                    "tensors with checkpoint.state_dict.set_model_state_dict, or distribute_tensor "
                    "them first."
                )
            if self.offload:
                require_on_host(name, part)
            parts_by_id[id(part)] = part
        for key, part in parts_by_id.items():
            if key not in self.watched:
                self.watched[key] = part
                part.fully_sharded = True
                if part.requires_grad:
                    EARLY_LEAVES[key] = part
                    part.register_post_accumulate_grad_hook(self._forget)
        return list(parts_by_id.values())

    def _forget(self, part: Tensor) -> None:
        self.again = None

    def gather(self) -> list[Tensor]:
        """The whole parameters, from everybody's parts: one message for each dtype."""
        parts = self.parts()
        whole_of: dict[int, Tensor] = {}
        kinds: dict[Any, list[Any]] = {}
        for part in parts:
            kinds.setdefault((part.dtype, part.requires_grad), []).append(part)
        for same in kinds.values():
            shapes = [gathered_shape(part) for part in same]
            lengths = [self._length(shape) for shape in shapes]
            rows_of = [
                padded(part_of(part).reshape(-1), 0, length)
                for part, length in zip(same, lengths, strict=True)
            ]
            flat = cat(rows_of)
            if self.policy.param_dtype is not None and flat.dtype.is_floating_point:
                flat = flat.to(self.policy.param_dtype)
            if self.offload:
                flat = flat.to(computing_device(self.mesh))
            rows = GATHER_PARTS(
                flat, group=self.group.group_name, replicas=self.replicas,
                reduce_dtype=self.policy.reduce_dtype,
            )  # fmt: skip
            pieces = rows.split(lengths, 1)
            for part, piece, shape in zip(same, pieces, shapes, strict=True):
                # One element from each process is a view between the others' elements.
                whole = piece.reshape(-1)[: shape.numel()].contiguous().reshape(shape)
                whole_of[id(part)] = part_on_inner_mesh(part, whole)
        return [whole_of[id(part)] for part in parts]

    def _length(self, shape: Any) -> int:
        """How many elements each process sends, padding included."""
        rows = -(-shape[0] // self.group.size())
        return rows * int(shape.numel() // max(shape[0], 1))

    def call(self, forward: Any, inputs: Any, kwargs: Any) -> Any:
        """The module's forward with whole parameters."""
        if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
            inputs = [self._cast(x, self.policy.param_dtype) for x in inputs]
        with self.whole_parameters() as whole, ExitStack() as stack:
            if self.reshard and CONTEXT.capture is None and CONTEXT.grad_enabled:
                stack.enter_context(self._notes(whole))
            token = SURROUNDINGS.set((*SURROUNDINGS.get(), self.whole_parameters))
            stack.callback(SURROUNDINGS.reset, token)
            out = forward(*inputs, **kwargs)
        if self.policy.output_dtype is not None:
            out = self._cast(out, self.policy.output_dtype)
        return out

    @contextmanager
    def whole_parameters(self) -> Iterator[list[Tensor]]:
        """Whole parameters in the place of parts, inside a `with` block."""
        if self.inside:
            yield []  # they are whole already
            return
        before: list[Any] = [owner._parameters[name] for owner, name in self.places]
        whole = self.gather()
        by_part: dict[int, Any] = {id(p): w for p, w in zip(self.parts(), whole, strict=True)}
        for (owner, name), part in zip(self.places, before, strict=True):
            owner._parameters[name] = by_part[id(part)]
        self.inside = True
        try:
            yield whole
        finally:
            self.inside = False
            for (owner, name), part in zip(self.places, before, strict=True):
                owner._parameters[name] = part

    @staticmethod
    def _cast(x: Any, dtype: DType) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.dtype.is_floating_point else x

    def _notes(self, whole: list[Tensor]) -> Any:
        """Have the tape note which whole parameter it needs instead of keeping it."""
        index = {w._storage.identity: i for i, w in enumerate(whole)}

        def pack(tensor: Tensor) -> Any:
            at = index.get(tensor._storage.identity)
            if at is None:
                return tensor
            return at, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype

        def unpack(note: Any) -> Tensor:
            if isinstance(note, Tensor):
                return note
            at, shape, strides, offset, dtype = note
            if self.again is None:
                with CONTEXT.having(grad_enabled=False):
                    self.again = self.gather()
            gathered: Any = self.again[at]
            gathered = part_of(gathered) if isinstance(gathered, DTensor) else gathered
            view = gathered.contiguous().as_strided(shape, strides, offset)
            return view if view.dtype is dtype else view.to(dtype)

        return saved_tensors_hooks(pack, unpack)


def own_modules(module: Module) -> Iterable[Module]:
    """A module and those below it that are not in a unit of their own."""
    yield module
    for child in module.children():
        if not hasattr(child, "_unit"):
            yield from own_modules(child)


class FSDPModule:
    """What `fully_shard` makes of a module: the same, with these methods."""

    _unit: GatheredUnit

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
        """Let go of parameters that were gathered for a backward."""
        self._unit.again = None


def part_on_inner_mesh(part: DTensor, whole: Tensor) -> Tensor:
    """What forward sees: of a parameter that is divided otherwise too, that other part."""
    layout = part._layout
    if layout.order != (1, 0):
        return whole
    inner = layout.mesh[(layout.mesh.mesh_dim_names or ())[1]]
    return as_dtensor(whole, MeshLayout(inner, (layout.placements[1],), layout.shape))


def is_part(parameter: Any) -> bool:
    """Whether a parameter is one that `fully_shard` has divided."""
    return isinstance(parameter, DTensor) and bool(parameter.__dict__.get("fully_sharded"))


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
