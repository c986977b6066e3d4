"""The native driver: one small module of IR that walks a program's table on every worker.

A program is a table in memory. Its first 64 bytes are a header whose first word is the status; then
come the steps, three words each: function, argument words, flags. A kernel is

    void kernel(ptr args, i64 worker, i64 workers)

and takes the share of its iterations that (worker, workers) names. A kernel that must report an
error stores a code into the status word, whose address it finds among its arguments, atomically
(monotonic); the walk ends at the next barrier on every worker and `run` returns the code.

Note [barriers]: a dissemination barrier. In round r worker w tells worker w + 2^r that everything
it knows of has arrived, and waits to hear the same from w - 2^r; after ceil(log2 workers) rounds
all have heard of all. Each message is a word of its own, with one writer and one reader: with two
workers a barrier is one store and one load each. The word is twice the barrier's number, plus one
if a status was seen, so that all leave with the same verdict: a worker that went ahead and failed
meanwhile cannot make a slower one stop at a barrier the others have passed. Numbers never repeat,
and even and odd ones use different words, so nobody overwrites what is still to be read.

Note [sleeping]: who waits polls for a while, then sets `sleeping` beside the word, looks once more
and sleeps in the kernel until it is cleared. Who tells stores the word, then looks at `sleeping`.
Both orders are sequentially consistent, so one of the two sees the other. Telling somebody who
polls costs no system call. Where workers outnumber processors nobody polls for long, and nobody
ever calls `sched_yield` (milliseconds on a busy machine).

Note [stacking]: a worker that wakes is often put on the processor of the caller that woke it, and
the caller then polls in its way. When the caller is not on the processor of last time, the workers
are told to stay off the new one; the caller itself is free to move.
"""

from __future__ import annotations

import platform
import signal
import sys
from dataclasses import dataclass

PARALLEL = 1  # every worker calls the function; otherwise worker 0 alone
BARRIER = 2  # nobody passes before all are here

HEADER_WORDS = 8
STEP_WORDS = 3
NEED_WORKERS = -(2**63)  # returned by `run` when fewer workers are resident than asked for

MAX_WORKERS = 256
LINE = 128  # two processors writing within this many bytes slow each other down
ROUNDS = 8  # 2^8 workers
BLOCK = 16 * LINE  # a worker's own words: launch, rounds, itself, mutex, condition
FIRST_BLOCK = 8 * LINE
POOL_BYTES = FIRST_BLOCK + MAX_WORKERS * BLOCK

# Offsets in the pool.
BUSY = 0
STARTED, PROCESSORS, CPUS, LAST_CPU, MOVES = (LINE + 8 * i for i in range(5))
TABLE, COUNT, WORKERS, EPOCH, LAUNCH, STOP, FLOATS, SPIN_LAUNCH, SPIN_BARRIER = (
    2 * LINE + 8 * i for i in range(9)
)
ALLOWED = 3 * LINE  # the processors this process may use, one bit each
EXCEPT = 4 * LINE  # the same without the caller's
CPU_BYTES = 128
# Offsets in a block.
SLEEPING = 16  # in every line that is waited on
ROUND_LINES = LINE
POOL, INDEX, THREAD = (9 * LINE + 8 * i for i in range(3))
MUTEX, CONDITION = 10 * LINE, 11 * LINE

POLLS = 64  # between looks at the clock
LAUNCH_SPIN = 50_000  # ns a worker polls for the next program before it sleeps
BARRIER_SPIN = 20_000  # ns anyone polls in a barrier before it sleeps
STACK = 8 * 2**20
PAUSES = {"x86_64": "pause", "aarch64": "isb sy"}
FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}


@dataclass(frozen=True, slots=True)
class Platform:
    """What the driver is written for."""

    machine: str  # "x86_64", "aarch64"
    linux: bool
    futex: bool  # else a mutex and a condition per worker

    @property
    def clock(self) -> int:
        """The number of the monotonic clock."""
        return 1 if self.linux else 6


