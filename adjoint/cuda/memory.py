"""Memory of GPUs: what holds it, the most it was, limits, pools."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.cuda import (
    device_count,
    get_device_name,
    get_device_properties,
    index_of,
    is_available,
    mem_get_info,
)
from adjoint.engine.backends.array.gpu.device_memory import TRACKING, counts_of
from adjoint.engine.backends.array.gpu.memory_counts import DeviceCounts
from adjoint.engine.core.origins import Where

NONE = DeviceCounts()  # where there is no GPU, nothing is held
_taken: dict[int, Any] = {}  # memory that `caching_allocator_alloc` gave out, by address


def _counts(device: Any) -> DeviceCounts:
    return counts_of(index_of(device)) if is_available() else NONE


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors and compiled programs hold on a device."""
    return _counts(device).used.current


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were held at once, since the start or `reset_peak_memory_stats`."""
    return _counts(device).used.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes the pool has from the driver, in use or free for reuse."""
    return _counts(device).reserved.current


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes the pool had from the driver."""
    return _counts(device).reserved.peak


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved  # their former names


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to look for the most memory held anew."""
    for count in _counts(device).counts().values():
        count.reset_peak()


def reset_max_memory_allocated(device: Any = None) -> None:
    """`reset_peak_memory_stats` under a former name."""
    reset_peak_memory_stats(device)


