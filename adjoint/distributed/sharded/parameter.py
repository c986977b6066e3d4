"""A parameter of which this process keeps a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.distributed import operations
from adjoint.distributed.group import ProcessGroup
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parameter import Parameter


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part: elements `start` up to `start + length` of the flattened whole.

    All parts have one length; the last ones may reach beyond the end, into padding of zeros.
    """

    shape: Size
    length: int
    group: ProcessGroup

    @property
    def start(self) -> int:
        return self.group.rank() * self.length

    @property
    def count(self) -> int:
        """How many of its elements are not padding."""
        return max(0, min(self.length, self.shape.numel() - self.start))

    def of(self, whole: Tensor) -> Tensor:
        """This process's part of a whole tensor."""
        flat = whole.detach().reshape(-1)
        padding = self.length * self.group.size() - flat.shape[0]
        if padding:
            flat = cat([flat, zeros(padding, dtype=flat.dtype, device=flat.device)])
        return flat[self.start : self.start + self.length].clone()

    def whole(self, part: Tensor) -> Tensor:
        """The whole tensor, from every process's part."""
        found = operations.all_gather(part.detach(), self.group).reshape(-1)
        return found[: self.shape.numel()].reshape(self.shape)


def shard_parameter(parameter: Parameter, group: ProcessGroup) -> Any:
    """A parameter's part, as a parameter that knows what it is a part of."""
    length = -(-parameter.shape.numel() // group.size())
    shard = Shard(Size(parameter.shape), length, group)
    made: Any = Parameter(shard.of(parameter), requires_grad=parameter.requires_grad)
    made.shard = shard
    made.split_over = group  # what the norm of all gradients is summed over
    return made


def shard_of(parameter: Any) -> Shard | None:
    """What a parameter is a part of; None for a whole one."""
    return getattr(parameter, "shard", None)
