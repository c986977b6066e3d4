"""How workers wait for each other, as IR: polling, sleeping, barriers.

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
ever calls `sched_yield` (milliseconds on a busy machine). A GPT's step of 149 launches, on two busy
processors: 36 ms of processor time with one worker, 40 with 2, 3 or 4, and 44 with 8.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.runtime.shared_words import (
    BLOCK,
    CONDITION,
    FIRST_BLOCK,
    FUTEX_CALLS,
    LINE,
    MUTEX,
    ROUND_LINES,
    SLEEPING,
    SPIN_BARRIER,
    Platform,
    field,
)

POLLS = 64  # between looks at the clock
# What a processor has for loops that wait: (declaration, call). `yield` is slower than `isb`.
PAUSES = {
    "x86_64": ("void @llvm.x86.sse2.pause()", "void @llvm.x86.sse2.pause()"),
    "aarch64": ("void @llvm.aarch64.isb(i32)", "void @llvm.aarch64.isb(i32 15)"),
}


def waiting_text(target: Platform) -> str:
    """`await`, `tell` and `barrier`, with what they need of the machine."""
    return "\n".join([_clock(target), _sleep(target), _waiting(target), BARRIERS])


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
    places = f"{field('%mutex', '%block', MUTEX)}\n{field('%cond', '%block', CONDITION)}"
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


def _waiting(target: Platform) -> str:
    declaration, call = PAUSES.get(target.machine, ("", ""))
    declared = f"declare {declaration}" if declaration else ""
    pause = f"  call {call}" if call else ""
    return f"""
{declared}
define internal ptr @block_of(ptr %pool, i64 %w) {{
  %o = mul i64 %w, {BLOCK}
  %o1 = add i64 %o, {FIRST_BLOCK}
  %p = getelementptr i8, ptr %pool, i64 %o1
  ret ptr %p
}}

define internal i64 @await(ptr %block, ptr %line, ptr %word, i64 %wanted, i64 %budget) {{
entry:
{field("%sleeping", "%line", SLEEPING)}
  br label %poll
poll:
  %i = phi i64 [0, %entry], [%i1, %again], [0, %look]
  %until = phi i64 [0, %entry], [%until, %again], [%end, %look]
  %v = load atomic i64, ptr %word acquire, align 8
  %here = icmp sge i64 %v, %wanted
  br i1 %here, label %done, label %again
again:
{pause}
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
{field("%sleeping", "%line", SLEEPING)}
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
{field("%spinp", "%pool", SPIN_BARRIER)}
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
