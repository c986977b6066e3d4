"""Sparse gradients over several processes: the rows of all, put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.distributed.communication.collectives import all_gather_into_tensor
from adjoint.distributed.groups.group import ProcessGroup
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import int64
from adjoint.engine.ops.create.creation import full, zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


def sparse_weights(module: Module) -> Iterator[Tensor]:
    """Weights whose gradients are sparse: those of embeddings made with `sparse=True`."""
    for part in module.modules():
        weight = part._parameters.get("weight")
        if weight is not None and getattr(part, "sparse", False):
            yield weight


def summed_rows(gradient: Any, weight: Tensor, group: ProcessGroup) -> Any:
    """The sum over a group of what each process has for some rows; None has none.

    Processes have different numbers of rows: all send as many as the one that has most.
    """
    from adjoint.engine.sparse.creation import sparse_coo_tensor  # few programs are sparse

    with no_grad():
        rows, values = own_rows(gradient, weight)
        counts = gathered(full((1,), rows.numel(), dtype=int64, device=rows.device), group).tolist()
        most = max(counts)
        every_row = gathered(padded(rows, most), group).reshape(len(counts), most)
        every_value = gathered(padded(values, most), group)
        every_value = every_value.reshape(len(counts), most, *weight.shape[1:])
        chosen = cat([part[:n] for part, n in zip(every_row, counts, strict=True)])
        added = cat([part[:n] for part, n in zip(every_value, counts, strict=True)])
        return sparse_coo_tensor(chosen.unsqueeze(0), added, tuple(weight.shape)).coalesce()


def own_rows(gradient: Any, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the rows a gradient has, and the rows."""
    if gradient is None:
        none = zeros(0, *weight.shape[1:], dtype=weight.dtype, device=weight.device)
        return zeros(0, dtype=int64, device=weight.device), none
    once = gradient.coalesce()
    return once.indices()[0], once.values()


def padded(part: Tensor, length: int) -> Tensor:
    """Rows with zeros after them, up to a number of rows."""
    missing = length - part.shape[0]
    if not missing:
        return part.contiguous()
    return cat([part, zeros(missing, *part.shape[1:], dtype=part.dtype, device=part.device)])


def gathered(part: Tensor, group: ProcessGroup) -> Tensor:
    """The parts of all, one after the other."""
    size = group.size()
    whole = zeros(size * part.shape[0], *part.shape[1:], dtype=part.dtype, device=part.device)
    all_gather_into_tensor(whole, part, group)
    return whole