reset_max_memory_cached = reset_max_memory_allocated


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begin to count what came and went anew."""
    counts = _counts(device)
    for count in counts.counts().values():
        count.reset_accumulated()
    counts.retries = counts.failures = 0


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Counts of a device's memory by PyTorch's names: now, the most, all that came, all that went.

    `allocated_bytes.all.peak`, `reserved_bytes.all.current`, `num_ooms` and their like. There is
    one pool, so each has `all` alone. Empty where there is no GPU.
    """
    stats: dict[str, int] = {}
    if is_available():
        counts = _counts(device)
        for name, count in counts.counts().items():
            for part in ("current", "peak", "allocated", "freed"):
                stats[f"{name}.all.{part}"] = int(getattr(count, part))
        stats["requested_bytes.all.current"] = counts.asked()
        stats["num_alloc_retries"] = counts.retries
        stats["num_ooms"] = counts.failures
        stats["num_device_alloc"] = counts.segments.allocated
        stats["num_device_free"] = counts.segments.freed
    return OrderedDict(sorted(stats.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` as dictionaries of dictionaries."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        within = nested
        for part in path:
            within = within.setdefault(part, {})
        within[last] = value
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The pool's state in words, and the largest pieces it has given out."""
    if not is_available():
        return "cuda: no device"
    index, counts = index_of(device), _counts(device)
    free, total = mem_get_info(device)
    rows = [("held by tensors and programs", counts.used), ("held by the pool", counts.reserved)]
    mib = device_memory.MIB
    lines = [f"cuda:{index} {get_device_name(index)}", f"{'MiB':>29} {'now':>12} {'most':>12}"]
    lines += [f"{n:>29} {c.current / mib:12.1f} {c.peak / mib:12.1f}" for n, c in rows]
    lines.append(f"{'pieces given out':>29} {counts.blocks.current:12} {counts.blocks.peak:12}")
    lines.append(f"{'free on the device':>29} {free / mib:12.1f} of {total / mib:.1f}")
    if counts.limit:
        lines.append(f"{'allowed':>29} {counts.limit / mib:12.1f}")
    lines.append(f"{counts.failures} times out of memory, {counts.retries} tries repeated")
    if not abbreviated:
        lines += ["the largest pieces:", *device_memory.holders(index)]
    return "\n".join(lines)


def empty_cache() -> None:
    """Give the pool's unused memory back to the driver."""
    if is_available():
        device_memory.POOLS[0].let_go()
        cupy().get_default_pinned_memory_pool().free_all_blocks()


# -- limits -------------------------------------------------------------------------------------


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Allow this process a part of a GPU's memory; asking for more is `OutOfMemoryError`.

    Args:
        fraction: the part, from 0 to 1.
        device: the GPU; the current one unless given.
    """
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
        raise TypeError(f"Invalid type for fraction argument, must be `float`: {fraction!r}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = index_of(device)
    total = get_device_properties(index).total_memory
    counts_of(index).limit = 0 if fraction == 1 else max(int(total * fraction), 1)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that this process may take."""
    index = index_of(device)
    limit = counts_of(index).limit
    return limit / get_device_properties(index).total_memory if limit else 1.0


# -- who has it ---------------------------------------------------------------------------------


def _frames(where: Where | None) -> list[dict[str, Any]]:
    if where is None:
        return []
    return [{"filename": where.file, "line": where.line, "name": where.module}]


def _piece(address: int, size: int, asked: int, where: Where | None, used: bool) -> dict[str, Any]:
    return {
        "address": address, "size": size, "requested_size": asked,
        "state": "active_allocated" if used else "inactive", "frames": _frames(where),
    }  # fmt: skip


def _pieces(start: int, size: int, counts: DeviceCounts) -> list[dict[str, Any]]:
    """What a segment is divided into, in the order of addresses."""
    pieces, at = [], start
    for address in sorted(a for a in counts.live if start <= a < start + size):
        room, asked, where = counts.live[address]
        if address > at:
            pieces.append(_piece(at, address - at, 0, None, False))
        pieces.append(_piece(address, room, asked, where, True))
        at = address + room
    if at < start + size:
        pieces.append(_piece(at, start + size - at, 0, None, False))
    return pieces


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The memory taken from the driver, segment by segment, with the pieces in each.

    Pieces in use have the line that asked for them, if `_record_memory_history` was called before.
    """
    segments: list[dict[str, Any]] = []
    segment: dict[str, Any]
    for index in range(device_count()):
        counts = counts_of(index)
        for start, size in sorted(counts.segment_sizes.items()):
            pieces = _pieces(start, size, counts)
            used = sum(p["size"] for p in pieces if p["state"] == "active_allocated")
            asked = sum(p["requested_size"] for p in pieces)
            segment = {"device": index, "address": start, "total_size": size, "stream": 0}
            segment |= {"allocated_size": used, "active_size": used, "requested_size": asked}
            segment |= {"segment_type": "large", "segment_pool_id": (0, 0), "frames": []}
            segments.append({**segment, "is_expandable": False, "blocks": pieces})
    return segments


def _record_memory_history(
    enabled: str | bool | None = "all", max_entries: int = 1 << 20, **_: Any
) -> None:
    """Note the lines that ask for memory, for errors, summaries and snapshots.

    Args:
        enabled: "all" also keeps what came and went; "state" the lines of what is there; None
            ends it.
        max_entries: how much of what came and went is kept.
    """
    if enabled not in ("all", "state", None, True, False):
        raise ValueError(
            f"_record_memory_history: expected 'all', 'state' or None, not {enabled!r}"
        )
    if enabled:
        TRACKING.start(max_entries if enabled != "state" else None)
    else:
        TRACKING.stop()


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Segments, and what came and went, as PyTorch's memory viewer reads them."""
    trace = [
        {
            "action": h.action, "addr": h.address, "size": h.size, "stream": 0,
            "time_us": h.time_us, "frames": _frames(h.where),
        }
        for h in list(TRACKING.history or ())
    ]  # fmt: skip
    traces = [trace] + [[] for _ in range(1, device_count())]
    return {
        "segments": memory_snapshot(), "device_traces": traces, "allocator_settings": {},
        "external_annotations": [],
    }  # fmt: skip


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file, for PyTorch's memory viewer."""
    Path(filename).write_bytes(pickle.dumps(_snapshot()))


# -- memory by hand -----------------------------------------------------------------------------


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of memory from the pool, which is kept until `caching_allocator_delete`."""
    from adjoint.engine.backends.array.gpu.streams import StreamContext

    with cupy().cuda.Device(index_of(device)), StreamContext(stream):
        given = cupy().cuda.alloc(int(size))
    _taken[int(given.ptr)] = given
    return int(given.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what `caching_allocator_alloc` gave."""
    if mem_ptr not in _taken:
        raise ValueError(f"caching_allocator_delete: {mem_ptr:#x} was not given out, or only once")
    del _taken[mem_ptr]


def caching_allocator_enable(value: bool = True) -> None:
    """Have freed memory kept for reuse, as it is; going without the pool is refused."""
    if not value:
        raise NotImplementedError(
            "cuda.caching_allocator_enable(False): memory always goes through the pool. "
            "empty_cache() gives back what is unused."
        )


def caching_allocator_disabled() -> bool:
    """Whether freed memory goes straight back to the driver; it is kept for reuse."""
    return False


def get_allocator_backend() -> str:
    """What keeps the memory: "native", the pool of this process."""
    return "native"


class MemPool:
    """Memory apart from all other; `with use_mem_pool(pool):` takes from it."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError(
                "cuda.MemPool: other allocators than the pool's are not taken"
            )
        cupy()
        self._pool = device_memory.POOLS[0].fresh()
        self.id = (0, id(self))

    def used_bytes(self) -> int:
        """Bytes in use."""
        return int(self._pool.used_bytes())


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """A block in which this thread's memory comes from a pool."""
    with device_memory.using(pool._pool):
        yield


class CUDAPluggableAllocator:
    """An allocator from a shared library, which Adjoint does not take."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise NotImplementedError(
            "cuda.CUDAPluggableAllocator: memory comes from Adjoint's pool; other allocators "
            "cannot be plugged in"
        )


def change_current_allocator(allocator: Any) -> None:
    """Take memory from another allocator, which is refused."""
    raise NotImplementedError(
        "cuda.change_current_allocator: memory comes from Adjoint's pool; other allocators cannot "
        "be plugged in"
    )


def host_memory_stats() -> OrderedDict[str, int]:
    """Counts of pinned memory on the host: pieces that are free for reuse."""
    if not is_available():
        return OrderedDict()
    free = int(cupy().get_default_pinned_memory_pool().n_free_blocks())
    return OrderedDict({"num_free_blocks": free})


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats`."""
    return dict(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Peaks of pinned memory are not counted: nothing to do."""


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats
