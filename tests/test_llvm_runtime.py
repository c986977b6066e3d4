"""The native runtime: workers, barriers, errors, forks, exits, threads."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends import threads
from adjoint.engine.backends.llvm.runtime import fastcall, jit, shared_words
from adjoint.engine.backends.llvm.runtime.driver import TURNS
from adjoint.engine.backends.llvm.runtime.pool import (
    DriverStep,
    DriverTable,
    WorkerThreads,
    the_pool,
)
from tests.llvm_kernels import STATUS, Call, Program
from tests.pressing import interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pool needs POSIX threads")
WORKERS = [1, 2, 3, 4, 8]


@pytest.fixture(autouse=True)
def _many_threads() -> Iterator[None]:
    """Let programs have the workers they ask for, also more than there are processors."""
    before = threads.get_num_threads()
    threads.set_num_threads(8)
    yield
    threads.set_num_threads(before)


def in_new_process(source: str, *, seconds: float = 300, **environment: str) -> str:
    """The output of a program in an interpreter of its own, which must end well and in time."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# -- programs -------------------------------------------------------------------------------------


def turning(size: int, turns: int) -> tuple[Program, np.ndarray, np.ndarray]:
    """A chain in which every step reads what other workers wrote in the one before."""
    pair = np.arange(size), np.zeros(size, np.int64)
    expected = pair[0].copy()
    calls = []
    for step in range(turns):
        source, target = pair[step % 2], pair[1 - step % 2]
        calls.append(Call("turn", source, target, size, step + 1))
        expected = 3 * np.roll(expected, -(step + 1)) + np.arange(size)
    return Program(*calls), pair[turns % 2], expected


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_step_sees_the_one_before(workers: int, size: int) -> None:
    program, result, expected = turning(size, 40)
    assert program.run(workers) == 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("workers", WORKERS)
def test_barriers_hold_everybody(workers: int) -> None:
    seen = np.zeros(8, np.int64)
    steps = (Call("count", seen), Call("agree", STATUS, seen))
    program = Program(*(steps * 200))
    for _ in range(5):
        assert program.run(workers) == 0
    assert seen[:workers].tolist() == [1000] * workers
    assert not seen[workers:].any()


def test_the_number_of_workers_may_change_from_run_to_run() -> None:
    seen = np.zeros(8, np.int64)
    steps = (Call("count", seen), Call("agree", STATUS, seen))
    program = Program(*(steps * 3))
    for i in range(300):
        seen[:] = 0
        workers = 1 + (i * 5) % 8
        assert program.run(workers) == 0
        assert seen.tolist() == [3] * workers + [0] * (8 - workers)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_serial_step_is_worker_zero_alone(workers: int) -> None:
    seen, told = np.zeros(8, np.int64), np.zeros(2, np.int64)
    program = Program(
        Call("count", seen, parallel=False),
        Call("count", seen, parallel=False, barrier=False),
        Call("who", told, parallel=False),
    )
    assert program.run(workers) == 0
    assert seen.tolist() == [2] + [0] * 7
    assert told.tolist() == [1, 1]  # worker 0 of 1: it does all of the work


@pytest.mark.parametrize("workers", WORKERS)
def test_the_caller_returns_when_all_are_done_without_any_barrier(workers: int) -> None:
    seen = np.zeros(8, np.int64)
    program = Program(Call("work", 1000, barrier=False), *[Call("count", seen, barrier=False)] * 50)
    for i in range(20):
        assert program.run(workers) == 0
        assert seen[:workers].tolist() == [50 * (i + 1)] * workers


def test_an_empty_program() -> None:
    assert Program().run(4) == 0


def test_no_more_workers_than_set_num_threads_allows() -> None:
    threads.set_num_threads(2)
    seen = np.zeros(8, np.int64)
    assert Program(Call("count", seen)).run(8) == 0
    assert seen.tolist() == [1, 1] + [0] * 6


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("culprit", [0, 1, 7])
def test_an_error_stops_everybody_at_the_barrier(workers: int, culprit: int) -> None:
    seen = np.zeros(8, np.int64)
    program = Program(
        Call("count", seen),
        Call("fail", STATUS, 1234 + culprit, culprit, barrier=False),
        Call("count", seen),
        Call("count", seen),
    )
    for i in range(50):
        assert program.run(workers) == 1234 + culprit
        assert seen[:workers].tolist() == [2 * (i + 1)] * workers
    assert Program(Call("count", seen)).run(workers) == 0


