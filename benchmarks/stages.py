"""Where the first call of a compiled step goes, stage by stage, in CPU time.

    python -m benchmarks.stages [FAMILY] [--processes N]

FAMILY is one of `benchmarks.families`. Each first call is in a process of its own: one with an
empty disk cache, then N that find there what it left, of which the least of each stage is shown.
Stages that are indented are part of the one above.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from benchmarks.families import FAMILIES
from benchmarks.worker import least, make_step

Place = tuple[Any, str, str]  # what has a function, its name there, the stage


def places() -> list[Place]:
    """The functions whose time is told, in the order of a first call."""
    import adjoint as ad
    import adjoint.engine.backends.llvm.program.native as native
    import adjoint.engine.backends.llvm.program.planning as planning
    import adjoint.engine.compiler.schedule.build as build
    from adjoint.engine.backends.llvm.runtime import jit
    from adjoint.engine.capture import making
    from adjoint.engine.capture.capture import Captured
    from adjoint.engine.capture.program import prepared, program

    return [
        (Captured, "_find", "recording and compiling"),
        (Captured, "_observe", "  run it under the recorder"),
        (ad.Tensor, "backward", "    backward"),
        (ad.optim.AdamW, "step", "    optimizer"),
        (making, "finish", "  make a program of it"),
        (program.Program, "prepare", "  prepare the program"),
        (program, "PreparedCall", "    plan calls"),
        (prepared, "overlaps_of", "    look for overlaps"),
        (native, "disk_key", "    key"),
        (native, "from_disk", "    load image"),
        (build, "run_passes", "    passes"),
        (build, "Legal", "    legalise"),
        (build, "Fusion", "    fuse"),
        (build, "batch", "    batch"),
        (planning, "emit", "    emit text"),
        (jit, "assemble_all", "    machine code"),
        (jit, "link", "    link"),
    ]


@contextmanager
def timed(stages: dict[str, float], found: list[Place]) -> Iterator[None]:
    """Add up the CPU time of functions under their stages' names."""
    originals = [(holder, name, getattr(holder, name)) for holder, name, _ in found]

    def wrap(fn: Callable[..., Any], label: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return fn(*args, **kwargs)
            finally:
                stages[label] = stages.get(label, 0.0) + time.process_time() - start

        # Named as what it stands in for: a recorder follows what is not the engine's.
        within = {"__name__": fn.__module__, "__builtins__": __builtins__, "time": time}
        return FunctionType(run.__code__, within, fn.__name__, None, run.__closure__)

    for (holder, name, label), (_, _, fn) in zip(found, originals, strict=True):
        setattr(holder, name, wrap(fn, label))
    try:
        yield
    finally:
        for holder, name, fn in originals:
            setattr(holder, name, fn)


def measure(family: str) -> dict[str, float]:
    """CPU seconds of the stages of a first call, in this process."""
    import adjoint as ad
    import adjoint.nn.functional

    fn, args = make_step(ad, FAMILIES[family])
    stages: dict[str, float] = {}
    start = time.process_time()
    compiled = ad.compile(fn)
    stages["compile() itself"] = time.process_time() - start

    def call(title: str) -> None:
        start = time.process_time()
        compiled(*args)
        stages[title] = time.process_time() - start

    with timed(stages, places()):
        call("first call")
    call("second call")
    guards: Any = compiled.latest.conditions.guards  # type: ignore[attr-defined]
    stages["guards of a call"] = least(guards.holds, 300)
    last = ["second call", "guards of a call"]
    order = ["compile() itself", "first call", *[label for *_, label in places()], *last]
    return {label: stages[label] for label in order if label in stages}


def in_new_process(family: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.stages", family, "--here"]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    stages: dict[str, float] = json.loads(finished.stdout)
    return stages


def show(title: str, stages: dict[str, float]) -> None:
    """A line for each stage."""
    print(title)
    for label, seconds in stages.items():
        print(f"  {label:<36}{seconds * 1e3:9.{1 if seconds > 1e-3 else 4}f} ms")


def main() -> None:
    """Measure one family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="?", default="gpt", choices=FAMILIES)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.family)))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJOINT_CACHE_DIR"] = folder
        show(f"{given.family}, empty cache", in_new_process(given.family))
        runs = [in_new_process(given.family) for _ in range(given.processes)]
        least = {label: min(run[label] for run in runs) for label in runs[0]}
        show(f"{given.family}, from the disk cache, least of {given.processes}", least)


if __name__ == "__main__":
    main()
