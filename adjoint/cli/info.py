"""`adjoint info`: versions, devices, caches."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from adjoint.engine.backends.array.gpu import cuda
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.threads import get_num_threads

LIBRARIES = ("numpy", "ml_dtypes", "scipy", "llvmlite", "cupy", "triton", "onnx", "mpi4py")


def versions_of(libraries: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each library, None where it is not; none of them is imported."""
    owners = importlib.metadata.packages_distributions()  # reads what every distribution installed
    return {
        name: importlib.metadata.version(owners[name][0]) if name in owners else None
        for name in libraries
    }


def cache_line() -> str:
    """Place, entries and size of the cache of compiled kernels."""
    usage = store.default().usage()
    size = f"{usage.size / 2**20:.1f} of {usage.limit / 2**20:.0f} MiB"
    return f"{usage.folder or 'none'} ({usage.entries} entries, {size})"


def clear_cache() -> str:
    """Empty the cache of compiled kernels, and say so."""
    cache = store.default()
    return f"removed {cache.clear()} entries from {cache.folder or 'no cache'}"


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
    rows += [(name, version or "not installed") for name, version in versions_of(LIBRARIES).items()]
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
    rows.append(("threads", str(get_num_threads())))
    rows.append(("cache", cache_line()))
    return "\n".join(f"{name:<12}{value}" for name, value in rows)