@pytest.mark.parametrize("workers", [2, 4])
def test_failing_right_after_a_barrier_leaves_nobody_behind(workers: int) -> None:
    """A worker that is early past a barrier and fails must not stop a late one at that barrier."""
    calls = [Call("nothing")] * 20 + [Call("fail", STATUS, 5, 1)] + [Call("nothing")] * 3
    program = Program(*calls)
    for _ in range(2000 if workers == 2 else 300):
        assert program.run(workers) == 5


def test_a_status_does_not_outlive_its_run() -> None:
    flag = np.zeros(1, np.int64)
    program = Program(Call("fail", STATUS, 9, 0))
    assert program.run(2) == 9
    program.words[0][0] = flag.ctypes.data  # now it reports elsewhere
    assert program.run(2) == 0
    assert flag[0] == 9


# -- jumps ----------------------------------------------------------------------------------------


def looping(limit: int, *inside: Call) -> tuple[Program, np.ndarray, np.ndarray]:
    """Counts as long as a number is below a limit; another count after the end."""
    number, byte = np.zeros(1, np.int64), np.ones(1, np.int8)
    seen, after = np.zeros(8, np.int64), np.zeros(8, np.int64)
    body = [Call("count", seen), *inside, Call("agree", STATUS, seen)]
    body[-1].skip = -len(body) - 2
    program = Program(
        Call("below", number, limit, byte, parallel=False),
        Call("", byte, skip=len(body)),
        *body,
        Call("count", after),
    )
    return program, seen, after


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("limit", [1, 2, TURNS, TURNS + 1, 5 * TURNS])
def test_a_loop_is_walked_by_all_until_its_test_fails(workers: int, limit: int) -> None:
    program, seen, after = looping(limit)
    assert program.run(workers) == 0
    assert seen[:workers].tolist() == [limit - 1] * workers
    assert after[:workers].tolist() == [1] * workers


@pytest.mark.parametrize("workers", WORKERS)
def test_one_of_two_branches_is_walked(workers: int) -> None:
    byte, yes, no = np.zeros(1, np.int8), np.zeros(8, np.int64), np.zeros(8, np.int64)
    program = Program(
        Call("", byte, skip=2), Call("nothing"), Call("count", yes, skip=1), Call("count", no)
    )
    for byte[0] in (0, 1, 0, 7, 0):
        assert program.run(workers) == 0
    assert yes[:workers].tolist() == [2] * workers
    assert no[:workers].tolist() == [3] * workers


@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_ends_a_loop(workers: int) -> None:
    program, seen, after = looping(2**62, Call("fail", STATUS, 7, 1))
    assert program.run(workers) == 7
    assert seen[:workers].tolist() == [1] * workers
    assert not after.any()


def test_jumps_that_lead_nowhere_are_refused() -> None:
    for calls in (
        [Call("nothing", skip=1)],
        [Call("nothing", skip=-2)],
        [Call("nothing"), Call("", np.zeros(1, np.int8), skip=-1)],
        [Call("", np.zeros(1, np.int8), skip=1), Call("nothing")],
    ):
        with pytest.raises(ValueError, match="leads to|ends the table"):
            Program(*calls)


# -- threads of Python, forks, exits --------------------------------------------------------------


def test_callers_in_several_threads_never_wait_for_each_other() -> None:
    wrong: list[str] = []

    def call(size: int) -> None:
        for _ in range(100):
            program, result, expected = turning(size, 4)
            if program.run(3) or not np.array_equal(result, expected):
                wrong.append(f"size {size}")

    callers = [threading.Thread(target=call, args=(size,)) for size in (10, 100, 333, 1000)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not wrong
    assert not any(caller.is_alive() for caller in callers)


def test_the_gil_is_free_during_a_program() -> None:
    slow = Program(Call("work", 400_000_000, parallel=False))
    thread = threading.Thread(target=slow.run, args=(1,))
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks > 5


FORKING = """
    import os, sys
    import numpy as np
    from adjoint.engine.backends import threads
    from adjoint.engine.backends.llvm.runtime.pool import the_pool
    from tests.llvm_kernels import Call, Program
    threads.set_num_threads(4)
    seen = np.zeros(4, np.int64)
    program = Program(*[Call("count", seen)] * 10)
    assert program.run(4) == 0 and the_pool().resident == 3
    {before}
    pid = {fork}
    if pid == 0:
        assert the_pool().resident == 0
        assert program.run(4) == 0 and the_pool().resident == 3
        os._exit(0 if seen.tolist() == [20] * 4 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    {after}
    assert program.run(4) == 0 and seen.tolist() == [20] * 4
    print("done")
"""


def test_a_fork_gives_each_side_its_own_workers() -> None:
    assert in_new_process(FORKING.format(before="", fork="os.fork()", after="")) == "done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is wiped on fork by Linux alone")
