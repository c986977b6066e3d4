"""Datasets, samplers and loaders; transforms; readers of common file formats.

PyTorch's names are also at `adjoint.utils.data`.
"""

from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_convert as default_convert
from adjoint.data.dataset import ChainDataset as ChainDataset
from adjoint.data.dataset import ConcatDataset as ConcatDataset
from adjoint.data.dataset import DataChunk as DataChunk
from adjoint.data.dataset import Dataset as Dataset
from adjoint.data.dataset import IterableDataset as IterableDataset
from adjoint.data.dataset import StackDataset as StackDataset
from adjoint.data.dataset import Subset as Subset
from adjoint.data.dataset import TensorDataset as TensorDataset
from adjoint.data.loader import DataLoader as DataLoader
from adjoint.data.sampler import BatchSampler as BatchSampler
from adjoint.data.sampler import DistributedSampler as DistributedSampler
from adjoint.data.sampler import RandomSampler as RandomSampler
from adjoint.data.sampler import Sampler as Sampler
from adjoint.data.sampler import SequentialSampler as SequentialSampler
from adjoint.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from adjoint.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from adjoint.data.split import random_split as random_split
from adjoint.data.worker_info import get_worker_info as get_worker_info
