"""A module trained by the processes of a group, at PyTorch's path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from adjoint.distributed.data_parallel.buckets import GradBucket as GradBucket
from adjoint.distributed.data_parallel.module import (
    DistributedDataParallel as DistributedDataParallel,
)
from adjoint.engine.tensor.tensor import Tensor


def _find_tensors(obj: Any) -> Iterator[Tensor]:
    """The tensors in lists, tuples, dicts and dataclasses, however deep."""
    if isinstance(obj, Tensor):
        yield obj
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            yield from _find_tensors(value)
    elif isinstance(obj, dict):
        yield from _find_tensors(list(obj.values()))
    elif is_dataclass(obj) and not isinstance(obj, type):
        yield from _find_tensors([getattr(obj, field.name) for field in fields(obj)])
