"""The native driver: one small module of IR that walks a program's table on every worker.

A program is a table in memory. Its first 64 bytes are a header whose first word is the status; then
come the steps, four words each: function, argument words, flags, and how many steps are left out
after this one (below 0: gone back). A kernel is

    void kernel(ptr args, i64 worker, i64 workers)

and takes the share of its iterations that (worker, workers) names. A kernel that must report an
error stores a code into the status word, whose address it finds among its arguments, atomically
(monotonic); the walk ends at the next barrier on every worker and `run` returns the code.

A step that is a test calls nothing: it leaves steps out where the byte that its argument word names
is 0. Every worker reads it by itself, so on both ways from a test there must be a barrier before
anything writes that byte, and before the end.

A program that has gone back `TURNS` times pauses: the walk ends on every worker, the header says
where, and `run` returns PAUSED, so that Python can look after its signals and call `run` again. A
loop that never ends can so be interrupted.

A run that is timed (`run_timed`) is the same but for its first worker, which walks by a second copy
of the walk that looks at the clock after each step; others walk as ever, and so do all programs
that nobody times.

How workers wait for each other is in `waiting`, where they run in `placing`, and the memory they
share in `layout`.
"""

from __future__ import annotations

import signal

from adjoint.engine.backends.llvm.runtime.shared_words import (
    BARRIER,
    BLOCK,
    COUNT,
    EPOCH,
    FIRST_BLOCK,
    FLOATS,
    HEADER_WORDS,
    INDEX,
    LAUNCH,
    LINE,
    NEED_WORKERS,
    PARALLEL,
    PAUSED,
    POOL,
    PROCESSORS,
    RESUME,
    SPIN_BARRIER,
    SPIN_LAUNCH,
    START,
    STARTED,
    STEP_WORDS,
    STOP,
    TABLE,
    TEST,
    THREAD,
    TIME_WORDS,
    TIMES,
    WORKERS,
    Platform,
    field,
)
from adjoint.engine.backends.llvm.runtime.waiting import waiting_text
from adjoint.engine.backends.llvm.runtime.worker_placement import placing_text

# Nanoseconds that a worker polls for the next program, and anyone in a barrier, before it sleeps:
# of two workers, and more for each further one, as all must be awake before one is through. With
# two workers' times an eager GPT's step on 16 processors waited longer than it computed.
LAUNCH_SPIN, FURTHER_LAUNCH_SPIN = 50_000, 140_000
BARRIER_SPIN, FURTHER_BARRIER_SPIN = 20_000, 13_000
STACK = 8 * 2**20
TURNS = 128  # of loops, before a program pauses; to go on costs two or three microseconds


def driver_text(target: Platform) -> str:
    """The driver's IR."""
    parts = [DECLARATIONS, placing_text(target), waiting_text(target)]
    parts += [walk_text(timed=False), walk_text(timed=True), SPREAD, TIMING]
    parts += [_run(timed=False), _run(timed=True), WORKER, _threads(target), STOPPING]
    return "\n".join(parts)


DECLARATIONS = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


# -- the walk -------------------------------------------------------------------------------------


