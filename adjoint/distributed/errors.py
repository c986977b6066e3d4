"""What goes wrong between processes."""

from __future__ import annotations


class DistError(RuntimeError):
    """An error of communication between processes."""


class DistBackendError(DistError):
    """A collective failed: a process died, did not come in time, or called something else."""


class DistNetworkError(DistError):
    """Another machine or port could not be reached, or refused."""


class DistStoreError(DistError):
    """The key-value store failed or did not answer in time."""