def test_a_fork_that_python_does_not_see() -> None:
    fork = "__import__('ctypes').CDLL(None).fork()"
    assert in_new_process(FORKING.format(before="", fork=fork, after="")) == "done\n"


def test_a_fork_while_another_thread_runs_programs() -> None:
    before = """
    import threading
    going = [True]
    other = Program(*[Call("work", 20000)] * 10)
    def loop():
        while going[0]:
            assert other.run(3) == 0
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    """
    source = FORKING.format(
        before=before, fork="os.fork()", after="going[0] = False; thread.join()"
    )
    source = source.replace("assert the_pool().resident == 0", "pass")
    source = source.replace(" and the_pool().resident == 3", "")
    source = "import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(source)
    assert in_new_process(source) == "done\n"


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "import sys; sys.exit(0)",
        "atexit.register(program.run, 4)",
        "import threading; threading.Thread(target=forever, daemon=True).start()",
        "import threading; threading.Thread(target=program.run, args=(4,)).start()",
        "class Late:\n        def __del__(self): program.run(4)\n    late = Late()",
    ],
)
def test_the_interpreter_ends(ending: str) -> None:
    source = f"""
    import atexit, os
    from adjoint.engine.backends import threads
    from tests.llvm_kernels import Call, Program
    def after_the_pool():  # registered before it, so called after it has gone
        assert program.run(4) == 0
        pid = os.fork()
        if pid == 0:
            os._exit(program.run(4))
        assert os.waitpid(pid, 0)[1] == 0
    atexit.register(after_the_pool)
    threads.set_num_threads(4)
    program = Program(*[Call("work", 1000)] * 20)
    def forever():
        while True:
            program.run(4)
    assert program.run(4) == 0
    {ending}
    """
    if "daemon" in ending:  # of which Python 3.12 warns at a fork
        source = source.replace("    atexit.register(after_the_pool)\n", "")
    for _ in range(3 if "Thread" in ending else 1):
        in_new_process(source)


def test_arguments_that_are_no_integers_leave_the_pool_whole() -> None:
    program = Program(Call("nothing"))
    with pytest.raises(TypeError):
        the_pool().run("table", 1, 2)
    with pytest.raises(OverflowError):
        the_pool().run(2**70, 1, 2)
    assert program.run(2) == 0


def test_an_interrupt_leaves_the_pool_whole() -> None:
    program, result, expected = turning(500, 21)
    slow = Program(*[Call("work", 5_000_000)] * 20)
    with interrupted(0.02):
        while True:
            slow.run(3)
    assert program.run(3) == 0
    np.testing.assert_array_equal(result, expected)