def host_platform() -> Platform:
    """This machine's."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    linux = sys.platform.startswith("linux")
    return Platform(machine, linux, linux and machine in FUTEX_CALLS and sys.maxsize > 2**32)


def driver_text(target: Platform) -> str:
    """The driver's IR."""
    parts = [DECLARATIONS, _floats(target), _clock(target), _sleep(target), _cpus(target)]
    parts += [_waiting(target), BARRIERS, WALK, RUN, _threads(target), STOPPING]
    return "\n".join(parts)


DECLARATIONS = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def _field(name: str, base: str, offset: int) -> str:
    return f"  {name} = getelementptr i8, ptr {base}, i64 {offset}"


# -- what differs between machines ----------------------------------------------------------------


def _floats(target: Platform) -> str:
    """The caller's rounding and flushing, which the workers take over to compute the same bits."""
    if target.machine == "aarch64":
        get = '  %v = call i64 asm sideeffect "mrs $0, fpcr", "=r"()\n  ret i64 %v'
        put = '  call void asm sideeffect "msr fpcr, $0", "r"(i64 %v)\n  ret void'
    elif target.machine == "x86_64":
        # Bits 0 to 5 say what has happened, not what shall: left out.
        get = """  %m = alloca i32
  call void asm sideeffect "stmxcsr $0", "=*m"(ptr elementtype(i32) %m)
  %w = load i32, ptr %m
  %k = and i32 %w, -64
  %v = zext i32 %k to i64
  ret i64 %v"""
        put = """  %m = alloca i32
  %w = trunc i64 %v to i32
  store i32 %w, ptr %m
  call void asm sideeffect "ldmxcsr $0", "*m"(ptr elementtype(i32) %m)
  ret void"""
    else:
        get, put = "  ret i64 0", "  ret void"
    return f"""
define internal i64 @get_floats() {{
{get}
}}
define internal void @put_floats(i64 %v) {{
{put}
}}"""


def _clock(target: Platform) -> str:
    return f"""
define internal i64 @now() {{
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 {target.clock}, ptr %t)
  %s = load i64, ptr %t
  %np = getelementptr i8, ptr %t, i64 8
  %n = load i64, ptr %np
  %ns = mul i64 %s, 1000000000
  %r = add i64 %ns, %n
  ret i64 %r
}}"""


def _sleep(target: Platform) -> str:
    """`sleep` returns once `word` is not 1, or earlier; `wake` is called after it was cleared."""
    if target.futex:
        number = FUTEX_CALLS[target.machine]
        return f"""
declare i64 @syscall(i64, ...)
define internal void @sleep(ptr %block, ptr %word) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i64 128, i64 1, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %block, ptr %word) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @make_sleepable(ptr %block) {{
  ret void
}}"""
    places = f"{_field('%mutex', '%block', MUTEX)}\n{_field('%cond', '%block', CONDITION)}"
    return f"""
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
define internal void @sleep(ptr %block, ptr %word) {{
{places}
  call i32 @pthread_mutex_lock(ptr %mutex)
  %v = load atomic i32, ptr %word seq_cst, align 4
  %still = icmp eq i32 %v, 1
  br i1 %still, label %wait, label %end
wait:
  call i32 @pthread_cond_wait(ptr %cond, ptr %mutex)
  br label %end
end:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
define internal void @wake(ptr %block, ptr %word) {{
{places}
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %cond)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
define internal void @make_sleepable(ptr %block) {{
{places}
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %cond, ptr null)
  ret void
}}"""


