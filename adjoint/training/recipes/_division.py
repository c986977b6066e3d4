"""Which samples are learned from and which are kept for the test, also by a run that goes on.

Samples are known by what they are, not by their place in a list that may have grown: by a digest of
their content, and pictures by their name as well. Copies of one sample are on one side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import adjoint as ad

SHARE = 0.2  # of the samples, kept for the test
SIDES = ("train", "test")


def digest(content: bytes) -> int:
    """A number of 64 bits for a content.

    >>> digest(b"one") == digest(b"one"), digest(b"one") == digest(b"two")
    (True, False)
    """
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True, slots=True)
class Samples:
    """What samples are known by: digests of their contents, and names where they have any."""

    digests: Sequence[int]
    names: Sequence[str] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[bytes]) -> Samples:
        """Rows of a table: two that are the same are two samples, the first and the second."""
        count: dict[bytes, int] = {}
        digests = []
        for row in rows:
            count[row] = count.get(row, 0) + 1
            digests.append(digest(b"%d " % count[row] + row))
        return cls(digests)


@dataclass(frozen=True, slots=True)
class Division:
    """Places of the samples to learn from and to test on."""

    train: list[int]
    test: list[int]
    record: dict[str, Any]  # what a checkpoint keeps of it
    said: str  # how the samples differ from those of the run that this one goes on from


def divided(
    samples: Samples, before: Mapping[str, Any] | None = None, what: str = "samples"
) -> Division:
    """Samples in two, at random; those that a checkpoint knows stay on their side.

    Args:
        samples: what there is now.
        before: the record in a checkpoint, of the run that this one goes on from.
        what: the samples' name in messages.
    """
    total = len(samples.digests)
    if total < 2:
        raise ValueError(f"the data has {total} {what}; training needs at least 2")
    side_of = {} if before is None else placed(samples, before)
    train, test = ([i for i, where in side_of.items() if where == side] for side in SIDES)
    tested_before = len(test)
    lacking_tests = max(1, int(total * SHARE)) - tested_before
    new = groups(samples, [i for i in range(total) if i not in side_of])
    new = [new[k] for k in ad.randperm(len(new)).tolist()] if new else []
    for group in new:
        fits = len(group) <= lacking_tests
        (test if fits else train).extend(group)
        lacking_tests -= len(group) if fits else 0
    if not test and len(new) > 1:  # of each there are more copies than are wanted
        test = min(new, key=len)
        train = [i for i in train if i not in test]
    if not (train and test):
        lacking = "test on" if train else "learn from"
        if before is None:
            raise ValueError(f"all {total} {what} are copies of one: there is none to {lacking}")
        raise ValueError(
            f"--resume: none of the {what} that the checkpoint had to {lacking} is there. Go on "
            "with that data, or train anew, without --resume."
        )
    tested, new_samples = len(test) - tested_before, total - len(side_of)
    message = "" if before is None else changes(samples, before, tested, new_samples)
    return Division(train, test, record(samples, (train, test), before), message)


def groups(samples: Samples, places: Sequence[int]) -> list[list[int]]:
    """Places of samples, copies together."""
    copies: dict[int, list[int]] = {}  # by digest
    for i in places:
        copies.setdefault(samples.digests[i], []).append(i)
    return list(copies.values())


def placed(samples: Samples, before: Mapping[str, Any]) -> dict[int, str]:
    """The sides of those samples that a checkpoint knows, in the order it had them in.

    What was learned from is never tested on: not under another name, and not if the file of that
    name has been edited since.
    """
    by_digest: dict[int, tuple[int, str]] = {}
    by_name: dict[str, tuple[int, str]] = {}
    for side in SIDES:  # what was learned from first: where both know a sample, it counts
        numbers = [*before[side].tolist(), *before[f"{side} gone"].tolist()]
        for at, number in enumerate(numbers):
            by_digest.setdefault(number, (at, side))
        for at, name in enumerate(before[f"{side} names"]):
            by_name.setdefault(name, (at, side))
    ordered = []  # (place in the checkpoint, place now, side)
    for group in groups(samples, range(len(samples.digests))):
        where = by_digest.get(samples.digests[group[0]])
        if where is None and samples.names:
            named = [by_name[samples.names[i]] for i in group if samples.names[i] in by_name]
            where = min(named, key=lambda pair: (SIDES.index(pair[1]), pair[0]), default=None)
        if where is not None:
            ordered += [(where[0], i, where[1]) for i in group]
    return {i: side for _, i, side in sorted(ordered)}


def record(
    samples: Samples, sides: Sequence[Sequence[int]], before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a checkpoint keeps; what is gone stays known, since it may come back."""
    entries: dict[str, Any] = {}
    present = set(samples.digests)
    for side, places in zip(SIDES, sides, strict=True):
        entries[side] = ad.tensor([samples.digests[i] for i in places], dtype=ad.int64)
        entries[f"{side} names"] = [samples.names[i] for i in places] if samples.names else []
        once = () if before is None else (*before[side].tolist(), *before[f"{side} gone"].tolist())
        gone = [number for number in dict.fromkeys(once) if number not in present]
        entries[f"{side} gone"] = ad.tensor(gone, dtype=ad.int64)
    return entries


def changes(samples: Samples, before: Mapping[str, Any], tested: int, new: int) -> str:
    """How the samples differ from those of the run that this one goes on from; empty if not."""
    present, names = set(samples.digests), set(samples.names)
    gone = 0
    for side in SIDES:
        named = before[f"{side} names"] or [None] * len(before[side])
        pairs = zip(before[side].tolist(), named, strict=True)
        gone += sum(number not in present and name not in names for number, name in pairs)
    differences = []
    if new:
        differences.append(f"{new} new ({new - tested} to learn from, {tested} to test on)")
    if gone:
        differences.append(f"{gone} no longer there")
    return " and ".join(differences)