def walk_text(timed: bool) -> str:
    """`walk` returns the number of the next barrier.

    Whatever ends the walk comes after a barrier: the caller must not return before everybody is
    done with the table.
    """
    name, begin, last, note = "walk", "", "", ""
    if timed:
        name = "walk_timed"
        begin = f"""{field("%timesp", "%table", TIMES)}
  %times = load ptr, ptr %timesp
  %begin = call i64 @now()"""
        last = "  %last = phi i64 [%begin, %entry], [%last1, %onward], [%last, %test]"
        note = "  %last1 = call i64 @note_time(ptr %times, i64 %i, i64 %last)"
    return f"""
define internal i64 @{name}(ptr %pool, ptr %table, i64 %count, i64 %w, i64 %n, i64 %first,
    i64 %start) {{
entry:
{field("%steps", "%table", 8 * HEADER_WORDS)}
{begin}
  %alone = icmp eq i64 %n, 1
  %leader = icmp eq i64 %w, 0
  br label %head
head:
  %i = phi i64 [%start, %entry], [%i1, %onward], [%i2, %test]
  %turns = phi i64 [0, %entry], [%turns1, %onward], [%turns, %test]
  %epoch = phi i64 [%first, %entry], [%epoch1, %onward], [%epoch, %test]
{last}
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %end
step:
  %at = mul i64 %i, {STEP_WORDS * 8}
  %p = getelementptr i8, ptr %steps, i64 %at
  %ap = getelementptr i8, ptr %p, i64 8
  %fp = getelementptr i8, ptr %p, i64 16
  %sp = getelementptr i8, ptr %p, i64 24
  %function = load ptr, ptr %p
  %args = load ptr, ptr %ap
  %flags = load i64, ptr %fp
  %skip = load i64, ptr %sp
  %next = add i64 %i, 1
  %i1 = add i64 %next, %skip
  %tbit = and i64 %flags, {TEST}
  %tests = icmp ne i64 %tbit, 0
  br i1 %tests, label %test, label %call
test:
  %where = load ptr, ptr %args
  %byte = load i8, ptr %where
  %zero = icmp eq i8 %byte, 0
  %i2 = select i1 %zero, i64 %i1, i64 %next
  br label %head
call:
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
  %back = icmp slt i64 %skip, 0
  %turn = zext i1 %back to i64
  %turns1 = add i64 %turns, %turn
  %pause = icmp eq i64 %turns1, {TURNS}
  %done = icmp sge i64 %i1, %count
  %final = or i1 %done, %pause
  %bbit = and i64 %flags, {BARRIER}
  %asked = icmp ne i64 %bbit, 0
  %meet = or i1 %asked, %final
  br i1 %meet, label %join, label %onward
join:
  br i1 %alone, label %look, label %all
look:
  %status = load atomic i64, ptr %table monotonic, align 8
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %end, label %onward
all:
  %verdict = call i64 @barrier(ptr %pool, ptr %table, i64 %w, i64 %n, i64 %epoch)
  %later = add i64 %epoch, 1
  %stop = icmp ne i64 %verdict, 0
  br i1 %stop, label %end, label %onward
onward:
  %epoch1 = phi i64 [%epoch, %did], [%epoch, %look], [%later, %all]
{note}
  br i1 %pause, label %paused, label %head
paused:
  br i1 %leader, label %note, label %end
note:
{field("%resume", "%table", RESUME)}
  store i64 %i1, ptr %resume
  br label %end
end:
  %r = phi i64 [%epoch, %head], [%epoch, %look], [%later, %all], [%epoch1, %paused],
    [%epoch1, %note]
  ret i64 %r
}}"""


SPREAD = """
define internal void @spread(ptr %pool, i64 %w, i64 %n, i64 %launch) {
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
}"""

# Adds the time since `last` to an entry's; returns what time it is.
TIMING = f"""
define internal i64 @note_time(ptr %times, i64 %i, i64 %last) {{
  %at = mul i64 %i, {TIME_WORDS * 8}
  %p = getelementptr i8, ptr %times, i64 %at
  %tp = getelementptr i8, ptr %p, i64 8
  %cp = getelementptr i8, ptr %p, i64 16
  %now = call i64 @now()
  %took = sub i64 %now, %last
  %total = load i64, ptr %tp
  %total1 = add i64 %total, %took
  store i64 %total1, ptr %tp
  %count = load i64, ptr %cp
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %cp
  %fresh = icmp eq i64 %count, 0
  %held = load i64, ptr %p
  %first = select i1 %fresh, i64 %last, i64 %held
  store i64 %first, ptr %p
  ret i64 %now
}}"""


