"""Who holds memory: all storages that tensors show, the largest first."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.engine.core.origins import Where, told_place
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor


class HeldStorage(NamedTuple):
    """A storage, as one of its tensors shows it."""

    nbytes: int
    what: str  # "float32[3, 4]"
    tensors: int  # that show it
    grad: bool  # whether it is a parameter's or needs a gradient
    address: int  # of its first byte, on a GPU
    where: Where | None = None  # the line that made it, if lines are noted


# Lines that made buffers, by identity, with what forgets them; filled where that is asked for.
MADE_BY: dict[int, tuple[Where, Any]] = {}


# What there is to say of a limit of the host's memory, while there is one.
LIMIT_TOLD: Callable[[], str] | None = None


def largest_storages() -> list[HeldStorage]:
    """Every storage that some tensor shows, the largest first."""
    tensors_of: dict[int, list[Any]] = {}
    for x in gc.get_objects():
        if issubclass(type(x), Tensor):  # what claims a class of its own is asked nothing
            try:
                if type(x._array) is not Window:
                    tensors_of.setdefault(x._storage.identity, []).append(x)
            except (AttributeError, ValueError):  # one that is being made, or of a lazy module
                continue
    storages = []
    for tensors in tensors_of.values():
        widest = max(tensors, key=lambda x: x.numel())
        buffer = widest._storage.buffer
        nbytes = int(getattr(buffer, "nbytes", widest._array.nbytes))
        grads = any(x._requires_grad for x in tensors)
        address = _address(buffer)
        where, _ = MADE_BY.get(id(buffer), (None, None))
        storages.append(HeldStorage(nbytes, str(widest._spec), len(tensors), grads, address, where))
    return sorted(storages, key=lambda storage: -storage.nbytes)


def _address(buffer: Any) -> int:
    """Where an array of a GPU lies; 0 of the host's, some dtypes of which have no view of bytes."""
    try:
        return int(buffer.data.ptr)
    except (AttributeError, ValueError):
        return 0


def size(n: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def holders_text(storages: list[HeldStorage], count: int) -> str:
    """A few lines about what holds memory."""
    total = sum(storage.nbytes for storage in storages)
    lines = [f"{len(storages)} storages of tensors take {size(total)}; the largest:"]
    lines += [
        f"  {size(storage.nbytes):>9}  {storage.what}"
        + (f", shown by {storage.tensors} tensors" if storage.tensors > 1 else "")
        + (", requires grad" if storage.grad else "")
        + (f", made at {told_place(storage.where)}" if storage.where is not None else "")
        for storage in storages[:count]
    ]
    return "\n".join(lines)
