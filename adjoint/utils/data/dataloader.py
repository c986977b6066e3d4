"""The loader, at PyTorch's path."""

from collections.abc import Callable
from typing import Any

from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_convert as default_convert
from adjoint.data.dataset import Dataset as Dataset
from adjoint.data.dataset import IterableDataset as IterableDataset
from adjoint.data.iterators import LoaderIterator as _BaseDataLoaderIter  # noqa: F401
from adjoint.data.iterators import MultiProcess as _MultiProcessingDataLoaderIter  # noqa: F401
from adjoint.data.iterators import SingleProcess as _SingleProcessDataLoaderIter  # noqa: F401
from adjoint.data.loader import DataLoader as DataLoader
from adjoint.data.sampler import BatchSampler as BatchSampler
from adjoint.data.sampler import RandomSampler as RandomSampler
from adjoint.data.sampler import Sampler as Sampler
from adjoint.data.sampler import SequentialSampler as SequentialSampler
from adjoint.data.worker_info import get_worker_info as get_worker_info

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    """How a dataset is read."""

    Map = 0
    Iterable = 1
