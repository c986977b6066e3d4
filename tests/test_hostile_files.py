"""No file crashes, hangs, fills the memory, or runs code: crafted ones, and random mutations.

Files are read in processes of their own, whose end, time and memory are watched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.crafted import CASES
from tests.hostile.readers import READERS

ROOT = Path(__file__).parent.parent
SECONDS = 2.0  # of processor time, where it is measured
STUCK = 20.0  # the same on a machine of any speed


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """What a process said of each file; the last entry is of the one it died on, if it did."""
    done: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "tests.hostile.child", str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as child:
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if "case" in told:
                done.append(told)
            else:
                done[-1] |= told
    if child.returncode and done:
        done[-1].setdefault("found", f"WRONG: the process ended with {child.returncode}")
    assert child.returncode == 0 or done, "the process could not begin"
    return done


def faults(told: dict[str, Any], may_load: bool, seconds: float = SECONDS) -> list[str]:
    """What is wrong with what became of a file."""
    found = told.get("found", "WRONG: nothing was said")
    if "seconds" not in told:
        return [found]
    allowed = 10 * told["size"] + (64 << 20)
    return [
        *([found] if found.startswith("WRONG") else []),
        *(["it loaded"] if found == "loaded" and not may_load else []),
        *([f"{told['seconds']:.1f} s"] if told["seconds"] > seconds else []),
        *([f"{told['grown'] >> 20} MiB for a file of {told['size']}"] if told["grown"] > allowed else []),
        *([f"it ran {told['ran']}"] if told["ran"] else []),
    ]  # fmt: skip


def check(done: list[dict[str, Any]], expected: int, seconds: float = SECONDS) -> None:
    wrong = {
        told["case"]: bad
        for told in done
        if (bad := faults(told, told["case"] not in CASES or CASES[told["case"]].loads, seconds))
    }
    assert not wrong, "\n".join(f"{case}: {'; '.join(bad)}" for case, bad in wrong.items())
    assert len(done) == expected


# One of each kind of harm, of files that are quickly made.
QUICK = [
    "pt: a nested tuple as key", "pt: 60 doubly shared tuples as key", "pt: keys of one hash",
    "pt: a dtype of size -5", "pt: a dtype that holds references", "pt: a persistent id of doubled tuples",
    "pt: os.system", "pt: a negative stride", "zip: entries that overlap", "zip: an entry that occurs twice",
    "legacy: a part outside its storage", "safetensors: a nested header", "safetensors: a name twice",
    "graph: keys of one hash", "png: huge dimensions", "idx: absurd sizes", "csv: zeros", "npy: nested signs",
    "objects: defaultdicts nested late", "checkpoint: NumPy's generator at 10**6", "program: marshal",
    "bert config: layers without end", "llama config: positions without end",
    "llama config: rotations beyond every float", "llama config: rotations of positions beyond 64 bits", "voc: entities of 16 bits",
    "coco: ids of one hash", "packed config: groups of 0", "sharded index: a file above", "sharded index: a piece twice",
    *(
        name
        for name in (
            "onnx: a sparse tensor without end", "gguf: tensors that overlap",
            "memory png: a program in PostScript", "memory png: a bomb", "voc masks: a bomb",
        )
        if name in CASES  # what reads it is installed
    ),
]  # fmt: skip


def test_some_files_of_each_kind(tmp_path: Path) -> None:
    assert len(CASES) >= 128
    check(run(tmp_path, "all", "0", "2", *QUICK), 2 * len(READERS) + len(QUICK), STUCK)


@pytest.mark.slow
def test_crafted_files_are_refused(tmp_path: Path) -> None:
    waiting, done = list(CASES), []
    while waiting:  # a process that dies takes only one file with it
        done += run(tmp_path, "all", "0", "0", *waiting)
        waiting = waiting[waiting.index(done[-1]["case"]) + 1 :]
    check(done, len(CASES))


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_ten_thousand_mutations(reader: str, tmp_path: Path) -> None:
    count = int(os.environ.get("ADJOINT_FUZZ_COUNT", "10000"))
    first, done = 0, []
    while first < count:
        done += run(tmp_path, reader, str(first), str(count - first))
        first = int(done[-1]["case"].rpartition(":")[2]) + 1
    check(done, count)
