"""How many threads are used: `set_num_threads`, for compiled programs and for matrix products.

Compiled programs run on Adjoint's own workers (`backends.llvm.runtime.pool`), and so do
large eager operations; linear algebra has the threads of NumPy's OpenBLAS.

Note [two sets of threads]
    OpenBLAS's threads go on spinning for tens of milliseconds after each product, and take the
    cores from workers that run next: a step of a small network took five times as long. So from the
    first fragment on, NumPy's own products, which are small ones by then, run in the caller's
    thread. Factorisations get their threads back for their time.
"""

from __future__ import annotations

import ctypes
import os
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.core.state import switches
from adjoint.engine.core.state.settings import SETTINGS, AmbientSetting, consult

_SETTING = "number of threads"
CONTROL_GROUP = "/sys/fs/cgroup"
_chosen: int | None = None
_for_native_code = array("q", [0])  # the number, once somebody asked where it is
_workers_first = False  # Note [two sets of threads]
_told = 0  # libraries that were told so


@cache
def _numpy_libraries() -> tuple[Any, ...]:
    """The function that sets the number, of each OpenBLAS that NumPy's wheel brought along."""
    return _setters("numpy", np.__file__)


@cache
def _scipy_libraries() -> tuple[Any, ...]:
    """The same of SciPy's wheel, which has one of its own."""
    return _setters("scipy", sys.modules["scipy"].__file__ or "")


def _setters(name: str, file: str) -> tuple[Any, ...]:
    root, changes = os.path.dirname(file), []
    folders = (os.path.join(os.path.dirname(root), f"{name}.libs"), os.path.join(root, ".dylibs"))
    for folder in folders:
        for part in os.listdir(folder) if os.path.isdir(folder) else ():
            if "openblas" not in part:
                continue
            library = ctypes.CDLL(os.path.join(folder, part))
            for pattern in _SETTERS:
                change = getattr(library, pattern, None)
                if change is not None:
                    changes.append(change)
                    break
    return tuple(changes)


_SETTERS = (
    "scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_", "openblas_set_num_threads",
)  # fmt: skip


def _libraries() -> tuple[Any, ...]:
    """Of the libraries that are loaded: SciPy's linear algebra loads its own when first used."""
    routines = _scipy_libraries() if "scipy.linalg" in sys.modules else ()
    return (*_numpy_libraries(), *routines)


def setter_of(library: str) -> int:
    """Where the function is that sets the number for the OpenBLAS of "numpy" or "scipy"; 0: none.

    >>> setter_of("numpy") >= 0
    True
    """
    if library == "scipy" and "scipy.linalg" not in sys.modules:
        return 0
    changes = {"numpy": _numpy_libraries, "scipy": _scipy_libraries}[library]()
    return (ctypes.cast(changes[0], ctypes.c_void_p).value or 0) if changes else 0


def available_processors() -> int:
    """The processors this process may use: its affinity, cut down to a container's quota.

    >>> available_processors() >= 1
    True
    """
    return max(1, min(len(_allowed()), _quota()))


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _quota() -> int:
    """Whole processors' worth of time that the control group grants, in either form of those."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            words = " ".join([_text(os.path.join(CONTROL_GROUP, name)) for name in files]).split()
            limit, period = map(int, words)
        except (OSError, ValueError):  # no such file, or "max"
            continue
        if limit > 0:
            return -(-limit // period)
    return sys.maxsize


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


def _cores(processors: set[int]) -> int:
    """Distinct cores among processors: two hardware threads of one core share its vector units."""
    try:
        siblings = {
            _text(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")
            for n in processors
        }
    except OSError:
        return len(processors)
    return len(siblings)


@cache
def _default() -> int:
    """OMP_NUM_THREADS, or a thread for each core there is."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return max(1, min(_cores(_allowed()), _quota()))


def get_num_threads() -> int:
    """The number of threads a compiled program or a matrix product may use.

    At first one for each core this process may run on, or what `OMP_NUM_THREADS` says.

    >>> get_num_threads() >= 1
    True
    """
    consult(_SETTING)
    return present_threads()


def present_threads() -> int:
    """The same number for those whose results cannot depend on it: nobody notes that it is read."""
    return _default() if _chosen is None else _chosen


def number_address() -> int:
    """Where native code reads the same number, which `set_num_threads` keeps up to date."""
    _for_native_code[0] = present_threads()
    return _for_native_code.buffer_info()[0]


def set_num_threads(num: int) -> None:
    """Let compiled programs and matrix products use this many threads.

    >>> before = get_num_threads()
    >>> set_num_threads(2)
    >>> get_num_threads()
    2
    >>> set_num_threads(before)
    """
    global _chosen
    if type(num) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    consult(_SETTING)
    _chosen = _for_native_code[0] = num
    for change in _libraries():
        change(1 if _workers_first else num)


SETTINGS[_SETTING] = AmbientSetting(present_threads, set_num_threads)


def put_workers_first() -> None:
    """Leave the cores to Adjoint's workers (Note [two sets of threads])."""
    global _workers_first
    _workers_first = True
    keep_to_one_thread()


def keep_to_one_thread() -> None:
    """Have libraries that were loaded since leave the cores to workers too, if others do."""
    global _told
    if _workers_first and len(libraries := _libraries()) != _told:
        _told = len(libraries)
        for change in libraries:
            change(1)


@contextmanager
def library_threads() -> Iterator[None]:
    """A block in which NumPy's OpenBLAS has its threads, whoever else has some."""
    if not _workers_first:
        yield
        return
    for change in _libraries():
        change(present_threads())  # which is no reading of the setting by the program
    try:
        yield
    finally:
        for change in _libraries():
            change(1)


def get_num_interop_threads() -> int:
    """The number of threads that may run operations at once, as it was set."""
    chosen = switches.get("set_num_interop_threads")
    return (os.cpu_count() or 1) if chosen is None else int(chosen)


def set_num_interop_threads(num: int) -> None:
    """Kept for programs that set it, without effect: operations run in the caller's thread."""
    if type(num) is not int or num < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if num != get_num_interop_threads():
        switches.put("set_num_interop_threads", num)


def set_flush_denormal(mode: bool) -> bool:
    """Ask for tiny numbers to become zero; says whether that was possible, and it is not.

    >>> set_flush_denormal(False)
    False
    """
    switches.put("set_flush_denormal", bool(mode))
    return False
