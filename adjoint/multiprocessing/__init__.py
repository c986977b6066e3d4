"""Python's `multiprocessing`, with tensors sent between processes as shared memory.

Importing it teaches `multiprocessing` to do so. A tensor that is sent moves to shared memory, so
sender and receiver see each other's writes; a view is sent as a copy of what it shows.
"""

from __future__ import annotations

from multiprocessing import *  # noqa: F403
from multiprocessing import __all__ as _theirs
from multiprocessing import get_all_start_methods as get_all_start_methods
from multiprocessing import get_context as get_context
from multiprocessing import get_start_method as get_start_method
from multiprocessing import set_start_method as set_start_method

from adjoint.engine.core.state import switches
from adjoint.multiprocessing import reductions
from adjoint.multiprocessing.spawn import ProcessContext as ProcessContext
from adjoint.multiprocessing.spawn import ProcessContext as SpawnContext  # noqa: F401
from adjoint.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from adjoint.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from adjoint.multiprocessing.spawn import spawn as spawn
from adjoint.multiprocessing.spawn import start_processes as start_processes

__all__ = [*_theirs, "ProcessContext", "get_sharing_strategy", "set_sharing_strategy", "spawn"]

reductions.register()


def get_all_sharing_strategies() -> set[str]:
    """How memory is handed over: as a file descriptor."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """What `set_sharing_strategy` was told; memory is handed over as file descriptors."""
    return str(switches.get("multiprocessing.set_sharing_strategy"))


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory is handed over; "file_system" has no effect, and says so once.

    PyTorch offers it for programs that run out of descriptors. Raise `ulimit -n` for that.
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise ValueError(
            "set_sharing_strategy: expected 'file_descriptor' or 'file_system', received "
            f"{new_strategy!r}"
        )
    switches.put("multiprocessing.set_sharing_strategy", new_strategy)
