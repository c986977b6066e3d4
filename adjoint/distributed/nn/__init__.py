"""Collective operations that gradients pass through: `torch.distributed.nn`."""

from adjoint.distributed.nn.functional import all_gather as all_gather
from adjoint.distributed.nn.functional import all_reduce as all_reduce
from adjoint.distributed.nn.functional import all_to_all as all_to_all
from adjoint.distributed.nn.functional import all_to_all_single as all_to_all_single
from adjoint.distributed.nn.functional import broadcast as broadcast
from adjoint.distributed.nn.functional import gather as gather
from adjoint.distributed.nn.functional import reduce as reduce
from adjoint.distributed.nn.functional import reduce_scatter as reduce_scatter
from adjoint.distributed.nn.functional import scatter as scatter