def _cpus(target: Platform) -> str:
    """Note [stacking]; elsewhere than on Linux the system places threads."""
    if not target.linux:
        return """
define internal void @learn_cpus(ptr %pool) {
  ret void
}
define internal void @keep_off(ptr %pool, i64 %workers) {
  ret void
}"""
    return f"""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @learn_cpus(ptr %pool) {{
entry:
{_field("%allowed", "%pool", ALLOWED)}
{_field("%cpus", "%pool", CPUS)}
{_field("%last", "%pool", LAST_CPU)}
  store i64 -1, ptr %last
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 {CPU_BYTES}, i1 false)
  call i32 @sched_getaffinity(i32 0, i64 {CPU_BYTES}, ptr %allowed)
  br label %count
count:
  %i = phi i64 [0, %entry], [%i1, %count]
  %n = phi i64 [0, %entry], [%n1, %count]
  %p = getelementptr i64, ptr %allowed, i64 %i
  %w = load i64, ptr %p
  %k = call i64 @llvm.ctpop.i64(i64 %w)
  %n1 = add i64 %n, %k
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {CPU_BYTES // 8}
  br i1 %more, label %count, label %end
end:
  store i64 %n1, ptr %cpus
  ret void
}}

define internal void @keep_off(ptr %pool, i64 %workers) {{
entry:
{_field("%lastp", "%pool", LAST_CPU)}
{_field("%cpusp", "%pool", CPUS)}
{_field("%movesp", "%pool", MOVES)}
{_field("%allowed", "%pool", ALLOWED)}
{_field("%mask", "%pool", EXCEPT)}
{_field("%startedp", "%pool", STARTED)}
  %cpu32 = call i32 @sched_getcpu()
  %cpu = sext i32 %cpu32 to i64
  %last = load i64, ptr %lastp
  %same = icmp eq i64 %cpu, %last
  br i1 %same, label %end, label %moved
moved:
  store i64 %cpu, ptr %lastp
  %cpus = load i64, ptr %cpusp
  %few = icmp ugt i64 %workers, %cpus
  %odd = icmp uge i64 %cpu, {8 * CPU_BYTES}
  %no = or i1 %few, %odd
  br i1 %no, label %end, label %tell
tell:
  %moves = load i64, ptr %movesp
  %moves1 = add i64 %moves, 1
  store i64 %moves1, ptr %movesp
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 {CPU_BYTES}, i1 false)
  %wi = lshr i64 %cpu, 6
  %bi = and i64 %cpu, 63
  %bit = shl i64 1, %bi
  %keep = xor i64 %bit, -1
  %wp = getelementptr i64, ptr %mask, i64 %wi
  %old = load i64, ptr %wp
  %new = and i64 %old, %keep
  store i64 %new, ptr %wp
  %started = load i64, ptr %startedp
  br label %each
each:
  %w = phi i64 [1, %tell], [%w1, %one]
  %more = icmp ule i64 %w, %started
  br i1 %more, label %one, label %end
one:
  %block = call ptr @block_of(ptr %pool, i64 %w)
{_field("%tp", "%block", THREAD)}
  %thread = load i64, ptr %tp
  call i32 @pthread_setaffinity_np(i64 %thread, i64 {CPU_BYTES}, ptr %mask)
  %w1 = add i64 %w, 1
  br label %each
end:
  ret void
}}"""


# -- waiting and telling --------------------------------------------------------------------------


