"""`fully_shard`: parameters, gradients and optimizer state divided among processes (ZeRO-3).

Note [gathered parameters]
    A unit is a module whose parameters are gathered together. Its forward sees whole parameters,
    computed from everybody's parts by one operation whose derivative averages gradients and gives
    each process its part. What backward needs of the whole parameters is not kept: the tape holds
    a note of which it was, and the unit is gathered again when backward asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from adjoint.distributed.group import ProcessGroup, resolve
from adjoint.distributed.kernels import all_gather
from adjoint.distributed.operations import REDUCE_SCATTER
from adjoint.distributed.sharded.parameter import shard_parameter
from adjoint.engine.autodiff.tape.engine import EARLY_LEAVES
from adjoint.engine.autodiff.tape.saved import saved_tensors_hooks
from adjoint.engine.backends.array.table import lowers
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


def _average(g: Any, x_spec: Any, group: str, reduce_dtype: Any) -> Any:
    sent = g if reduce_dtype is None else g.to(reduce_dtype)
    return (REDUCE_SCATTER(sent, group=group) / resolve(group).size()).to(x_spec.dtype)


# GATHER_PARTS(x): everybody's part, in rows; the transpose averages, as gradients are averaged.
GATHER_PARTS: Record = primitive(
    "gather_parts",
    lambda x, group, reduce_dtype: Spec((resolve(group).size(), *x.shape), x.dtype, x.device),
    _average,
)


@lowers(GATHER_PARTS)
def gather_parts(xp: Any, x: Any, group: str, reduce_dtype: Any) -> Any:
    """Everybody's part, in rows."""
    return all_gather(xp, x, group)


class Unit:
    """A module whose parameters are gathered together."""

    def __init__(
        self, module: Module, group: ProcessGroup, policy: MixedPrecisionPolicy, reshard: bool
    ) -> None:
        self.module, self.group, self.policy, self.reshard = module, group, policy, reshard
        self.places: list[tuple[Module, str]] = []
        self.parts: list[Any] = []
        self.again: list[Tensor] | None = None  # gathered for backward
        for owner in own_modules(module):
            for name, parameter in list(owner._parameters.items()):
                if parameter is not None:
                    part = self._part(parameter)
                    owner._parameters[name] = part
                    self.places.append((owner, name))
        for part in self.parts:
            if part.requires_grad:
                EARLY_LEAVES[id(part)] = part
                part.register_post_accumulate_grad_hook(self._forget)

    def _part(self, parameter: Any) -> Any:
        """A parameter's part; of one that is tied, within the unit or with another, the same."""
        part = parameter if hasattr(parameter, "shard") else getattr(parameter, "kept_as", None)
        if part is None:
            part = parameter.kept_as = shard_parameter(parameter, self.group)
        if not any(part is p for p in self.parts):
            self.parts.append(part)
        return part

    def _forget(self, part: Tensor) -> None:
        self.again = None

    def gather(self) -> list[Tensor]:
        """The whole parameters, from everybody's parts: one message for each dtype."""
        found: dict[int, Tensor] = {}
        kinds: dict[Any, list[Any]] = {}
        for part in self.parts:
            kinds.setdefault((part.dtype, part.requires_grad), []).append(part)
        for same in kinds.values():
            flat = cat(same)
            if self.policy.param_dtype is not None and flat.dtype.is_floating_point:
                flat = flat.to(self.policy.param_dtype)
            rows = GATHER_PARTS(
                flat, group=self.group.group_name, reduce_dtype=self.policy.reduce_dtype
            )
            pieces = rows.split([p.shard.length for p in same], 1)
            for part, piece in zip(same, pieces, strict=True):
                count = part.shard.shape.numel()
                found[id(part)] = piece.reshape(-1)[:count].reshape(part.shard.shape)
        return [found[id(part)] for part in self.parts]

    def call(self, forward: Any, inputs: Any, kwargs: Any) -> Any:
        """The module's forward with whole parameters."""
        whole = self.gather()
        by_part: dict[int, Any] = {id(p): w for p, w in zip(self.parts, whole, strict=True)}
        before = [owner._parameters[name] for owner, name in self.places]
        for (owner, name), part in zip(self.places, before, strict=True):
            owner._parameters[name] = by_part[id(part)]
        if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
            inputs = [self._cast(x, self.policy.param_dtype) for x in inputs]
        try:
            with ExitStack() as stack:
                if self.reshard and CONTEXT.capture is None and CONTEXT.grad_enabled:
                    stack.enter_context(self._notes(whole))
                out = forward(*inputs, **kwargs)
        finally:
            for (owner, name), part in zip(self.places, before, strict=True):
                owner._parameters[name] = part
        if self.policy.output_dtype is not None:
            out = self._cast(out, self.policy.output_dtype)
        return out

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
            found = self.again[at].contiguous().as_strided(shape, strides, offset)
            return found if found.dtype is dtype else found.to(dtype)

        return saved_tensors_hooks(pack, unpack)


def own_modules(module: Module) -> Iterable[Module]:
    """A module and those below it that are not in a unit of their own."""
    yield module
    for child in module.children():
        if not hasattr(child, "_unit"):
            yield from own_modules(child)


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

    Each process keeps a flat part of each parameter, with its gradient and optimizer state;
    forward and backward gather the whole ones of a unit when they need them. Gradients are
    averages over the processes. Optimizers that treat elements alone (SGD, Adam, ...) work as they
    do on whole parameters; those that look at a parameter's rows or norm do not.

    Args:
        module: the module; every call makes one unit of what inner calls have left.
        mesh: a mesh of one dimension, or a group; all processes unless given.
        reshard_after_forward: whether backward gathers again; the default.
        shard_placement_fn: not supported.
        mp_policy: the dtypes to compute and to reduce in.
        offload_policy: not supported.
        ignored_params: not supported.

    Returns:
        The module.
    """
    for name, given in (
        ("shard_placement_fn", shard_placement_fn),
        ("ignored_params", ignored_params),
    ):
        if given:
            raise NotImplementedError(f"fully_shard: {name} is not supported")
    if offload_policy is not None and type(offload_policy).__name__ != "OffloadPolicy":
        raise NotImplementedError("fully_shard: offload_policy is not supported")
    if isinstance(module, (list, tuple)):
        return [
            fully_shard(m, mesh=mesh, reshard_after_forward=reshard_after_forward,
                        mp_policy=mp_policy)
            for m in module
        ]  # fmt: skip
    group = resolve(mesh)
    if hasattr(module, "_unit"):
        raise ValueError("fully_shard: this module is sharded already")
    if isinstance(module, (ModuleList, ModuleDict)):
        raise ValueError(
            f"fully_shard does not support containers that do not implement forward: "
            f"{type(module).__name__}. Shard the modules in it."
        )
    reshard = reshard_after_forward is not False
    unit = Unit(module, group, mp_policy or MixedPrecisionPolicy(), reshard)
    forward = module.forward
    object.__setattr__(module, "_unit", unit)
    if unit.parts:
        object.__setattr__(
            module, "forward", lambda *inputs, **kwargs: unit.call(forward, inputs, kwargs)
        )
    return module
