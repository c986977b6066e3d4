"""The old path of `distributed.tensor`."""

from adjoint.distributed.tensor import DeviceMesh as DeviceMesh
from adjoint.distributed.tensor import DTensor as DTensor
from adjoint.distributed.tensor import Partial as Partial
from adjoint.distributed.tensor import Placement as Placement
from adjoint.distributed.tensor import Replicate as Replicate
from adjoint.distributed.tensor import Shard as Shard
from adjoint.distributed.tensor import distribute_module as distribute_module
from adjoint.distributed.tensor import distribute_tensor as distribute_tensor
from adjoint.distributed.tensor import init_device_mesh as init_device_mesh