def _waiting(target: Platform) -> str:
    pause = PAUSES.get(target.machine)
    rest = f'  call void asm sideeffect "{pause}", ""()' if pause else ""
    return f"""
define internal ptr @block_of(ptr %pool, i64 %w) {{
  %o = mul i64 %w, {BLOCK}
  %o1 = add i64 %o, {FIRST_BLOCK}
  %p = getelementptr i8, ptr %pool, i64 %o1
  ret ptr %p
}}

define internal i64 @await(ptr %block, ptr %line, ptr %word, i64 %wanted, i64 %budget) {{
entry:
{_field("%sleeping", "%line", SLEEPING)}
  br label %poll
poll:
  %i = phi i64 [0, %entry], [%i1, %again], [0, %look]
  %until = phi i64 [0, %entry], [%until, %again], [%end, %look]
  %v = load atomic i64, ptr %word acquire, align 8
  %here = icmp sge i64 %v, %wanted
  br i1 %here, label %done, label %again
again:
{rest}
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {POLLS}
  br i1 %more, label %poll, label %look
look:
  %now = call i64 @now()
  %first = icmp eq i64 %until, 0
  %then = add i64 %now, %budget
  %end = select i1 %first, i64 %then, i64 %until
  %late = icmp sge i64 %now, %end
  br i1 %late, label %park, label %poll
park:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %u = load atomic i64, ptr %word seq_cst, align 8
  %come = icmp sge i64 %u, %wanted
  br i1 %come, label %awake, label %down
down:
  call void @sleep(ptr %block, ptr %sleeping)
  br label %park
awake:
  store atomic i32 0, ptr %sleeping seq_cst, align 4
  br label %done
done:
  %r = phi i64 [%v, %poll], [%u, %awake]
  ret i64 %r
}}

define internal void @tell(ptr %block, ptr %line, ptr %word, i64 %value) {{
{_field("%sleeping", "%line", SLEEPING)}
  store atomic i64 %value, ptr %word seq_cst, align 8
  %s = load atomic i32, ptr %sleeping seq_cst, align 4
  %down = icmp ne i32 %s, 0
  br i1 %down, label %rouse, label %end
rouse:
  %old = atomicrmw xchg ptr %sleeping, i32 0 seq_cst
  call void @wake(ptr %block, ptr %sleeping)
  br label %end
end:
  ret void
}}"""


# Note [barriers]. Returns 1 if the program is to stop.
BARRIERS = f"""
define internal i64 @barrier(ptr %pool, ptr %table, i64 %w, i64 %n, i64 %epoch) {{
entry:
{_field("%spinp", "%pool", SPIN_BARRIER)}
  %spin = load i64, ptr %spinp
  %mine = call ptr @block_of(ptr %pool, i64 %w)
  %status = load atomic i64, ptr %table monotonic, align 8
  %failed = icmp ne i64 %status, 0
  %stop = zext i1 %failed to i64
  %number = shl i64 %epoch, 1
  %start = or i64 %number, %stop
  %parity = and i64 %epoch, 1
  %side = shl i64 %parity, 3
  br label %round
round:
  %hop = phi i64 [1, %entry], [%hop1, %next]
  %offset = phi i64 [{ROUND_LINES}, %entry], [%offset1, %next]
  %value = phi i64 [%start, %entry], [%value1, %next]
  %more = icmp ult i64 %hop, %n
  br i1 %more, label %next, label %end
next:
  %to = add i64 %w, %hop
  %over = icmp uge i64 %to, %n
  %wrapped = sub i64 %to, %n
  %peer = select i1 %over, i64 %wrapped, i64 %to
  %theirs = call ptr @block_of(ptr %pool, i64 %peer)
  %tline = getelementptr i8, ptr %theirs, i64 %offset
  %tword = getelementptr i8, ptr %tline, i64 %side
  call void @tell(ptr %theirs, ptr %tline, ptr %tword, i64 %value)
  %mline = getelementptr i8, ptr %mine, i64 %offset
  %mword = getelementptr i8, ptr %mline, i64 %side
  %got = call i64 @await(ptr %mine, ptr %mline, ptr %mword, i64 %number, i64 %spin)
  %bad = and i64 %got, 1
  %value1 = or i64 %value, %bad
  %hop1 = shl i64 %hop, 1
  %offset1 = add i64 %offset, {LINE}
  br label %round
end:
  %verdict = and i64 %value, 1
  ret i64 %verdict
}}"""

# -- the walk -------------------------------------------------------------------------------------