def test_signals_go_to_the_caller() -> None:
    """Workers block signals: a handler of Python never waits for a thread that has no Python."""
    program = Program(Call("nothing"))
    caught = []
    before = signal.signal(signal.SIGALRM, lambda *_: caught.append(threading.get_ident()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert program.run(4) == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught
    assert set(caught) == {threading.get_ident()}


# -- how many threads -----------------------------------------------------------------------------

ASK = "from adjoint.engine.backends.threads import *; print(get_num_threads())"


def test_omp_num_threads_is_honoured() -> None:
    assert in_new_process(ASK, OMP_NUM_THREADS="3") == "3\n"
    assert in_new_process(ASK, OMP_NUM_THREADS="5,2") == "5\n"


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_is_honoured(
    files: dict[str, str],
    processors: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(threads, "CONTROL_GROUP", tmp_path)
    monkeypatch.setattr(threads, "_allowed", lambda: set(range(64)))
    assert threads.available_processors() == (processors or 64)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_affinity_is_honoured() -> None:
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
    environment = dict.fromkeys(("OMP_NUM_THREADS",), "")
    assert in_new_process(pin + ASK, **environment) == "1\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="placement is Linux's")
@pytest.mark.skipif(len(threads._allowed()) < 2, reason="needs two processors")
def test_workers_stay_off_the_callers_processor() -> None:
    source = """
    import ctypes, os
    from adjoint.engine.backends import threads
    from adjoint.engine.backends.llvm.runtime import shared_words
    from adjoint.engine.backends.llvm.runtime.pool import the_pool
    from tests.llvm_kernels import Call, Program
    threads.set_num_threads(2)
    program = Program(Call("nothing"))
    before = set(os.listdir("/proc/self/task"))
    assert program.run(2) == 0
    (worker,) = {int(t) for t in set(os.listdir("/proc/self/task")) - before}
    everywhere = os.sched_getaffinity(0)
    for cpu in sorted(everywhere)[:2] * 3:
        os.sched_setaffinity(0, {cpu})  # the caller moves
        assert program.run(2) == 0
        assert os.sched_getaffinity(worker) == everywhere - {cpu}
    """
    in_new_process(source)


def test_threads_that_cannot_be_had_are_done_without() -> None:
    source = """
    import resource, warnings
    import numpy as np
    from adjoint.engine.backends import threads
    from adjoint.engine.backends.llvm.runtime.pool import the_pool
    from tests.llvm_kernels import Call, Program
    threads.set_num_threads(4)
    seen = np.zeros(4, np.int64)
    program, pool = Program(Call("count", seen)), the_pool()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stack = 2 * 2**20 if stack == resource.RLIM_INFINITY else stack  # what glibc then takes
    limit = pages * resource.getpagesize() + stack * 3 // 2  # room for one more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with warnings.catch_warnings(record=True) as seen_warnings:
        warnings.simplefilter("always")
        assert program.run(4) == 0 and program.run(4) == 0
    print(seen.tolist(), [str(w.message)[:32] for w in seen_warnings])
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("limits on memory are Linux's")
    said = "['the system gives no more threads']"
    assert in_new_process(source) == f"[2, 2, 0, 0] {said}\n"


# -- other ways to sleep, and floating point ------------------------------------------------------


def test_conditions_do_where_there_is_no_futex() -> None:
    host = shared_words.host_platform()
    pool = WorkerThreads(shared_words.Platform(host.machine, host.linux, futex=False))
    try:
        for workers in WORKERS:
            program, result, expected = turning(100, 41)
            assert program.run(workers, pool) == 0
            np.testing.assert_array_equal(result, expected)
            time.sleep(0.001)  # asleep, not polling
    finally:
        assert pool.stop()
    assert pool.resident == 0


def test_workers_wake_from_sleep() -> None:
    program, result, expected = turning(100, 5)
    for _ in range(30):
        time.sleep(0.002)
        assert program.run(4) == 0
    result[:] = 0
    program, result, expected = turning(100, 5)
    time.sleep(0.002)
    assert program.run(4) == 0
    np.testing.assert_array_equal(result, expected)


FLUSH = {  # read and set the word that says how to round and whether to flush
    "aarch64": (
        1 << 24,
        '%v = call i64 asm sideeffect "mrs $0, fpcr", "=r"()',
        'call void asm sideeffect "msr fpcr, $0", "r"(i64 %v)',
    ),
    "x86_64": (
        1 << 15,
        """%m = alloca i64
 store i64 0, ptr %m
 call void asm sideeffect "stmxcsr $0", "=*m"(ptr elementtype(i32) %m)
 %v = load i64, ptr %m""",
        """%m = alloca i64
 store i64 %v, ptr %m
 call void asm sideeffect "ldmxcsr $0", "*m"(ptr elementtype(i32) %m)""",
    ),
}


@pytest.mark.skipif(shared_words.host_platform().machine not in FLUSH, reason="another processor")
def test_workers_round_and_flush_as_the_caller_does() -> None:
    bit, get, put = FLUSH[shared_words.host_platform().machine]
    library = jit.link(
        jit.assemble(f"""
define i64 @get() {{
 {get}
 ret i64 %v
}}
define i64 @put(i64 %v) {{
 {put}
 ret i64 0
}}
define void @note(ptr %args, i64 %w, i64 %n) {{
 %v = call i64 @get()
 %seen = load ptr, ptr %args
 %p = getelementptr i64, ptr %seen, i64 %w
 store i64 %v, ptr %p
 ret void
}}""")
    )
    read = fastcall.from_integers(library.address("get"), 0, name="get")
    write = fastcall.from_integers(library.address("put"), 1, name="put")
    seen = np.zeros(4, np.int64)
    words = np.array([seen.ctypes.data])
    table = DriverTable([DriverStep(library.address("note"), words.ctypes.data)])
    before = read()
    try:
        for wanted in (before | bit, before & ~bit, before | bit):
            write(wanted)
            assert the_pool().run(table.address, 1, 4) == 0
            assert [bool(v & bit) for v in seen.tolist()] == [bool(wanted & bit)] * 4
    finally:
        write(before)


def test_what_the_assembler_imports_a_fork_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that another thread is importing can never be imported in a child."""
    seen: list[bool] = []
    plain = builtins.__import__

    def watched(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "llvmlite":
            seen.append(jit._lock._is_owned())
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", watched)
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", "0")  # where the answer would be kept
    jit.target_key.cache_clear()
    jit.target_key()
    assert seen
    assert all(seen)
