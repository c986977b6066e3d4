"""Tensors divided over a mesh of processes."""

from adjoint.distributed.device_mesh import DeviceMesh as DeviceMesh
from adjoint.distributed.device_mesh import init_device_mesh as init_device_mesh
from adjoint.distributed.tensor.create import distribute_module as distribute_module
from adjoint.distributed.tensor.create import empty as empty
from adjoint.distributed.tensor.create import full as full
from adjoint.distributed.tensor.create import ones as ones
from adjoint.distributed.tensor.create import rand as rand
from adjoint.distributed.tensor.create import randn as randn
from adjoint.distributed.tensor.create import zeros as zeros
from adjoint.distributed.tensor.dtensor import DTensor as DTensor
from adjoint.distributed.tensor.dtensor import distribute_tensor as distribute_tensor
from adjoint.distributed.tensor.placement import Partial as Partial
from adjoint.distributed.tensor.placement import Placement as Placement
from adjoint.distributed.tensor.placement import Replicate as Replicate
from adjoint.distributed.tensor.placement import Shard as Shard
from adjoint.distributed.tensor.rules import run_on_parts as run_on_parts
