"""Samplers, at PyTorch's path."""

from adjoint.data.sampler import BatchSampler as BatchSampler
from adjoint.data.sampler import RandomSampler as RandomSampler
from adjoint.data.sampler import Sampler as Sampler
from adjoint.data.sampler import SequentialSampler as SequentialSampler
from adjoint.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from adjoint.data.sampler import WeightedRandomSampler as WeightedRandomSampler