# Returns the number of the next barrier. The last step always ends in a barrier: the caller must
# not return before everybody is done.
WALK = f"""
define internal i64 @walk(ptr %pool, ptr %table, i64 %count, i64 %w, i64 %n, i64 %first) {{
entry:
{_field("%steps", "%table", 8 * HEADER_WORDS)}
  %last = sub i64 %count, 1
  %alone = icmp eq i64 %n, 1
  %leader = icmp eq i64 %w, 0
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %onward]
  %epoch = phi i64 [%first, %entry], [%epoch1, %onward]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %end
step:
  %at = mul i64 %i, {STEP_WORDS * 8}
  %p = getelementptr i8, ptr %steps, i64 %at
  %ap = getelementptr i8, ptr %p, i64 8
  %fp = getelementptr i8, ptr %p, i64 16
  %function = load ptr, ptr %p
  %args = load ptr, ptr %ap
  %flags = load i64, ptr %fp
  %pbit = and i64 %flags, {PARALLEL}
  %parallel = icmp ne i64 %pbit, 0
  %mine = or i1 %parallel, %leader
  br i1 %mine, label %do, label %did
do:
  %serial = xor i1 %parallel, true
  %among = select i1 %serial, i64 1, i64 %n
  call void %function(ptr %args, i64 %w, i64 %among)
  br label %did
did:
  %bbit = and i64 %flags, {BARRIER}
  %asked = icmp ne i64 %bbit, 0
  %final = icmp eq i64 %i, %last
  %meet = or i1 %asked, %final
  %i1 = add i64 %i, 1
  br i1 %meet, label %join, label %onward
join:
  br i1 %alone, label %look, label %all
look:
  %status = load atomic i64, ptr %table monotonic, align 8
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %end, label %onward
all:
  %verdict = call i64 @barrier(ptr %pool, ptr %table, i64 %w, i64 %n, i64 %epoch)
  %next = add i64 %epoch, 1
  %stop = icmp ne i64 %verdict, 0
  br i1 %stop, label %end, label %onward
onward:
  %epoch1 = phi i64 [%epoch, %did], [%epoch, %look], [%next, %all]
  br label %head
end:
  %r = phi i64 [%epoch, %head], [%epoch, %look], [%next, %all]
  ret i64 %r
}}

define internal void @spread(ptr %pool, i64 %w, i64 %n, i64 %launch) {{
entry:
  %double = shl i64 %w, 1
  %first = add i64 %double, 1
  %beyond = add i64 %double, 3
  br label %head
head:
  %c = phi i64 [%first, %entry], [%c1, %one]
  %in = icmp ult i64 %c, %beyond
  %real = icmp ult i64 %c, %n
  %more = and i1 %in, %real
  br i1 %more, label %one, label %end
one:
  %block = call ptr @block_of(ptr %pool, i64 %c)
  call void @tell(ptr %block, ptr %block, ptr %block, i64 %launch)
  %c1 = add i64 %c, 1
  br label %head
end:
  ret void
}}"""

