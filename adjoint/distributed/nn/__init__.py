"""Collective operations that gradients pass through: `torch.distributed.nn`."""

from adjoint.distributed.nn.functional import all_gather as all_gather
from adjoint.distributed.nn.functional import all_reduce as all_reduce
from adjoint.distributed.nn.functional import broadcast as broadcast
from adjoint.distributed.nn.functional import gather as gather
from adjoint.distributed.nn.functional import reduce as reduce
