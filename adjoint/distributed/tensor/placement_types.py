"""Placements, at PyTorch's path."""

from adjoint.distributed.tensor.placement import Partial as Partial
from adjoint.distributed.tensor.placement import Placement as Placement
from adjoint.distributed.tensor.placement import Replicate as Replicate
from adjoint.distributed.tensor.placement import Shard as Shard
from adjoint.distributed.tensor.placement import _StridedShard as _StridedShard
