"""Batches of workers and descriptors: how many are held, limits, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

BEGIN = """
import gc, multiprocessing, os, resource, signal, sys
import adjoint as ad
from adjoint.utils.data import DataLoader, Dataset


class Counted(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return ad.full((64, 80), float(index))  # 20 KB: in shared memory


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def limited(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def mapped():
    with open("/proc/self/maps") as file:
        return sum("adjoint-batch" in line for line in file)
"""

HELD = """
before = descriptors()
limited(before + 24)
held = list(DataLoader(Counted(600), 2, num_workers=2))
assert len(held) == 300
assert descriptors() <= before + 4, (before, descriptors())
assert all(batch[0, 0, 0].item() == 2 * i for i, batch in enumerate(held))
views = [batch[1, 3] for batch in held[::50]]
assert mapped() >= 300
del held
gc.collect()
assert [view[0].item() for view in views] == [100.0 * i + 1 for i in range(6)]
assert mapped() <= len(views) + 20, mapped()
print("done")
"""

AT_THE_LIMIT = """
batches = iter(DataLoader(Counted(100), 2, num_workers=1))
first = next(batches)
count = descriptors()
spare = []
limited(count + 4)
try:
    while True:
        spare.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
messages = []
for _ in range(2):
    try:
        held = [first, *batches]
        print("no error")
    except RuntimeError as error:
        messages.append(str(error))
    except StopIteration:
        pass
for each in spare:
    os.close(each)
assert len(messages) == 2, messages
assert messages[0] == messages[1]
assert "cannot receive a batch" in messages[0], messages
assert "open files" in messages[0], messages
assert "ulimit -n" in messages[0], messages
assert first[0, 0, 0].item() == 0
del batches
assert not multiprocessing.active_children()
print("done")
"""

NO_WORKER = """
before, refused = descriptors(), 0
for more in range(16):
    limited(before + more)
    try:
        list(DataLoader(Counted(10), 2, num_workers=2))
    except (OSError, RuntimeError) as error:
        refused += "cannot start worker" in str(error)
        assert "ulimit -n" in str(error), error
        if isinstance(error, OSError):
            assert "of 2" in str(error), error
limited(200)
assert refused, refused
gc.collect()
assert not multiprocessing.active_children()
assert descriptors() <= before, (before, descriptors())
assert len(list(DataLoader(Counted(10), 2, num_workers=2))) == 5
print("done")
"""

KILLED = """
before = descriptors()
for _ in range(5):
    batches = iter(DataLoader(Counted(400), 2, num_workers=2))
    held = [next(batches) for _ in range(9)]
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    try:
        held += batches
        print("no error")
    except RuntimeError as error:
        assert "killed by signal" in str(error), error
    assert held[8][1, 0, 0].item() == 17
    del batches, held
gc.collect()
assert not multiprocessing.active_children()
assert descriptors() <= before + 2, (before, descriptors())
assert mapped() == 0, mapped()
print("done")
"""


def named() -> set[str]:
    """What has a name in the places for shared memory and temporary files."""
    found: set[str] = set()
    for place in ("/dev/shm", "/tmp"):
        folder = Path(place)
        if folder.exists():
            found |= {p.name for p in folder.iterdir() if "adjoint-batch" in p.name}
            found |= {p.name for p in folder.iterdir() if p.name.startswith(("psm_", "sem."))}
    return found


def check_nothing_stays(before: set[str]) -> None:
    """What other processes name meanwhile goes away; what was left behind would not."""
    deadline = time.monotonic() + 60
    while not named() <= before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert named() <= before


@pytest.mark.parametrize("program", ["HELD", "AT_THE_LIMIT", "NO_WORKER", "KILLED"])
def test_in_a_process_of_its_own(program: str) -> None:
    before = named()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + globals()[program]],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stdout + done.stderr[-3000:]
    assert not done.stderr, done.stderr
    check_nothing_stays(before)


def pressed(running: subprocess.Popen[str]) -> str:
    """What a program says that Ctrl-C ends; Python drops one that falls into a destructor."""
    for _ in range(5):
        os.killpg(running.pid, signal.SIGINT)
        try:
            return running.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            continue
    running.kill()
    raise AssertionError("it goes on")


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    before = named()
    program = BEGIN + (
        "held = []\n"
        "batches = iter(DataLoader(Counted(10**6), 2, num_workers=2))\n"
        "held.append(next(batches))\n"
        "print(*[p.pid for p in multiprocessing.active_children()], flush=True)\n"
        "for batch in batches:\n"
        "    held = [*held[-50:], batch]\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches the workers as well
    )
    assert running.stdout is not None
    pids = [int(pid) for pid in running.stdout.readline().split()]
    time.sleep(0.2)
    said = pressed(running)
    assert "KeyboardInterrupt" in said
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
    check_nothing_stays(before)
