"""Devices in files: what a storage's is called there, and where it goes when it is read.

Note [locations]
    A file names the device of each storage. `map_location` says where storages go instead. Of
    either name the pairs that `register_package` was given are asked, in order of their
    priorities, before the devices Adjoint knows.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.io.skipping import skipping

Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]
# What `register_package` was given, by priority: the smallest is asked first.
PACKAGES: list[tuple[int, Tagger, Deserializer]] = []


class _Loading(threading.local):
    map_location: Any = None
    sparse: list[Any] | None = None  # the sparse tensors made so far


_LOADING = _Loading()


@contextlib.contextmanager
def loading_to(map_location: Any) -> Iterator[None]:
    """While a file is read: where tensors that have no storage in it go, too.

    Afterwards its sparse tensors are looked at, whose parts may have been read after they were
    made of them.
    """
    before = _LOADING.map_location, _LOADING.sparse
    _LOADING.map_location, _LOADING.sparse = map_location, []
    try:
        yield
        if not skipping():
            for tensor in _LOADING.sparse:
                HOOKS.load_sparse().settle(tensor)
    finally:
        _LOADING.map_location, _LOADING.sparse = before


def assembled(layout: Any, tensors: list[Any], size: tuple[int, ...], coalesced: bool) -> Any:
    """A sparse tensor of parts out of the file that is being read."""
    tensor = HOOKS.load_sparse().assemble(layout, tensors, size, coalesced)
    if _LOADING.sparse is None:  # no file, but a pickle of a program's own
        HOOKS.load_sparse().settle(tensor)
    else:
        _LOADING.sparse.append(tensor)
    return tensor


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Have storages of further devices named in files, and put there when they are read.

    Args:
        priority: pairs of smaller ones are asked first; PyTorch's own devices have 10 and more.
        tagger: gives the name of a storage's device, or None where it is not this one's.
        deserializer: gives, for a storage on the CPU and a name, the storage on the device, or
            None where the name is not this one's.
    """
    PACKAGES.append((priority, tagger, deserializer))
    PACKAGES.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's device in files.

    >>> import adjoint as ad
    >>> location_tag(ad.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in PACKAGES:
        location = tagger(storage)
        if location:
            return location
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage read to the CPU, on the device that a file names."""
    found = _by_package(lambda: storage, location)
    return storage.to(device=device_named(location, "a storage")) if found is None else found


def _by_package(storage: Callable[[], Any], location: str) -> Any:
    """The storage that one of the registered packages makes; None where none knows the name."""
    for _, _, deserializer in PACKAGES:
        found = deserializer(storage(), location)
        if found is not None:
            return found
    return None


def device_named(target: Any, source: str) -> Device:
    """The device of a name, if there is one here."""
    try:
        device = Device(target)
    except RuntimeError as error:
        raise DeviceError(
            f"load: {source}: don't know how to restore data location of a storage on "
            f"{str(target)[:80]!r}. Pass map_location='cpu'."
        ) from error
    if device.type == "cuda" and not is_available():
        raise DeviceError(
            f"load: {source}: attempting to load a storage on {str(device)!r}, but no CUDA device "
            "is available. Pass map_location='cpu'."
        )
    return device


def locate(map_location: Any, location: str, storage: Any, source: str) -> Device | Any:
    """Where a storage that a file puts at `location` shall go: a device, or a storage made so."""
    target: Any = location
    if isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, (str, Device)):
        target = map_location
    elif isinstance(map_location, int):
        target = Device("cuda", map_location)
    elif callable(map_location):
        answer = map_location(storage(), location)
        if answer is not None:
            return _answered(answer)
    elif map_location is not None:
        raise TypeError(
            "load: map_location must be a device, a string, a dict or a function, received "
            f"{type(map_location).__name__}"
        )
    found = _by_package(storage, str(target))
    return device_named(target, source) if found is None else found


def to_meta(map_location: Any) -> bool:
    """Whether all storages go to the meta device, so that none need be read."""
    named = isinstance(map_location, (str, Device))  # by any name: `register_package` knows more
    return named and str(map_location).partition(":")[0] == "meta"


def _answered(answer: Any) -> Any:
    if isinstance(answer, UntypedStorage):
        return answer
    if isinstance(answer, (str, Device)):
        return device_named(answer, "map_location")
    raise TypeError(
        "load: map_location, a function, must give a storage, a device or None, received "
        f"{type(answer).__name__}"
    )


def restored_device(device: Any) -> Any:
    """The device of a tensor that has no storage in the file that is being read."""
    wanted = _LOADING.map_location
    if wanted is None:
        return device
    answer = locate(wanted, str(device), lambda: UntypedStorage(0), "a tensor")
    return answer if isinstance(answer, Device) else answer.device
