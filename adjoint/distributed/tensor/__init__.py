"""Tensors divided over a mesh of processes."""

from adjoint.distributed.device_mesh import DeviceMesh as DeviceMesh
from adjoint.distributed.device_mesh import init_device_mesh as init_device_mesh
from adjoint.distributed.tensor.placement import Partial as Partial
from adjoint.distributed.tensor.placement import Placement as Placement
from adjoint.distributed.tensor.placement import Replicate as Replicate
from adjoint.distributed.tensor.placement import Shard as Shard
