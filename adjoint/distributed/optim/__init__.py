"""Optimizers for several processes."""

from adjoint.distributed.optim.post_localSGD_optimizer import (
    PostLocalSGDOptimizer as PostLocalSGDOptimizer,
)
from adjoint.distributed.optim.zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