def _run(timed: bool) -> str:
    """`run`, the one entry for programs. Whoever finds the workers taken runs on its own thread."""
    name, walk = ("run_timed", "walk_timed") if timed else ("run", "walk")
    return f"""
define i64 @{name}(ptr %pool, ptr %table, i64 %count, i64 %n, i64 %start) {{
entry:
  store atomic i64 0, ptr %table monotonic, align 8
{field("%resume", "%table", RESUME)}
  store i64 -1, ptr %resume
  %some = icmp sgt i64 %n, 1
  %any = icmp sgt i64 %count, 0
  %many = and i1 %some, %any
  br i1 %many, label %take, label %serial
take:
  %got = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %got, 1
  br i1 %mine, label %check, label %serial
check:
{field("%startedp", "%pool", STARTED)}
  %started = load i64, ptr %startedp
  %enough = add i64 %started, 1
  %ok = icmp sge i64 %enough, %n
  br i1 %ok, label %launch, label %need
need:
  store atomic i64 0, ptr %pool release, align 8
  ret i64 {NEED_WORKERS}
launch:
  call void @keep_off(ptr %pool, i64 %n)
{field("%tp", "%pool", TABLE)}
{field("%cp", "%pool", COUNT)}
{field("%wp", "%pool", WORKERS)}
{field("%ep", "%pool", EPOCH)}
{field("%lp", "%pool", LAUNCH)}
{field("%fp", "%pool", FLOATS)}
{field("%sl", "%pool", SPIN_LAUNCH)}
{field("%sb", "%pool", SPIN_BARRIER)}
{field("%pp", "%pool", PROCESSORS)}
{field("%sp", "%pool", START)}
  %processors = load i64, ptr %pp
  %crowded = icmp ugt i64 %n, %processors
  %further = sub i64 %n, 2
  %more_l = mul i64 %further, {FURTHER_LAUNCH_SPIN}
  %long_l = add i64 %more_l, {LAUNCH_SPIN}
  %more_b = mul i64 %further, {FURTHER_BARRIER_SPIN}
  %long_b = add i64 %more_b, {BARRIER_SPIN}
  %spin_l = select i1 %crowded, i64 0, i64 %long_l
  %spin_b = select i1 %crowded, i64 0, i64 %long_b
  store atomic i64 %spin_l, ptr %sl monotonic, align 8
  store i64 %spin_b, ptr %sb
  store ptr %table, ptr %tp
  store i64 %count, ptr %cp
  store i64 %start, ptr %sp
  store i64 %n, ptr %wp
  %floats = call i64 @get_floats()
  store i64 %floats, ptr %fp
  %epoch = load i64, ptr %ep
  %l = load i64, ptr %lp
  %l1 = add i64 %l, 1
  store i64 %l1, ptr %lp
  call void @spread(ptr %pool, i64 0, i64 %n, i64 %l1)
  %after = call i64 @{walk}(ptr %pool, ptr %table, i64 %count, i64 0, i64 %n, i64 %epoch,
    i64 %start)
  store i64 %after, ptr %ep
  store atomic i64 0, ptr %pool release, align 8
  br label %over
serial:
  %x = call i64 @{walk}(ptr %pool, ptr %table, i64 %count, i64 0, i64 1, i64 0, i64 %start)
  br label %over
over:
  %status = load atomic i64, ptr %table monotonic, align 8
  %at = load i64, ptr %resume
  %paused = icmp sge i64 %at, 0
  %result = select i1 %paused, i64 {PAUSED}, i64 %status
  ret i64 %result
}}"""


WORKER = f"""
define ptr @worker(ptr %block) {{
entry:
{field("%pp", "%block", POOL)}
{field("%ip", "%block", INDEX)}
  %pool = load ptr, ptr %pp
  %w = load i64, ptr %ip
{field("%tp", "%pool", TABLE)}
{field("%cp", "%pool", COUNT)}
{field("%wp", "%pool", WORKERS)}
{field("%ep", "%pool", EPOCH)}
{field("%sp", "%pool", STOP)}
{field("%fp", "%pool", FLOATS)}
{field("%spinp", "%pool", SPIN_LAUNCH)}
{field("%startp", "%pool", START)}
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
  %start = load i64, ptr %startp
  %epoch = load i64, ptr %ep
  %floats = load i64, ptr %fp
  %same = icmp eq i64 %floats, %had
  br i1 %same, label %set, label %change
change:
  call void @put_floats(i64 %floats)
  br label %set
set:
  %x = call i64 @walk(ptr %pool, ptr %table, i64 %count, i64 %w, i64 %n, i64 %epoch, i64 %start)
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
{field("%startedp", "%pool", STARTED)}
{field("%pp0", "%pool", PROCESSORS)}
{field("%ep", "%pool", EPOCH)}
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
{field("%pp", "%block", POOL)}
{field("%ip", "%block", INDEX)}
{field("%tp", "%block", THREAD)}
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
{field("%startedp", "%pool", STARTED)}
{field("%wp", "%pool", WORKERS)}
{field("%lp", "%pool", LAUNCH)}
{field("%sp", "%pool", STOP)}
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
{field("%tp", "%block", THREAD)}
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
