"""DTensor: a tensor that several processes have parts of, used as if it were whole.

Note [parts as tensors]
    A DTensor is, for the engine below, the part that this process has: its elements, its place on
    the tape and its gradient are the part's. What programs see (shape, functions, `grad`) is the
    whole's: functions come to `__torch_function__`, where a rule says what they are on parts, or
    else they are computed on the whole (`tensor.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.layout import MeshLayout, move, shared
from adjoint.distributed.tensor.placement import Placement, Replicate, Shard, _StridedShard
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.autodiff.tape.reverse import SHOWN_AS
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Size, contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.processes import default_group
from adjoint.engine.ops.shape.views import PERMUTE
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.tensor import Tensor, alias, alias_with_history, set_grad


class Rules:
    """What functions do with DTensors; `tensor.rules` says, when it is imported."""

    run: Callable[..., Any]


RULES = Rules()


class DTensor(Tensor):
    """A tensor divided over, or repeated on, the processes of a mesh.

    Made by `distribute_tensor`, by `DTensor.from_local`, and of parameters by `fully_shard` and
    `parallelize_module`.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> from adjoint.distributed.tensor import Shard
        >>> dist.init_process_group("gloo")
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(ad.ones(4, 2), mesh, [Shard(0)])
        >>> x.sum().full_tensor()
        tensor(8.)
        >>> dist.destroy_process_group()
    """

    _layout: MeshLayout

    # -- what it is ---------------------------------------------------------------------------

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes it lies on."""
        return self._layout.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._layout.shown()

    @property
    def shape(self) -> Size:
        """The whole tensor's sizes."""
        return self._layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._layout.shape)

    @property
    def split_over(self) -> tuple[Any, ...]:
        """The groups whose processes have different parts of it."""
        return tuple(self.device_mesh.get_group(at) for at, _ in self._layout.cuts())

    def stride(self, dim: int | None = None) -> Any:
        """The steps that the whole tensor's elements have, laid out row by row."""
        steps = contiguous_strides(tuple(self._layout.shape))
        return steps if dim is None else steps[dim]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    @property
    def grad(self) -> Any:
        """The accumulated gradient, placed as the tensor is."""
        raw = Tensor.grad.__get__(self)
        if raw is None or isinstance(raw, DTensor):
            return raw
        last, shown = self.__dict__.get("_shown_grad", (None, None))
        if last is not raw:
            shown = gradient_shown(self, raw)
            self._shown_grad = (raw, shown)
        return shown

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, DTensor):
            raise TypeError(f"grad: expected a DTensor or None, received {type(value).__name__}")
        if value is not None and value._layout != self._layout:
            raise RuntimeError(
                f"grad: assigned gradient lies {value.placements}, the tensor {self.placements}"
            )
        set_grad(self, None if value is None else part_of(value))

    @grad.deleter
    def grad(self) -> None:
        set_grad(self, None)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook(grad)` with the gradient, a DTensor; it may return another placed so."""

        def on_part(raw: Tensor) -> Any:
            shown = gradient_shown(self, raw)
            replaced = hook(shown)
            if replaced is None:
                return None
            if not isinstance(replaced, DTensor) or replaced._layout != shown._layout:
                raise RuntimeError(
                    "register_hook: the hook of a DTensor returned something placed otherwise than "
                    f"its gradient, {shown.placements}. Use redistribute."
                )
            return part_of(replaced)

        return super().register_hook(on_part)

    @property
    def data(self) -> Any:
        """The same elements, off the tape."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor) or value._layout != self._layout:
            raise RuntimeError("data: expected a DTensor of the same shape, mesh and placements")
        with having(subclasses=False):
            Tensor.data.__set__(self, part_of(value))  # type: ignore[attr-defined]

    # -- making them, and what is in them --------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Sequence[int] | None = None, stride: Any = None,
    ) -> DTensor:  # fmt: skip
        """A DTensor from each process's part; differentiable.

        Args:
            local_tensor: this process's part.
            device_mesh: the processes; all unless given.
            placements: what the part is of the whole; all of it unless given.
            run_check: whether the first process's tensor replaces the others' where it is whole.
            shape: the whole's shape; unless given, parts are taken to be of one size.
            stride: accepted with `shape`, as PyTorch has it.
        """
        mesh = device_mesh or world_mesh(local_tensor)
        chosen = tuple(placements or [Replicate()] * mesh.ndim)
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("DTensor.from_local: expected a plain tensor, received a DTensor")
        if shape is None:
            sizes = list(local_tensor.shape)
            for at, placement in enumerate(chosen):
                if isinstance(placement, (Shard, _StridedShard)):
                    sizes[placement.dim] *= mesh.size(at)
            shape = sizes
        layout = MeshLayout(mesh, chosen, Size(shape))
        if layout.sizes()[-1] != tuple(local_tensor.shape):
            raise ShapeValueError(
                f"DTensor.from_local: this process's part of {tuple(shape)} placed {chosen} is "
                f"{layout.sizes()[-1]}, received {tuple(local_tensor.shape)}"
            )
        local = PERMUTE(local_tensor, dims=tuple(range(local_tensor.ndim)))
        if run_check:
            for at, placement in enumerate(chosen):
                if placement.is_replicate():
                    with no_grad():
                        broadcast(local.detach(), group=mesh.get_group(at), group_src=0)
        return as_dtensor(local, layout)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part; differentiable, and sharing memory.

        Args:
            grad_placements: how the part's gradient lies; of whole tensors `Partial()` has the
                processes' gradients summed.
        """
        local = part_of(self)
        if grad_placements is not None:
            for at, (have, given) in enumerate(zip(self.placements, grad_placements, strict=True)):
                if have.is_replicate() and given.is_partial():
                    local = shared(local, self._layout, [at])
                elif have != given and not have.is_partial():
                    raise NotImplementedError(
                        f"to_local: grad_placements {given!r} of a tensor placed {have!r}"
                    )
        return local

    @property
    def _local_tensor(self) -> Tensor:
        return part_of(self)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, async_op: bool = False, **_: Any,
    ) -> DTensor:  # fmt: skip
        """The same tensor placed otherwise; differentiable. Every process of the mesh calls it."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = device_mesh or self.device_mesh
        then = MeshLayout(mesh, tuple(placements), self.shape)
        return as_dtensor(move(part_of(self), self._layout, then), then)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, as a plain one. Every process of the mesh calls it."""
        return move(part_of(self), self._layout, self._layout.replicated())

    def replicated(self, tensor: Tensor) -> DTensor:
        """Another tensor, the same on every process, as a DTensor on the same mesh."""
        return as_dtensor(tensor, self._layout.replicated(tensor.shape))

    # -- protocols --------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """A function of DTensors, on the parts."""
        return RULES.run(func, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], self._layout

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Any], layout: Any, *_: Any) -> DTensor:
        return as_dtensor(inner["_local_tensor"], layout)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            with no_grad():
                copied: Any = as_dtensor(part_of(self).clone(), self._layout)
            if self.__dict__.get("_is_param"):
                copied._is_param = True
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a DTensor cannot be pickled: its processes have parts of it. Save full_tensor(), or "
            "the state dict with distributed.checkpoint.save."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={part_of(self).detach()!r}, device_mesh={self.device_mesh!r}, "
            f"placements={self.placements})"
        )


def gradient_shown(tensor: DTensor, raw: Any) -> Any:
    """A gradient of the part as that of the whole: of terms of a sum, each has the sum's."""
    if raw is None or isinstance(raw, DTensor):
        return raw
    layout = tensor._layout
    if any(p.is_partial() for p in layout.placements):
        placements = [Replicate() if p.is_partial() else p for p in layout.placements]
        layout = layout.with_placements(placements)
    return as_dtensor(raw, layout)


SHOWN_AS[DTensor] = gradient_shown


def world_mesh(tensor: Tensor) -> DeviceMesh:
    """All processes, in one line."""
    return DeviceMesh(tensor.device.type, list(range(default_group().size())))


def as_dtensor(local: Tensor, layout: MeshLayout) -> DTensor:
    """A part, with what it is a part of; at the same place on the tape."""
    plain = alias_with_history(local)
    placed: Any = recast(plain, DTensor)
    placed._layout = layout
    if CONTEXT.capture is not None:
        CONTEXT.capture.derive(placed, plain)
    return placed


def part_of(tensor: Any) -> Tensor:
    """This process's part as a plain tensor: a view through which gradients reach the DTensor."""
    if not (CONTEXT.grad_enabled and tensor.requires_grad) and CONTEXT.capture is None:
        return alias(tensor)
    return PERMUTE(tensor, dims=tuple(range(len(tensor._layout.shape))))


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None, *, src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A leaf that lies on a mesh as told, with the first process's values.

    Args:
        tensor: the whole tensor, of one shape on every process.
        device_mesh: the processes; all unless given.
        placements: how it is to lie; whole everywhere unless given.
        src_data_rank: whose values are taken, by place along each mesh dimension; None takes each
            process's own.
    """
    mesh = device_mesh or world_mesh(tensor)
    chosen = tuple(placements or [Replicate()] * mesh.ndim)
    if not (is_tensor(tensor) and (tensor.is_leaf or not CONTEXT.grad_enabled)):
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors!")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != chosen:
            raise ValueError(
                "distribute_tensor: the tensor is distributed already, otherwise. Use redistribute."
            )
        return tensor
    layout = MeshLayout(mesh, chosen, Size(tensor.shape))
    if any(p.is_partial() for p in chosen):
        raise RuntimeError("distribute_tensor: a whole tensor cannot be placed as Partial")
    with no_grad():
        whole = tensor.detach()
        if src_data_rank is not None and whole.device.type != "meta":
            whole = whole.clone()
            for at in range(mesh.ndim):
                broadcast(whole, group=mesh.get_group(at), group_src=src_data_rank)
        local = (
            move(whole, layout.replicated(), layout)
            if not is_meta(whole)
            else meta_part(whole, layout)
        )
        placed: Any = as_dtensor(local.clone(), layout)
    return placed.requires_grad_(tensor.requires_grad)


def is_meta(tensor: Tensor) -> bool:
    """Whether a tensor has no elements, only a shape."""
    return tensor.device.type == "meta"


def meta_part(whole: Tensor, layout: MeshLayout) -> Tensor:
    """A part without elements."""
    return whole.new_empty(layout.sizes()[-1])
