"""Settings of every test: what it finds is the same on any machine, in any order, under any load.

Graphs are verified wherever they are made, and code is kept apart.
"""

from __future__ import annotations

import atexit
import gc
import linecache
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

# Before adjoint is imported: both are read when first needed.
os.environ.setdefault("ADJOINT_VERIFY", "1")
os.environ.setdefault("ADJOINT_CACHE_DIR", str(Path(__file__).parent.parent / ".cache"))

import adjoint as ad
from adjoint.engine.backends.array import executor
from adjoint.engine.core.operations.record import HOOKS
from tests import quick_code

# How long an example takes says how busy the machine is. Examples are the same in every run;
# HYPOTHESIS_PROFILE=random looks for others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(PROFILE)
# Hypothesis draws numbers and words that stand in modules which are loaded by then: examples would
# hang on what other tests had imported, and on each line of the package. To read all of it takes
# seconds as well. This is Hypothesis's own affair, so it may be elsewhere some day.
providers = sys.modules.get("hypothesis.internal.conjecture.providers")
if PROFILE == "same" and hasattr(providers, "is_local_module_file"):
    vars(providers)["is_local_module_file"] = lambda path: False

# What a shell starts in the background ignores Ctrl-C, and so would every process that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def seed_all() -> None:
    """What is drawn without a seed depends on no other test."""
    random.seed(0)
    np.random.seed(0)
    ad.manual_seed(0)


# Collecting makes a million objects that stay: to look for garbage among them takes a second each
# time, while tests are collected and whenever a test looks for its own.
gc.disable()


def pytest_collection_finish() -> None:
    """What is there now stays until the end."""
    gc.freeze()
    # Doctest looks at each file of which lines were read, for every example that it runs.
    linecache.clearcache()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Also in the process that hands tests to workers, which collects none."""
    gc.enable()


# Libraries that count what is left over at the end find nothing.
atexit.register(gc.unfreeze)


class Survivors:
    """What tests leave loaded, which every test that looks for garbage would look through again."""

    MANY = 50_000
    looked = False  # whether all was looked through since the last test

    @classmethod
    def note(cls, phase: str, about: dict[str, int]) -> None:
        cls.looked |= about["generation"] == 2

    @classmethod
    def settle(cls) -> None:
        """Between tests: what is still there stays until the end."""
        if cls.looked:
            cls.looked = False
            if len(gc.get_objects(generation=2)) > cls.MANY:
                gc.collect()
                gc.freeze()
                cls.looked = False


gc.callbacks.append(Survivors.note)


def _left_out(config: pytest.Config) -> frozenset[str]:
    """The marks of tests that -m leaves out, where it says no more than that."""
    terms = [term.split() for term in str(config.option.markexpr).split(" and ")]
    plain = all(len(term) == 2 and term[0] == "not" for term in terms)
    named = any("::" in str(place) for place in config.args)
    return frozenset(term[1] for term in terms) if plain and not named else frozenset()


def pytest_configure(config: pytest.Config) -> None:
    """Quick tests' code is made without some of LLVM's passes, and kept apart from other code."""
    if "slow" not in _left_out(config):
        return
    os.environ[quick_code.SAID] = "1"
    quick_code.leave_out_passes()
    folder = Path(os.environ["ADJOINT_CACHE_DIR"])
    if folder.name != "quick":  # as it is already where several processes share the tests
        os.environ["ADJOINT_CACHE_DIR"] = str(folder / "quick")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> Any:
    """Sweeps of thousands of tests that would be deselected are not made."""
    if not isinstance(obj, FunctionType) or not name.startswith("test"):
        return None
    marks = [*getattr(obj, "pytestmark", ()), *collector.iter_markers()]
    return [] if _left_out(collector.config).intersection(mark.name for mark in marks) else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Nor are those of a function that tests only some of its parameters quickly."""
    left_out = _left_out(metafunc.config)
    own = metafunc.definition.own_markers
    for k, mark in enumerate(own):
        # Ids that are listed have to be as many as the rows.
        if mark.name == "parametrize" and len(mark.args) == 2 and not mark.kwargs.get("ids"):
            names, rows = mark.args[0], [*mark.args[1]]
            quick = [row for row in rows if not left_out.intersection(_marks_of(row))]
            own[k] = pytest.mark.parametrize(names, quick or rows, **mark.kwargs).mark


def _marks_of(row: object) -> list[str]:
    """The names of the marks that parameters have been given."""
    return [mark.name for mark in row.marks] if isinstance(row, ParameterSet) else []


ALL_MARKED = re.compile(r"^pytestmark = pytest\.mark\.(\w+)$", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files whose tests would all be deselected: to import them may take seconds."""
    left_out = _left_out(config)
    if collection_path == Path(__file__).parent / "compare":
        return True if "compare" in left_out else None
    if collection_path.suffix == ".py":
        marked = ALL_MARKED.search(collection_path.read_text(encoding="utf-8"))
        return True if marked is not None and marked[1] in left_out else None
    return None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells the process it works for what became of a test; of its parts, what failed.

    To tell of each part takes as long as to run a short test.
    """
    if not hasattr(item.config, "workerinput") or item.config.option.durations is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_sessionfinish() -> None:
    """Processes that tests share end."""
    shared = sys.modules.get("tests.interpreted_process")
    if shared is not None:
        shared.end()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Before a module is imported, which may draw."""
    if isinstance(collector, pytest.Module):
        seed_all()


@pytest.fixture(autouse=True)
def _alone() -> None:
    """A test draws what it draws alone, and what runs otherwise when met often was never met."""
    Survivors.settle()
    seed_all()
    executor._drawn.clear()
    HOOKS.straight.forget()


@pytest.fixture
def anew() -> Iterator[None]:
    """Programs kept on disk are not looked at."""
    from tests.compiling_anew import compiled_anew

    with compiled_anew():
        yield


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The native programs that a test makes."""
    from adjoint.engine.backends.llvm.program.native import Native

    collected: list[Any] = []
    start = Native.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        collected.append(self)

    monkeypatch.setattr(Native, "__init__", noted)
    return collected
