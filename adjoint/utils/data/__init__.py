"""Loading data: PyTorch's `torch.utils.data`."""

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
from adjoint.utils.data import _utils as _utils
from adjoint.utils.data import dataloader as dataloader
from adjoint.utils.data import dataset as dataset
from adjoint.utils.data import distributed as distributed
from adjoint.utils.data import sampler as sampler
from adjoint.utils.data.dataloader import _DatasetKind as _DatasetKind
from adjoint.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
from adjoint.utils.data.datapipes.datapipe import MapDataPipe as MapDataPipe
from adjoint.utils.data.datapipes.datapipe import functional_datapipe as functional_datapipe

__all__ = [
    "default_collate",
    "default_convert",
    "ChainDataset",
    "ConcatDataset",
    "DataChunk",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "DataLoader",
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "random_split",
    "get_worker_info",
]
