"""Reading a batch, under PyTorch's address."""

from adjoint.data.fetch import Fetcher as _BaseDatasetFetcher  # noqa: F401
from adjoint.data.fetch import Fetcher as _IterableDatasetFetcher  # noqa: F401
from adjoint.data.fetch import Fetcher as _MapDatasetFetcher  # noqa: F401
