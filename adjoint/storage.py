"""Storages, under PyTorch's address."""

from adjoint.engine.tensor.memory import TypedStorage as TypedStorage
from adjoint.engine.tensor.memory import UntypedStorage as UntypedStorage
