"""Datasets, at PyTorch's path."""

from adjoint.data.dataset import ChainDataset as ChainDataset
from adjoint.data.dataset import ConcatDataset as ConcatDataset
from adjoint.data.dataset import Dataset as Dataset
from adjoint.data.dataset import IterableDataset as IterableDataset
from adjoint.data.dataset import StackDataset as StackDataset
from adjoint.data.dataset import Subset as Subset
from adjoint.data.dataset import TensorDataset as TensorDataset
from adjoint.data.split import random_split as random_split
