"""Kill -9 of a random rank at a random moment of training, many times.

After each kill: the launcher and all ranks are gone within 10 seconds with the dead rank named, no
process, shared memory or temporary file is left, and the same command goes on from the last
checkpoint to the losses of a training that nobody disturbed.

    python -m benchmarks.faults --kills 50 --ranks 2
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 10.0  # seconds from a rank's death to the end of the job
MARK = "ADJOINT_FAULTS_RUN"  # in the environment of every process of a run
STARTING = 300.0  # seconds a job may take before its ranks train


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one kill led to."""

    victim: int
    moment: float  # seconds from the victim's start of training
    after: float  # seconds from the kill to the end of the job; 0 where the job was done already
    done: bool  # the job had ended before the kill
    faults: tuple[str, ...]


def start(ranks: int, folder: Path) -> subprocess.Popen[str]:
    """The training under the launcher, with a folder for temporary files of its own."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, MARK: str(folder), "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-m", "adjoint.cli", "launch", f"--nproc-per-node={ranks}"]
    return subprocess.Popen(
        [*command, "-m", "benchmarks.killed_training", str(folder)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def losses(out: str) -> dict[tuple[int, int], str]:
    """The loss of each step and rank."""
    lines = [line.split() for line in out.splitlines()]
    return {(int(step), int(rank)): loss for step, rank, loss in lines}


def left_processes(folder: Path) -> list[int]:
    """Processes of a run that are still there."""
    wanted = f"{MARK}={folder}".encode()
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                processes.append(int(entry.name))
        except OSError:  # gone, or another user's
            continue
    return processes


def shared_memory() -> set[str]:
    """Names of shared memory that MPI has made."""
    return {path.name for path in Path("/dev/shm").glob("mpich*")}


def wait_for_start(process: subprocess.Popen[str], path: Path) -> int:
    """The victim's process id, once it trains."""
    end = time.monotonic() + STARTING
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.005)
    raise RuntimeError(f"the job did not begin: {process.communicate()[1]}")


def one_kill(folder: Path, ranks: int, wanted: dict[tuple[int, int], str], most: float) -> Outcome:
    """Start, kill, look at what is left, resume, compare."""
    before = shared_memory()
    process = start(ranks, folder)
    victim, moment = random.randrange(ranks), random.uniform(0, 0.8 * most)
    number = wait_for_start(process, folder / f"process{victim}")
    time.sleep(moment)
    done = process.poll() is not None
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        done = True
    killed = time.monotonic()
    out, errors = process.communicate(timeout=300)
    after = 0.0 if done else time.monotonic() - killed
    done = done or process.returncode == 0  # it had finished its work, and was about to end
    faults = []
    if not done and f"rank {victim}" not in errors:
        faults.append(f"rank {victim} is not named: {errors}")
    if not done and after > LIMIT:
        faults.append(f"ended {after:.1f} s after the kill")
    if left := left_processes(folder):
        faults.append(f"processes left: {left}")
    if more := shared_memory() - before:
        faults.append(f"shared memory left: {sorted(more)}")
    if rest := sorted(str(p.relative_to(folder)) for p in (folder / "tmp").rglob("*")):
        faults.append(f"temporary files left: {rest}")
    seen_losses = losses(out[: out.rfind("\n") + 1])
    if not done:
        again = start(ranks, folder)
        out, errors = again.communicate(timeout=300)
        if again.returncode:
            faults.append(f"could not resume: {errors}")
        seen_losses |= losses(out)
    if seen_losses != wanted:
        faults.append("losses differ from the undisturbed training's")
    return Outcome(victim, moment, after, done, tuple(faults))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    random.seed(given.seed)
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        whole = start(given.ranks, Path(name) / "whole")
        wait_for_start(whole, Path(name) / "whole" / "process0")
        training = time.monotonic()
        out, errors = whole.communicate(timeout=600)
        if whole.returncode:
            raise RuntimeError(errors)
        wanted, most = losses(out), time.monotonic() - training
        print(f"undisturbed: {time.monotonic() - began:.1f} s, {most:.1f} s of them training")
        for number in range(given.kills):
            outcome = one_kill(Path(name) / f"kill{number}", given.ranks, wanted, most)
            bad += bool(outcome.faults)
            end = "had ended" if outcome.done else f"all gone after {outcome.after:.1f} s"
            print(
                f"kill {number + 1}: rank {outcome.victim} at {outcome.moment:.2f} s, {end}"
                f"{''.join(f'; FAULT {each}' for each in outcome.faults)}", flush=True,
            )  # fmt: skip
    print(f"{given.kills - bad} of {given.kills} kills without a fault")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
