"""What a worker takes over from its caller, as IR: rounding, and a processor apart.

Note [stacking]: a worker that wakes is often put on the processor of the caller that woke it, and
the caller then polls in its way. When the caller is not on the processor of last time, the workers
are told to stay off the new one; the caller itself is free to move.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.runtime.shared_words import (
    ALLOWED,
    CPU_BYTES,
    CPUS,
    EXCEPT,
    LAST_CPU,
    MOVES,
    STARTED,
    THREAD,
    Platform,
    field,
)


def placing_text(target: Platform) -> str:
    """`get_floats`, `put_floats`, `learn_cpus` and `keep_off`."""
    return "\n".join([_floats(target), _cpus(target)])


def _floats(target: Platform) -> str:
    """The caller's rounding and flushing, which the workers take over to compute the same bits."""
    if target.machine == "aarch64":
        declared = """declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)"""
        get = "  %v = call i64 @llvm.aarch64.get.fpcr()\n  ret i64 %v"
        put = "  call void @llvm.aarch64.set.fpcr(i64 %v)\n  ret void"
    elif target.machine == "x86_64":
        declared = """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)"""
        # Bits 0 to 5 say what has happened, not what shall: left out.
        get = """  %m = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %m)
  %w = load i32, ptr %m
  %k = and i32 %w, -64
  %v = zext i32 %k to i64
  ret i64 %v"""
        put = """  %m = alloca i32
  %w = trunc i64 %v to i32
  store i32 %w, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  ret void"""
    else:
        declared, get, put = "", "  ret i64 0", "  ret void"
    return f"""
{declared}
define internal i64 @get_floats() {{
{get}
}}
define internal void @put_floats(i64 %v) {{
{put}
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
{field("%allowed", "%pool", ALLOWED)}
{field("%cpus", "%pool", CPUS)}
{field("%last", "%pool", LAST_CPU)}
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
{field("%lastp", "%pool", LAST_CPU)}
{field("%cpusp", "%pool", CPUS)}
{field("%movesp", "%pool", MOVES)}
{field("%allowed", "%pool", ALLOWED)}
{field("%mask", "%pool", EXCEPT)}
{field("%startedp", "%pool", STARTED)}
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
{field("%tp", "%block", THREAD)}
  %thread = load i64, ptr %tp
  call i32 @pthread_setaffinity_np(i64 %thread, i64 {CPU_BYTES}, ptr %mask)
  %w1 = add i64 %w, 1
  br label %each
end:
  ret void
}}"""
