"""A pipe of one worker's elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["ShardingFilterIterDataPipe"]


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every so many-th element: the part of one worker."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = None
    ) -> None:
        """Say which part."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be < {num_of_instances}")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for place, data in enumerate(self.source_datapipe):
            if place % self.num_of_instances == self.instance_id:
                yield data

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)
