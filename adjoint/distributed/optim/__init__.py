"""Optimizers of several processes."""

from adjoint.distributed.optim.zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
