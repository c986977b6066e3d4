"""`adjoint info`: versions, devices, caches."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from adjoint.backends.array import cuda

LIBRARIES = ("numpy", "ml_dtypes", "scipy", "llvmlite", "cupy", "triton", "onnx", "mpi4py")


def version_of(distribution: str) -> str | None:
    """The installed version of a library, without importing it."""
    owners = importlib.metadata.packages_distributions().get(distribution, [])
    return importlib.metadata.version(owners[0]) if owners else None


def cache_folder() -> Path:
    """Where compiled kernels are kept: $ADJOINT_CACHE, or the user's cache folder."""
    named = os.environ.get("ADJOINT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "adjoint"


def _size(folder: Path) -> str:
    if not folder.is_dir():
        return "empty"
    files = [f for f in folder.rglob("*") if f.is_file()]
    return f"{len(files)} files, {sum(f.stat().st_size for f in files) / 2**20:.1f} MiB"


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.1f} GiB memory"


def report() -> str:
    """What the command prints.

    >>> print(report().splitlines()[0].split()[0])
    adjoint
    """
    facade = importlib.import_module("adjoint")
    rows = [
        ("adjoint", f"{facade.__version__} ({Path(facade.__file__ or '').parent})"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
    ]
    rows += [(name, version_of(name) or "not installed") for name in LIBRARIES]
    rows.append(("cpu", f"{platform.machine()}, {os.cpu_count()} cores, {_memory()}"))
    if cuda.is_available():
        for index in range(cuda.device_count()):
            free, total = cuda.mem_get_info(index)
            name = cuda.get_device_name(index)
            rows.append(
                (f"cuda:{index}", f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
            )
    else:
        rows.append(("cuda", "no device"))
    rows.append(("cache", f"{cache_folder()} ({_size(cache_folder())})"))
    return "\n".join(f"{name:<12}{value}" for name, value in rows)
