"""`save` and `load`: values of plain containers, scalars and tensors, in PyTorch's format."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from functools import partial
from io import BytesIO
from pickle import UnpicklingError
from typing import Any

import numpy as np

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.core.files.zipped import BadZip
from adjoint.engine.core.state import config
from adjoint.io import archive, legacy, running, safetensors
from adjoint.io.builders import names
from adjoint.io.locations import loading_to
from adjoint.io.unpickler import Unpickler

# What the zip and number readers raise on bytes that make no sense.
_DAMAGE = (ValueError, struct.error, zlib.error)
_ZIP = b"PK\x03\x04"


def _is_path(f: Any) -> bool:
    return isinstance(f, (str, os.PathLike))


def _is_safetensors(f: Any) -> bool:
    return _is_path(f) and os.fspath(f).endswith(".safetensors")


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a value to a file that `load`, and `torch.load(weights_only=True)`, read.

    The value may consist of None, numbers, strings, bytes, lists, tuples, dicts, sets, tensors,
    parameters, sizes, dtypes and devices; NumPy's scalars become Python's. Other objects, such as
    whole modules, are written only with `pickle_module=pickle` (under `adjoint run`, where a
    program expects it, always), and read only with `weights_only=False`. A file is replaced
    atomically: whatever happens, the old one or the new one is there. A path that ends in
    `.safetensors` is written in that format.

    Args:
        obj: the value; for a module or an optimizer, its `state_dict()`.
        f: a path, or an open binary file.
        pickle_module: pass `pickle` to write objects that are no plain values; another module's
            `Pickler` writes what Adjoint alone reads.
        pickle_protocol: of pickles that hold objects; plain values are written in protocol 2.
        _use_new_zipfile_serialization: False writes the layout before PyTorch 1.6.
        metadata: strings kept in a `.safetensors` file.

    Example:
        >>> import adjoint as ad, io
        >>> file = io.BytesIO()
        >>> ad.save({"w": ad.ones(2), "step": 3}, file)
        >>> _ = file.seek(0)
        >>> ad.load(file)
        {'w': tensor([1., 1.]), 'step': 3}
    """
    if _is_safetensors(f):
        if not isinstance(obj, dict):
            raise TypeError(
                f"save: a .safetensors file holds a dict of tensors, received {type(obj).__name__}"
            )
        safetensors.save_file(obj, f, metadata)
        return
    pickles = pickle_module is not None or config.pickles
    if metadata is not None:
        raise ValueError("save: metadata belongs to .safetensors files; put it into the value")
    write = archive.write if _use_new_zipfile_serialization else legacy.write
    if _is_path(f):
        with atomic_write(f) as file:
            write(obj, file, pickles, pickle_module, pickle_protocol)
        return
    if not hasattr(f, "write"):
        raise TypeError(f"save: expected a path or a binary file, received {type(f).__name__}")
    write(obj, f, pickles, pickle_module, pickle_protocol)
    if hasattr(f, "flush"):  # files of one's own send what was written only then
        f.flush()


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` or `torch.save` wrote; unless told otherwise nothing in the file is run.

    Tensors that shared memory share it again. A file that asks for more than plain containers,
    scalars, tensors and what `serialization.add_safe_globals` declared is refused with the name
    of what it asked for.

    Args:
        f: a path, or an open binary file.
        map_location: where tensors go: a device, a dict from saved to wanted device, or a function
            of storage and saved device. Unless given, where they were.
        pickle_module: whose `Unpickler` reads the file, with all that it runs (`weights_only` is
            then False, and may not be True).
        weights_only: False reads whole objects as PyTorch does: the file's pickle imports what it
            names and calls what it says. Only for files you trust: such a file can do anything.
        mmap: map the file instead of reading it: elements come from the disk when first used, and
            writes to them stay in memory.

    Example:
        >>> import adjoint as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.pt")
        ...     ad.save([ad.zeros(2), "name"], path)
        ...     ad.load(path)
        [tensor([0., 0.]), 'name']
    """
    unknown = sorted(set(pickle_load_args) - {"encoding", "errors", "fix_imports", "buffers"})
    if unknown:
        raise TypeError(f"load: unexpected arguments {unknown}")
    source = _name(f)
    if _is_safetensors(f):
        device = None if map_location is None else map_location
        return safetensors.load_file(f, device, bool(mmap))
    run = None
    if not _restricted(pickle_module, weights_only):
        given = {"encoding": "utf-8"} | pickle_load_args
        run = partial(running.unpickler, pickle_module=pickle_module, arguments=given)
    if mmap and not _is_path(f):
        raise ValueError("load: mmap=True needs a path, received an open file")
    if _is_path(f):
        with open(f, "rb") as file:
            mapped = np.memmap(f, np.uint8, "c").view(np.ndarray) if mmap and _size(file) else None
            return _load(file, source, map_location, mapped, run)
    if not hasattr(f, "read"):
        raise TypeError(f"load: expected a path or a binary file, received {type(f).__name__}")
    able = all(hasattr(f, name) for name in ("seek", "tell", "readinto", "readline"))
    if not able or f.tell() != 0:
        f = BytesIO(f.read())  # from where it stands
    return _load(f, source, map_location, None, run)


# Variables of the environment by which whoever starts a program decides for it.
_FORCE, _FORCE_NOT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def _restricted(pickle_module: Any, weights_only: bool | None) -> bool:
    """Whether nothing of a file may run."""
    restricted = pickle_module is None if weights_only is None else bool(weights_only)
    on = ("1", "y", "yes", "true")
    force, force_not = (os.environ.get(name, "0") in on for name in (_FORCE, _FORCE_NOT))
    if force and force_not:
        raise RuntimeError(f"load: only one of {_FORCE} and {_FORCE_NOT} may be set")
    if force:
        restricted = True
    elif force_not and weights_only is None:
        warnings.warn(
            f"load: {_FORCE_NOT} is set: the file is read with weights_only=False, and runs",
            UserWarning,
            stacklevel=3,
        )
        restricted = False
    if restricted and pickle_module is not None:
        raise RuntimeError(
            "load: Can not safely load weights when explicit pickle_module is specified. Leave it "
            "out, or, for a file you trust, pass weights_only=False."
        )
    return restricted


def load_pickle(file: Any, source: str) -> Any:
    """The plain value in a bare pickle, Python 2's too; nothing in it is executed."""

    def no_storages(pid: Any) -> Any:
        raise UnpicklingError(f"load: {source}: refused: a bare pickle refers to storages")

    unpickler = Unpickler(file, names(), no_storages, source, encoding="latin1")
    try:
        return unpickler.load()
    except _DAMAGE as error:
        raise FileError(f"load: {source}: the pickle is damaged ({error})") from error


def _name(f: Any) -> str:
    if _is_path(f):
        return os.fspath(f)
    return str(getattr(f, "name", None) or "the file object")


def _size(file: Any) -> int:
    size = file.seek(0, 2)
    file.seek(0)
    return int(size)


def _load(file: Any, source: str, map_location: Any, mapped: Any, run: Any) -> Any:
    with loading_to(map_location):
        if run is None:
            return _read(file, source, map_location, mapped, None)
        return _opened(file, source, map_location, mapped, run)


def _opened(file: Any, source: str, map_location: Any, mapped: Any, run: Any) -> Any:
    """The value in a file of one of the two layouts."""
    file.seek(0)
    start = file.read(4)
    if not start:
        raise EOFError(f"load: {source} is empty")
    if start == _ZIP:
        file.seek(0)
        return archive.Reader(file, source, map_location, mapped, run).load()
    if mapped is not None:
        raise FileError(f"load: {source}: mmap=True needs the zip layout of PyTorch 1.6")
    return legacy.LegacyReader(file, source, map_location, run).load()


def _read(file: Any, source: str, map_location: Any, mapped: Any, run: Any) -> Any:
    """The same where nothing runs: whatever goes wrong is damage to the file."""
    try:
        return _opened(file, source, map_location, mapped, run)
    except BadZip as error:
        raise FileError(
            f"load: {source}: the zip archive is damaged or truncated: {error}"
        ) from error
    except RecursionError as error:
        raise FileError(f"load: {source}: refused: it nests too deeply") from error
    except (UnpicklingError, EOFError, RuntimeError, TypeError):
        raise
    except (LookupError, ArithmeticError, *_DAMAGE) as error:
        raise FileError(f"load: {source}: the file is damaged ({error})") from error
