"""Which records and rules have programs that native code finds (Note [meeting])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.listing import with_entry

Owned = tuple[Any, Sequence[Any], dict[str, Any], Any]  # record or rules, and what they were given
_owners: set[Any] = set()
_straight: set[Any] = set()
_taped: set[Any] = set()


def enlist(owner: Any, entry: Any) -> None:
    """Have native code find a program for its record or rules; `entry`: what it compares."""
    owner.small = with_entry(owner.small, entry)
    _owners.add(owner)


def enlist_on_device(owner: Any, entry: Any) -> None:
    """The same of a program on a GPU."""
    owner.met = with_entry(owner.met, entry)
    _owners.add(owner)


def enlist_straight(calls: Any, entry: Any) -> None:
    """The same of a call that comes to operations known before (Note [calls heard before])."""
    calls.straight = with_entry(calls.straight, entry)
    _straight.add(calls)


def enlist_taped(calls: Any, entry: Any) -> None:
    """The same of a call on the tape that comes to one operation (Note [one operation])."""
    calls.taped = with_entry(calls.taped, entry)
    _taped.add(calls)


def forget() -> None:
    """Have native code find none."""
    for owner in _owners:
        owner.small = owner.met = ()
    for calls in _straight:
        calls.straight = ()
    for calls in _taped:
        calls.taped = ()
    _taped.clear()
    _straight.clear()
    _owners.clear()
