"""How one layer is divided, and how its inputs and results lie.

A column plan divides a layer's outputs, a row plan its inputs. One after the other they need one
sum per pair: the first's results are parts, which are just the second's inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from adjoint.distributed.group import ProcessGroup
from adjoint.distributed.tensor.moves import COPIED, DIVIDED, GATHERED, SUMMED
from adjoint.distributed.tensor.placement import Placement, Replicate, Shard
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.embedding import Embedding
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

LAST = Shard(-1)


class ParallelStyle(ABC):
    """How a module is divided among the processes of a group."""

    @abstractmethod
    def apply(self, module: Module, group: ProcessGroup) -> None:
        """Divide a module, in place."""


def keep_part(module: Module, name: str, dim: int, group: ProcessGroup) -> None:
    """Replace a parameter by this process's part along a dimension."""
    whole = module._parameters.get(name)
    if whole is None:
        return
    if whole.shape[dim] % group.size():
        raise ValueError(
            f"parallelize_module: dimension {dim} of {name!r} {tuple(whole.shape)} cannot be "
            f"divided among {group.size()} processes"
        )
    part = whole.detach().chunk(group.size(), dim)[group.rank()].clone()
    made: Any = Parameter(part, requires_grad=whole.requires_grad)
    made.split_over = group
    made.split_dim = dim
    module._parameters[name] = made


def _last(x: Tensor) -> int:
    return x.ndim - 1


class ColwiseParallel(ParallelStyle):
    """Each process computes some of a Linear's outputs (or of an Embedding's columns).

    Args:
        input_layouts: how the input lies: whole (the default) or parts of the last dimension.
        output_layouts: how the result is to lie: parts (the default) or whole.
        use_local_output: accepted; results are plain tensors.
    """

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input = input_layouts or Replicate()
        self.output = output_layouts or LAST

    def apply(self, module: Module, group: ProcessGroup) -> None:
        name = group.group_name
        if isinstance(module, Linear):
            keep_part(module, "weight", 0, group)
            keep_part(module, "bias", 0, group)
            module.out_features //= group.size()
        elif isinstance(module, Embedding):
            keep_part(module, "weight", 1, group)
            module.embedding_dim //= group.size()
        else:
            raise NotImplementedError(
                f"ColwiseParallel: expected Linear or Embedding, received {type(module).__name__}"
            )
        forward = module.forward

        def run(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if isinstance(self.input, Shard):
                x = GATHERED(x, dim=_last(x), group=name)
            if x.dtype.is_floating_point:
                x = COPIED(x, group=name)
            out = forward(x, *args, **kwargs)
            if isinstance(self.output, Replicate):
                out = GATHERED(out, dim=_last(out), group=name)
            return out

        object.__setattr__(module, "forward", run)


class RowwiseParallel(ParallelStyle):
    """Each process has some of a Linear's inputs; the results are summed.

    Args:
        input_layouts: how the input lies: parts of the last dimension (the default) or whole.
        output_layouts: how the result is to lie: whole (the default) or parts.
        use_local_output: accepted; results are plain tensors.
    """

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input = input_layouts or LAST
        self.output = output_layouts or Replicate()

    def apply(self, module: Module, group: ProcessGroup) -> None:
        name = group.group_name
        if not isinstance(module, Linear):
            raise NotImplementedError(
                f"RowwiseParallel: expected Linear, received {type(module).__name__}"
            )
        keep_part(module, "weight", 1, group)
        module.in_features //= group.size()

        def run(x: Tensor) -> Tensor:
            if isinstance(self.input, Replicate):
                x = DIVIDED(x, dim=_last(x), group=name)
            out = SUMMED(x @ module.weight.T, group=name)
            if module.bias is not None:  # whole on every process, so added once
                out = out + module.bias
            if isinstance(self.output, Shard):
                out = DIVIDED(out, dim=_last(out), group=name)
            return out

        object.__setattr__(module, "forward", run)
