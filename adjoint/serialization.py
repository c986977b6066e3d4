"""`save` and `load` under their second address, and the classes files may hold objects of."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.state import switches
from adjoint.io.files import load as load
from adjoint.io.files import save as save
from adjoint.io.objects import add_safe_globals as add_safe_globals
from adjoint.io.objects import clear_safe_globals as clear_safe_globals
from adjoint.io.objects import get_safe_globals as get_safe_globals
from adjoint.io.objects import safe_globals as safe_globals

DEFAULT_PROTOCOL = 2


def get_default_load_endianness() -> None:
    """The byte order of files that do not say; None is the machine's."""


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
