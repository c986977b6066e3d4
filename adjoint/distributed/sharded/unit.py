"""A unit of `fully_shard`: a module whose parameters are gathered together.

Note [gathered parameters]
    A unit's forward sees whole parameters, computed from everybody's parts by one operation whose
    derivative averages gradients and gives each process its part. What backward needs of the whole
    parameters is not kept: the tape holds a note of which it was, and the parts are gathered again
    when backward asks. What was gathered for a backward belongs to the call of forward whose notes
    asked for it: it goes with the last of them, or when backward ends. Parts may be replaced or
    written to between calls, by `load_state_dict`, `to_empty` or a program. So they are found anew,
    by module and name, at each gather, and a backward whose forward saw others refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from adjoint.distributed.communication.kernels import all_gather
from adjoint.distributed.communication.operations import ALL_REDUCE, REDUCE_SCATTER
from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.groups.group import ProcessGroup, resolve
from adjoint.distributed.sharded.offload import computing_device
from adjoint.distributed.sharded.parameter import SharedPlace, Tie, gathered_shape, shard_parameter
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout, padded
from adjoint.engine.autodiff.tape.checkpoint import SURROUNDINGS
from adjoint.engine.autodiff.tape.engine import in_backward, queue_callback
from adjoint.engine.autodiff.tape.saved import saved_tensors_hooks
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import count_data
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
    communicates=True,
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
        self.inside = False  # whether whole parameters are in the places of parts
        # All that its modules have, those that are ignored included.
        self.names: WeakKeyDictionary[Module, set[str]] = WeakKeyDictionary()
        places: dict[int, SharedPlace] = {}
        for owner in own_modules(module):
            self.names[owner] = set(owner._parameters)
            for name, parameter in list(owner._parameters.items()):
                if parameter is not None and id(parameter) not in ignored:
                    part = owner._parameters[name] = self._part(parameter)
                    if id(part) not in places:
                        places[id(part)] = SharedPlace(self._tie(name, part), on_host=offload)
                    places[id(part)].names.append((owner, name))
        self.places = list(places.values())

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

    def _tie(self, name: str, part: Any) -> Tie:
        """What places of one part have in common."""
        tie: Tie | None = part.__dict__.get("tie")
        if tie is None:
            tie = part.tie = Tie(part, self.mesh)
        if tie.mesh != self.mesh:
            raise NotImplementedError(
                f"fully_shard: parameter {name!r} is used by units on different meshes, "
                f"{tie.mesh} and {self.mesh}. Shard its modules on one."
            )
        return tie

    def parts(self) -> list[Any]:
        """The parts that the modules have now, one for each place."""
        if self.inside:
            return [place.part for place in self.places]
        self.refuse_others()
        return [place.find() for place in self.places]

    def refuse_others(self) -> None:
        """Raise for a parameter that came later: its gradients would not be averaged."""
        for owner in own_modules(self.module):
            for name in owner._parameters.keys() - self.names.get(owner, set()):
                parameter = owner._parameters[name]
                if parameter is not None and parameter.requires_grad:
                    raise RuntimeError(
                        f"fully_shard: parameter {name!r} of {type(owner).__name__} was added "
                        "after the module was sharded, so its gradients would not be averaged. "
                        "Add it before, or shard its module by itself first."
                    )

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
            if whole and self.reshard and CONTEXT.capture is None and CONTEXT.grad_enabled:
                stack.enter_context(UnitCall(self, whole).noting())
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
        whole = self.gather()
        versions = [w._storage.version for w in whole]
        for place, parameter in zip(self.places, whole, strict=True):
            count_data(parameter._storage)  # or `weight.data.zero_()` would be lost unseen
            place.put_whole(parameter)
        self.inside = True
        try:
            yield whole
            for place, parameter, version in zip(self.places, whole, versions, strict=True):
                place.refuse_writes(parameter, version)
        finally:
            self.inside = False
            for place in self.places:
                place.put_back()

    @staticmethod
    def _cast(x: Any, dtype: DType) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.dtype.is_floating_point else x


@dataclass(frozen=True, slots=True)
class Noted:
    """Which whole parameter the tape needs, and how it looks at it."""

    at: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class KeptOutside:
    """What the hooks around a unit made of a tensor."""

    value: Any


class UnitCall:
    """One call of a unit's forward, and what its backward gathers: Note [gathered parameters]."""

    def __init__(self, unit: GatheredUnit, whole: list[Tensor]) -> None:
        self.unit = unit
        # What keeps other tensors: `save_on_cpu`, a checkpoint, or a unit around this one.
        self.outer = CONTEXT.saved_hooks[-1] if CONTEXT.saved_hooks else None
        self.place_of = {w._storage.identity: at for at, w in enumerate(whole)}
        self.seen = [place.mark() for place in unit.places]
        # While forward runs, which may have a backward in it, and for the one after it.
        self.whole: list[Tensor] | None = [w.detach() for w in whole]

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Have the tape note which whole parameter it needs instead of keeping it."""
        with saved_tensors_hooks(self.pack, self.unpack):
            try:
                yield
            finally:
                self.whole = None

    def pack(self, tensor: Tensor) -> Any:
        """A note of a whole parameter; other tensors as hooks around the unit keep them."""
        at = self.place_of.get(tensor._storage.identity)
        if at is None:
            return tensor if self.outer is None else KeptOutside(self.outer[0](tensor))
        return Noted(
            at, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype
        )

    def unpack(self, note: Any) -> Tensor:
        """The tensor that a note stands for."""
        if isinstance(note, KeptOutside) and self.outer is not None:
            return self.outer[1](note.value)
        if not isinstance(note, Noted):
            kept: Tensor = note
            return kept
        gathered: Any = self.gathered(note.at)
        gathered = part_of(gathered) if isinstance(gathered, DTensor) else gathered
        view = gathered.contiguous().as_strided(note.shape, note.strides, note.offset)
        return view if view.dtype is note.dtype else view.to(note.dtype)

    def gathered(self, at: int) -> Tensor:
        """A whole parameter, of the elements that forward saw."""
        place = self.unit.places[at]
        if not self.unit.inside:
            place.find()
        place.refuse_changes(self.seen[at])
        if self.whole is not None:
            return self.whole[at]
        with CONTEXT.having(grad_enabled=False):
            whole = self.unit.gather()
        if in_backward():
            self.whole = whole
            queue_callback(self.forget)
        return whole[at]

    def forget(self) -> None:
        """Let go of what was gathered for a backward."""
        self.whole = None


def own_modules(module: Module) -> Iterable[Module]:
    """A module and those below it that are not in a unit of their own."""
    yield module
    for child in module.children():
        if not hasattr(child, "_unit"):
            yield from own_modules(child)


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
