"""`save` and `load` under their second address, classes that files may hold, devices they name."""

from __future__ import annotations

import os
import pickle as pickle  # the default of programs' `pickle_module`
import pickletools
import sys
import zipfile
from collections.abc import Callable, Iterator
from enum import Enum
from typing import IO, Any

from adjoint.engine.assembly import find
from adjoint.engine.core.device import Device
from adjoint.engine.core.state import switches
from adjoint.io import archive
from adjoint.io.builders import names
from adjoint.io.files import load as load
from adjoint.io.files import save as save
from adjoint.io.legacy import MAGIC as MAGIC_NUMBER  # noqa: F401
from adjoint.io.legacy import PROTOCOL as PROTOCOL_VERSION  # noqa: F401
from adjoint.io.locations import default_restore_location as default_restore_location
from adjoint.io.locations import location_tag as location_tag
from adjoint.io.locations import register_package as register_package
from adjoint.io.objects import SAFE
from adjoint.io.objects import add_safe_globals as add_safe_globals
from adjoint.io.objects import clear_safe_globals as clear_safe_globals
from adjoint.io.objects import get_safe_globals as get_safe_globals
from adjoint.io.objects import safe_globals as safe_globals
from adjoint.io.rebuilding import get_layout as _get_layout  # noqa: F401
from adjoint.io.skipping import skip_data as skip_data

DEFAULT_PROTOCOL = 2


def normalize_storage_type(storage_type: type) -> type:
    """The class of storages by a name that every device shares: `FloatStorage`."""
    return find(storage_type.__name__)


class SourceChangeWarning(Warning):
    """What PyTorch warns with where a pickled class has changed; programs silence it by name."""


class LoadEndianness(Enum):
    """The byte order of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_ORDERS: dict[LoadEndianness | None, str | None] = {
    LoadEndianness.NATIVE: sys.byteorder, LoadEndianness.LITTLE: "little",
    LoadEndianness.BIG: "big", None: None,
}  # fmt: skip
_chosen: list[LoadEndianness | None] = [None]


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was told; None is little."""
    return _chosen[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Say the byte order of files that do not say theirs."""
    if endianness not in _ORDERS:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _chosen[0], archive.UNSAID[0] = endianness, _ORDERS[endianness]


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The classes and functions a file names that `load(weights_only=True)` would refuse.

    Nothing of the file is executed.

    >>> import adjoint as ad, io
    >>> file = io.BytesIO()
    >>> ad.save({"weight": ad.zeros(2)}, file)
    >>> _ = file.seek(0)
    >>> get_unsafe_globals_in_checkpoint(file)
    []
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _unsafe(file)
    return _unsafe(f)


def _unsafe(file: Any) -> list[str]:
    with zipfile.ZipFile(file) as entries:
        (name,) = [n for n in entries.namelist() if n.endswith("/data.pkl") and n.count("/") == 1]
        pickled = entries.read(name)
    asked = {found.replace(" ", ".", 1) for found in _globals(pickled)}
    asked = {found.replace("__builtin__.", "builtins.", 1) for found in asked}  # Python 2's name
    return sorted(asked - {*names(), *SAFE})


def _globals(pickled: bytes) -> Iterator[str]:
    """ "module name" of each class or function a pickle asks for."""
    texts: list[str] = []
    memo: dict[Any, str] = {}  # by their numbers
    for code, argument, _ in pickletools.genops(pickled):
        if code.name == "GLOBAL":
            yield str(argument)
        elif code.name == "STACK_GLOBAL":
            yield " ".join(texts[-2:])
        elif isinstance(argument, str):
            texts.append(argument)
        elif code.name in ("BINPUT", "LONG_BINPUT", "PUT") and texts:
            memo[argument] = texts[-1]
        elif code.name == "MEMOIZE" and texts:
            memo[len(memo)] = texts[-1]
        elif code.name in ("BINGET", "LONG_BINGET", "GET") and argument in memo:
            texts.append(memo[argument])


def _is_zipfile(f: Any) -> bool:
    """Whether a file is of the zip layout, from where it stands; it stands there afterwards."""
    start = f.tell()
    found = f.read(4) == b"PK\x03\x04"
    f.seek(start)
    return bool(found)


def get_crc32_options() -> bool:
    """What `set_crc32_options` was told; checksums are written in any case."""
    return bool(switches.get("serialization.set_crc32_options"))


def set_crc32_options(compute_crc32: bool) -> None:
    """Ask for files without checksums, to no effect: they are always written."""
    switches.put("serialization.set_crc32_options", bool(compute_crc32))


def get_default_mmap_options() -> Any:
    """Flags of mapped files: private to the process."""
    import mmap

    return getattr(mmap, "MAP_PRIVATE", 2)


# For annotations: what `map_location` and a file may be.
MAP_LOCATION = Callable[[Any, str], Any] | Device | str | dict[str, str] | None
FileLike = str | os.PathLike[str] | IO[bytes]
