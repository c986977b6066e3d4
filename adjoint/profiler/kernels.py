"""Kernels of compiled programs as events, with what they do and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adjoint.engine.core.state.timeline import Ran
from adjoint.profiler.events import TimedEvent


def kernel_events(
    runs: Iterable[tuple[TimedEvent | None, Ran]], thread: int
) -> Iterator[TimedEvent]:
    """An event per entry of each run; their time is taken from the event they ran in.

    Those that ran in no event are of the thread that is given.

    Programs are asked what their entries do only here, after the profile: to tell may take as
    long as planning the program.
    """
    known: dict[int, list[list[Any]]] = {}
    for outer, run in runs:
        parts = known.get(id(run.executable))
        if parts is None:
            parts = known[id(run.executable)] = run.executable.accounts()
        accounts = parts[run.segment] if run.segment < len(parts) else []
        for event in _entries(run, accounts):
            event.thread = thread
            if outer is not None:
                event.thread, event.depth = outer.thread, outer.depth + 1
                event.places = event.places or outer.places
                event.put_in(outer)
                outer.inside += event.cpu_time_total
                if event.flops:
                    outer.count_inside(outer.inside_flops - outer.flops)  # they are its kernels'
                    outer.count_inside(event.flops)
                outer.inside_device += event.device_time_total
                # Where the GPU was not timed as a whole, its kernels are what is known.
                outer.device_time_total = max(outer.device_time_total, outer.inside_device)
            yield event


def _entries(run: Ran, accounts: list[Any]) -> Iterator[TimedEvent]:
    if not len(run.times):  # a call of the eager table
        name = accounts[0].name if accounts else "eager table"
        yield _event(name, run.start / 1000, run.end / 1000, 1, accounts[0] if accounts else None)
        return
    first = min((run.times[k] for k in range(0, len(run.times), 3) if run.times[k + 2]), default=0)
    shift = run.start - first
    for k in range(len(run.times) // 3):
        began, took, count = run.times[3 * k : 3 * k + 3]
        if not count:
            continue
        account = accounts[k] if k < len(accounts) else None
        name = account.name if account is not None else f"entry {k}"
        start = (began + shift) / 1000
        event = _event(name, start, start + took / 1000, count, account)
        if run.device:
            event.device, event.device_time_total = run.device, took / 1000
        yield event


def _event(name: str, start: float, end: float, count: int, account: Any) -> TimedEvent:
    event = TimedEvent(name, start, end, kind="kernel")
    event.count = count
    if account is not None:
        event.operations = account.operations
        event.places = account.places
        event.moved = (account.read + account.written) * count
        event.flops = account.flops * count
    return event
