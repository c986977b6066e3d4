"""The words that the driver, its workers and Python share: programs, the pool, its blocks."""

from __future__ import annotations

import platform
import sys

PARALLEL = 1  # every worker calls the function; otherwise worker 0 alone
BARRIER = 2  # nobody passes before all are here
TEST = 4  # no call: the word names a byte; entries are left out only where it is 0

HEADER_WORDS = 8
STEP_WORDS = 4
RESUME = 8  # in a table's header: the entry at which a program that paused goes on
TIMES = 16  # in a table's header, for runs that are timed: where the entries' times are kept
TIME_WORDS = 3  # of an entry: when it first began, nanoseconds in all, how often it ran
NEED_WORKERS = -(2**63)  # returned by `run` when fewer workers are resident than asked for
PAUSED = NEED_WORKERS + 2**32  # returned by `run` in the middle of a loop (see `driver`)

MAX_WORKERS = 256
LINE = 128  # two processors writing within this many bytes slow each other down
ROUNDS = 8  # 2^8 workers
BLOCK = 16 * LINE  # a worker's own words: launch, rounds, itself, mutex, condition
FIRST_BLOCK = 8 * LINE
POOL_BYTES = FIRST_BLOCK + MAX_WORKERS * BLOCK

# Offsets in the pool.
BUSY = 0
STARTED, PROCESSORS, CPUS, LAST_CPU, MOVES = (LINE + 8 * i for i in range(5))
TABLE, COUNT, WORKERS, EPOCH, LAUNCH, STOP, FLOATS, SPIN_LAUNCH, SPIN_BARRIER, START = (
    2 * LINE + 8 * i for i in range(10)
)
ALLOWED = 3 * LINE  # the processors this process may use, one bit each
EXCEPT = 4 * LINE  # the same without the caller's
CPU_BYTES = 128
# Offsets in a block.
SLEEPING = 16  # in every line that is waited on
ROUND_LINES = LINE
POOL, INDEX, THREAD = (9 * LINE + 8 * i for i in range(3))
MUTEX, CONDITION = 10 * LINE, 11 * LINE

FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}  # Linux's numbers of the system call


class Platform:
    """What the driver is written for."""

    __slots__ = ("futex", "linux", "machine")

    def __init__(self, machine: str, linux: bool, futex: bool) -> None:
        self.machine = machine  # "x86_64", "aarch64"
        self.linux = linux
        self.futex = futex  # else a mutex and a condition per worker

    def __repr__(self) -> str:  # the driver is found by it
        return f"Platform({self.machine!r}, linux={self.linux}, futex={self.futex})"

    @property
    def clock(self) -> int:
        """The number of the monotonic clock."""
        return 1 if self.linux else 6


def host_platform() -> Platform:
    """This machine's."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    linux = sys.platform.startswith("linux")
    return Platform(machine, linux, linux and machine in FUTEX_CALLS and sys.maxsize > 2**32)


def field(name: str, base: str, offset: int) -> str:
    """IR for the address so many bytes behind another."""
    return f"  {name} = getelementptr i8, ptr {base}, i64 {offset}"
