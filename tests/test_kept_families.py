"""Eager operations at many sizes, found on disk (Note [kept families]).

A process that finds what an earlier one planned gives the bits, and lays results out, as one that
plans each size by itself; it records nothing and needs no planner.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program import kept_families as on_disk
from adjoint.engine.core.operations import small_calls as names
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.graph.eager import sightings, small_calls
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.many_sizes import kept_families, open_kinds
from tests.test_open_fragments import ALONG, NEVER, Found, over

FIRST = (21, 40, 57, 33, 88, 64, 19)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every operation that can be a fragment is one, and the cache is empty."""
    HOOKS.load_rest()
    FRAGMENTS.forget()
    kept_families.FAMILIES.known.clear()
    small_calls.PROGRAMS.forget()
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(names, "EVERY", 1 << 62)
    monkeypatch.setattr(names, "FIRST", 0)
    monkeypatch.setattr(sightings, "WAITS", False)
    monkeypatch.setattr(open_kinds, "OFTEN_MET", 3)
    for record in REGISTRY.values():
        if record.large:
            monkeypatch.setattr(record, "large", 1)
    yield
    FRAGMENTS.forget()
    kept_families.FAMILIES.known.clear()


def kept(name: str, lengths: tuple[int, ...] = FIRST) -> None:
    """Have an earlier process, as it were, meet lengths and end."""
    for n in lengths:
        over(name, n)
    kept_families.FAMILIES.keep()
    FRAGMENTS.forget()


def same(got: Found, want: Found) -> None:
    for k, ((a, lies), (b, lay)) in enumerate(zip(got, want, strict=True)):
        assert lies == lay, k
        assert a.tobytes() == b.tobytes(), (k, np.abs(a - b).max())


def from_disk() -> int:
    """How many fragments of families are from disk."""
    known = [f for f in FRAGMENTS.open.families.values() if f.kept]
    return sum([len(plans.read) for f in known for r in f.kept or () for plans in [r.fill]])


@pytest.mark.parametrize("name", ALONG)
def test_sizes_found_on_disk_are_as_each_by_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(name)
    drawn = np.random.default_rng(len(name)).integers(16, 100, 5)
    lengths = [*map(int, drawn), 5, 64, 150, 17]
    got = [over(name, n) for n in lengths]
    assert from_disk(), "no plan was found"
    FRAGMENTS.forget()
    monkeypatch.setattr(open_kinds, "OFTEN_MET", NEVER)
    monkeypatch.setattr(HOOKS, "find_family", lambda *_: None)
    for mine, n in zip(got, lengths, strict=True):
        same(mine, over(name, n))


def test_what_is_kept_grows_by_what_was_met_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    plain = FRAGMENTS.make
    kept("linear")
    kept("linear", (300, 310, 325, 340, 351, 363))

    def noted(*given: Any) -> Any:
        made.append(given)
        return plain(*given)

    monkeypatch.setattr(FRAGMENTS, "make", noted)
    over("linear", 30)
    first = len(made)
    for n in (45, 305, 345):
        over("linear", n)
    assert len(made) < 2 * first, "sizes on disk were recorded one by one"


def test_families_that_came_to_nothing_are_kept_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HOOKS, "compile_operation", refusing(HOOKS.compile_operation))
        kept("softmax")
    over("softmax", 20)
    over("softmax", 30)
    tried = [f for f in FRAGMENTS.open.families.values() if f.kept == []]
    assert tried
    for n in FIRST:
        over("softmax", n)
    assert not any(f.recordings for f in tried)


def refusing(compiled: Any) -> Any:
    """A target that has no plans for many sizes."""

    def compile_operation(task: Any) -> Any:
        if task.sizing is not None:
            task.sizing.shared_plans["fill"] = None
            raise Unfit
        return compiled(task)

    return compile_operation


@pytest.mark.parametrize("seed", range(8))
def test_entries_that_are_cut_off_are_met_anew(seed: int) -> None:
    kept("linear")
    rng = np.random.default_rng(seed)
    disk = store.default()
    for name in names_noted("linear"):
        key = on_disk.key_for(name)
        lines = (disk.get(key) or b"[]").split(b"\n")
        if seed % 2:  # a line is missing
            del lines[int(rng.integers(len(lines)))]
        else:
            lines[-1] = lines[-1][: int(rng.integers(len(lines[-1])))]
        disk.put(key, b"\n".join(lines))
    got = [over("linear", n) for n in (30, 45)]
    FRAGMENTS.forget()
    disk.clear()
    for mine, n in zip(got, (30, 45), strict=True):
        same(mine, over("linear", n))


def names_noted(name: str) -> list[bytes]:
    """The names of the families that an operation meets."""
    over(name, 23)
    found = [kept_families.name_of(key) for key in FRAGMENTS.open.families]
    FRAGMENTS.forget()
    return [x for x in found if x is not None]


PROGRAM = """
import sys
import numpy as np
import adjoint as ad

ad.manual_seed(0)
weight = ad.randn(300, 200, requires_grad=True)
for n in map(int, sys.argv[1:]):
    x = ad.from_numpy(np.full((n, 200), 0.5, np.float32))
    out = ad.nn.functional.gelu(ad.nn.functional.linear(x, weight))
    out.sum().backward()
    print(n, repr(float(out.sum())), repr(float(weight.grad.sum())))
print("planner" if "adjoint.engine.compiler.schedule.build" in sys.modules else "none")
"""


def test_a_later_process_needs_no_planner(tmp_path: Path) -> None:
    sizes = [*map(str, (20, 31, 44, 57, 63, 71, 85, 99, 110, 127))]
    others = [*map(str, (20, 97, 113, 91, 101))]
    env = {**os.environ, "ADJOINT_CACHE_DIR": str(tmp_path)}

    def run(given: list[str], env: dict[str, str]) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *given],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    *_, planned = run(sizes, env)
    assert planned == "planner"
    *found, needed = run(others, env)
    *alone, _ = run(others, {**env, "ADJOINT_CACHE_SIZE": "0"})
    assert found == alone
    assert needed == "none"
