"""Storages, under PyTorch's address."""

from adjoint.tensor.memory import TypedStorage as TypedStorage
from adjoint.tensor.memory import UntypedStorage as UntypedStorage
