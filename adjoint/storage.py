"""Storages, under PyTorch's address."""

from io import BytesIO

from adjoint.engine.tensor.memory import TypedStorage as TypedStorage
from adjoint.engine.tensor.memory import UntypedStorage as UntypedStorage
from adjoint.engine.tensor.typed_storages import LegacyStorage as _LegacyStorage  # noqa: F401
from adjoint.io.files import load


def _load_from_bytes(b: bytes) -> TypedStorage:
    """A storage in a pickle that Python's `pickle` wrote of a tensor of PyTorch's."""
    storage: TypedStorage = load(BytesIO(b), weights_only=False)
    return storage