# The one entry for programs. Whoever finds the workers taken runs on its own thread.
RUN = f"""
define i64 @run(ptr %pool, ptr %table, i64 %count, i64 %n) {{
entry:
  store atomic i64 0, ptr %table monotonic, align 8
  %some = icmp sgt i64 %n, 1
  %any = icmp sgt i64 %count, 0
  %many = and i1 %some, %any
  br i1 %many, label %take, label %serial
take:
  %got = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %got, 1
  br i1 %mine, label %check, label %serial
check:
{_field("%startedp", "%pool", STARTED)}
  %started = load i64, ptr %startedp
  %enough = add i64 %started, 1
  %ok = icmp sge i64 %enough, %n
  br i1 %ok, label %launch, label %need
need:
  store atomic i64 0, ptr %pool release, align 8
  ret i64 {NEED_WORKERS}
launch:
  call void @keep_off(ptr %pool, i64 %n)
{_field("%tp", "%pool", TABLE)}
{_field("%cp", "%pool", COUNT)}
{_field("%wp", "%pool", WORKERS)}
{_field("%ep", "%pool", EPOCH)}
{_field("%lp", "%pool", LAUNCH)}
{_field("%fp", "%pool", FLOATS)}
{_field("%sl", "%pool", SPIN_LAUNCH)}
{_field("%sb", "%pool", SPIN_BARRIER)}
{_field("%pp", "%pool", PROCESSORS)}
  %processors = load i64, ptr %pp
  %crowded = icmp ugt i64 %n, %processors
  %spin_l = select i1 %crowded, i64 0, i64 {LAUNCH_SPIN}
  %spin_b = select i1 %crowded, i64 0, i64 {BARRIER_SPIN}
  store atomic i64 %spin_l, ptr %sl monotonic, align 8
  store i64 %spin_b, ptr %sb
  store ptr %table, ptr %tp
  store i64 %count, ptr %cp
  store i64 %n, ptr %wp
  %floats = call i64 @get_floats()
  store i64 %floats, ptr %fp
  %epoch = load i64, ptr %ep
  %l = load i64, ptr %lp
  %l1 = add i64 %l, 1
  store i64 %l1, ptr %lp
  call void @spread(ptr %pool, i64 0, i64 %n, i64 %l1)
  %after = call i64 @walk(ptr %pool, ptr %table, i64 %count, i64 0, i64 %n, i64 %epoch)
  store i64 %after, ptr %ep
  %status = load atomic i64, ptr %table monotonic, align 8
  store atomic i64 0, ptr %pool release, align 8
  ret i64 %status
serial:
  %x = call i64 @walk(ptr %pool, ptr %table, i64 %count, i64 0, i64 1, i64 0)
  %code = load atomic i64, ptr %table monotonic, align 8
  ret i64 %code
}}

define ptr @worker(ptr %block) {{
entry:
{_field("%pp", "%block", POOL)}
{_field("%ip", "%block", INDEX)}
  %pool = load ptr, ptr %pp
  %w = load i64, ptr %ip
{_field("%tp", "%pool", TABLE)}
{_field("%cp", "%pool", COUNT)}
{_field("%wp", "%pool", WORKERS)}
{_field("%ep", "%pool", EPOCH)}
{_field("%sp", "%pool", STOP)}
{_field("%fp", "%pool", FLOATS)}
{_field("%spinp", "%pool", SPIN_LAUNCH)}
  %before = call i64 @get_floats()
  br label %loop
loop:
  %last = phi i64 [0, %entry], [%launch, %set]
  %had = phi i64 [%before, %entry], [%floats, %set]
  %wanted = add i64 %last, 1
  %spin = load atomic i64, ptr %spinp monotonic, align 8
  %launch = call i64 @await(ptr %block, ptr %block, ptr %block, i64 %wanted, i64 %spin)
  %n = load i64, ptr %wp
  call void @spread(ptr %pool, i64 %w, i64 %n, i64 %launch)
  %stop = load i64, ptr %sp
  %out = icmp ne i64 %stop, 0
  br i1 %out, label %end, label %job
job:
  %table = load ptr, ptr %tp
  %count = load i64, ptr %cp
  %epoch = load i64, ptr %ep
  %floats = load i64, ptr %fp
  %same = icmp eq i64 %floats, %had
  br i1 %same, label %set, label %change
change:
  call void @put_floats(i64 %floats)
  br label %set
set:
  %x = call i64 @walk(ptr %pool, ptr %table, i64 %count, i64 %w, i64 %n, i64 %epoch)
  br label %loop
end:
  ret ptr null
}}"""


# -- threads --------------------------------------------------------------------------------------


def _threads(target: Platform) -> str:
    """`grow(pool, wanted, ...)` starts threads until `wanted` are resident, or none can be had."""
    handled = [signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]
    if hasattr(signal, "SIGBUS"):
        handled.append(signal.SIGBUS)
    spare = "\n".join(f"  call i32 @sigdelset(ptr %all, i32 {int(s)})" for s in handled)
    block, restore = (0, 2) if target.linux else (1, 3)
    return f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)

