"""The sampler of distributed training, at PyTorch's path."""

from adjoint.data.sampler import DistributedSampler as DistributedSampler
