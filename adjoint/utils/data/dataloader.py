"""The loader, at PyTorch's path."""

from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_convert as default_convert
from adjoint.data.dataset import Dataset as Dataset
from adjoint.data.dataset import IterableDataset as IterableDataset
from adjoint.data.loader import DataLoader as DataLoader
from adjoint.data.sampler import BatchSampler as BatchSampler
from adjoint.data.sampler import RandomSampler as RandomSampler
from adjoint.data.sampler import Sampler as Sampler
from adjoint.data.sampler import SequentialSampler as SequentialSampler
from adjoint.data.worker_info import get_worker_info as get_worker_info