define i64 @grow(ptr %pool, i64 %wanted, i64 %processors) {{
entry:
  %all = alloca [16 x i64]
  %old = alloca [16 x i64]
  %attr = alloca [16 x i64]
  %taken = call i64 @take(ptr %pool, i64 {2**62})
{_field("%startedp", "%pool", STARTED)}
{_field("%pp0", "%pool", PROCESSORS)}
{_field("%ep", "%pool", EPOCH)}
  store i64 %processors, ptr %pp0
  call void @learn_cpus(ptr %pool)
  %had = load i64, ptr %startedp
  %fresh = icmp eq i64 %had, 0
  br i1 %fresh, label %first, label %prepare
first:
  store i64 1, ptr %ep
  %zero = call ptr @block_of(ptr %pool, i64 0)
  call void @make_sleepable(ptr %zero)
  br label %prepare
prepare:
  call i32 @sigfillset(ptr %all)
{spare}
  call i32 @pthread_sigmask(i32 {block}, ptr %all, ptr %old)
  call i32 @pthread_attr_init(ptr %attr)
  call i32 @pthread_attr_setstacksize(ptr %attr, i64 {STACK})
  br label %head
head:
  %started = phi i64 [%had, %prepare], [%w, %made]
  %more = icmp ult i64 %started, %wanted
  br i1 %more, label %one, label %end
one:
  %w = add i64 %started, 1
  %block = call ptr @block_of(ptr %pool, i64 %w)
{_field("%pp", "%block", POOL)}
{_field("%ip", "%block", INDEX)}
{_field("%tp", "%block", THREAD)}
  store ptr %pool, ptr %pp
  store i64 %w, ptr %ip
  call void @make_sleepable(ptr %block)
  %code = call i32 @pthread_create(ptr %tp, ptr %attr, ptr @worker, ptr %block)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %end, label %made
made:
  store i64 %w, ptr %startedp
  br label %head
end:
  call i32 @pthread_attr_destroy(ptr %attr)
  call i32 @pthread_sigmask(i32 {restore}, ptr %old, ptr null)
  store atomic i64 0, ptr %pool release, align 8
  ret i64 %started
}}"""


# `take` waits for the pool at most so many times 100 us; `stop` ends the threads and keeps the pool
# taken (before a fork, and at exit, when later programs shall run alone); `give` returns it.
STOPPING = f"""
define i64 @take(ptr %pool, i64 %tries) {{
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %wait]
  %got = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %got, 1
  br i1 %mine, label %yes, label %no
no:
  %more = icmp ult i64 %i, %tries
  br i1 %more, label %wait, label %never
wait:
  call i32 @usleep(i32 100)
  %i1 = add i64 %i, 1
  br label %head
yes:
  ret i64 1
never:
  ret i64 0
}}

define i64 @stop(ptr %pool, i64 %tries) {{
entry:
  %taken = call i64 @take(ptr %pool, i64 %tries)
  %mine = icmp ne i64 %taken, 0
  br i1 %mine, label %check, label %never
check:
{_field("%startedp", "%pool", STARTED)}
{_field("%wp", "%pool", WORKERS)}
{_field("%lp", "%pool", LAUNCH)}
{_field("%sp", "%pool", STOP)}
  %started = load i64, ptr %startedp
  %any = icmp ne i64 %started, 0
  br i1 %any, label %tell, label %end
tell:
  %n = add i64 %started, 1
  store i64 %n, ptr %wp
  store i64 1, ptr %sp
  %l = load i64, ptr %lp
  %l1 = add i64 %l, 1
  store i64 %l1, ptr %lp
  call void @spread(ptr %pool, i64 0, i64 %n, i64 %l1)
  br label %join
join:
  %w = phi i64 [1, %tell], [%w1, %join]
  %block = call ptr @block_of(ptr %pool, i64 %w)
{_field("%tp", "%block", THREAD)}
  %thread = load i64, ptr %tp
  call i32 @pthread_join(i64 %thread, ptr null)
  %w1 = add i64 %w, 1
  %more = icmp ule i64 %w1, %started
  br i1 %more, label %join, label %clear
clear:
  %rest = getelementptr i8, ptr %pool, i64 {LINE}
  %blocks = mul i64 %n, {BLOCK}
  %size = add i64 %blocks, {FIRST_BLOCK - LINE}
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 %size, i1 false)
  br label %end
end:
  ret i64 1
never:
  ret i64 0
}}

define void @give(ptr %pool) {{
  store atomic i64 0, ptr %pool release, align 8
  ret void
}}"""
