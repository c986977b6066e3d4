"""Averages of parameters over processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adjoint.distributed.communication.collectives import all_reduce
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.data_parallel.buckets import cut
from adjoint.distributed.groups.group import is_member, resolve
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


def average_parameters(params: Iterator[Tensor], process_group: Any) -> None:
    """Replace parameters by their averages over a group."""
    group = None if process_group is None else process_group
    if not is_member(group):
        return
    kinds: dict[Any, list[Tensor]] = {}
    for parameter in params:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter.detach())
    with no_grad():
        for same in kinds.values():
            flat = cat([tensor.reshape(-1) for tensor in same])
            all_reduce(flat, RedOpType.AVG, resolve(group))
            for tensor, part in zip(same, cut(flat, same), strict=True):
                tensor.copy_(part)


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """Those among parameters, or in groups of an optimizer, that have a gradient."""
    chosen: list[Any] = []
    for item in params:
        inside = item["params"] if isinstance(item, dict) else [item]
        chosen += [p for p in inside if p.grad is not None]
    return chosen


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Average parameters, or those in groups of an optimizer."""
    average_parameters(iter(get_params_to_average(params)), process_group)
