"""Small kernels, written by hand, for the tests and timings of the native runtime."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.backends.llvm.runtime.pool import (
    DriverStep,
    DriverTable,
    WorkerThreads,
    the_pool,
)

TEXT = """
define void @nothing(ptr %args, i64 %w, i64 %n) {
  ret void
}

; seen[w] += 1
define void @count(ptr %args, i64 %w, i64 %n) {
  %seen = load ptr, ptr %args
  %p = getelementptr i64, ptr %seen, i64 %w
  %v = load i64, ptr %p
  %v1 = add i64 %v, 1
  store i64 %v1, ptr %p
  ret void
}

; seen[0] = w + 1, seen[1] = n
define void @who(ptr %args, i64 %w, i64 %n) {
  %seen = load ptr, ptr %args
  %q = getelementptr i64, ptr %seen, i64 1
  %w1 = add i64 %w, 1
  store i64 %w1, ptr %seen
  store i64 %n, ptr %q
  ret void
}

; args: source, target, size, turn; target[i] = 3 source[(i + turn) % size] + i for this worker's i
define void @turn(ptr %args, i64 %w, i64 %n) {
entry:
  %bp = getelementptr i64, ptr %args, i64 1
  %sp = getelementptr i64, ptr %args, i64 2
  %tp = getelementptr i64, ptr %args, i64 3
  %source = load ptr, ptr %args
  %target = load ptr, ptr %bp
  %size = load i64, ptr %sp
  %turn = load i64, ptr %tp
  %w1 = add i64 %w, 1
  %a = mul i64 %size, %w
  %b = mul i64 %size, %w1
  %first = udiv i64 %a, %n
  %beyond = udiv i64 %b, %n
  br label %head
head:
  %i = phi i64 [%first, %entry], [%i1, %body]
  %more = icmp ult i64 %i, %beyond
  br i1 %more, label %body, label %end
body:
  %j = add i64 %i, %turn
  %k = urem i64 %j, %size
  %p = getelementptr i64, ptr %source, i64 %k
  %v = load i64, ptr %p
  %v3 = mul i64 %v, 3
  %r = add i64 %v3, %i
  %q = getelementptr i64, ptr %target, i64 %i
  store i64 %r, ptr %q
  %i1 = add i64 %i, 1
  br label %head
end:
  ret void
}

; args: status, code, culprit: the culprit among the workers (the last, if there are fewer) fails
define void @fail(ptr %args, i64 %w, i64 %n) {
  %cp = getelementptr i64, ptr %args, i64 1
  %kp = getelementptr i64, ptr %args, i64 2
  %status = load ptr, ptr %args
  %code = load i64, ptr %cp
  %k = load i64, ptr %kp
  %last = sub i64 %n, 1
  %over = icmp ugt i64 %k, %last
  %who = select i1 %over, i64 %last, i64 %k
  %mine = icmp eq i64 %who, %w
  br i1 %mine, label %bad, label %end
bad:
  store atomic i64 %code, ptr %status monotonic, align 8
  br label %end
end:
  ret void
}

; args: status, seen: fails unless all workers' counts are the same
define void @agree(ptr %args, i64 %w, i64 %n) {
entry:
  %sp = getelementptr i64, ptr %args, i64 1
  %status = load ptr, ptr %args
  %seen = load ptr, ptr %sp
  %mine = load i64, ptr %seen
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %next]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %p = getelementptr i64, ptr %seen, i64 %i
  %v = load i64, ptr %p
  %same = icmp eq i64 %v, %mine
  br i1 %same, label %next, label %bad
next:
  %i1 = add i64 %i, 1
  br label %head
bad:
  store atomic i64 1, ptr %status monotonic, align 8
  br label %end
end:
  ret void
}

; args: counter, limit, byte: one more; whether that is below the limit
define void @below(ptr %args, i64 %w, i64 %n) {
  %lp = getelementptr i64, ptr %args, i64 1
  %bp = getelementptr i64, ptr %args, i64 2
  %counter = load ptr, ptr %args
  %limit = load i64, ptr %lp
  %byte = load ptr, ptr %bp
  %v = load i64, ptr %counter
  %v1 = add i64 %v, 1
  store i64 %v1, ptr %counter
  %is = icmp slt i64 %v1, %limit
  %flag = zext i1 %is to i8
  store i8 %flag, ptr %byte
  ret void
}

; args: rounds of work that cannot be optimised away
define void @work(ptr %args, i64 %w, i64 %n) {
entry:
  %rounds = load i64, ptr %args
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %head]
  call void asm sideeffect "", ""()
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %rounds
  br i1 %more, label %head, label %end
end:
  ret void
}
"""


_making = threading.Lock()  # else two threads may each make one, of which one goes while in use


def library() -> jit.LinkedCode:
    with _making:
        return _library()


@cache
def _library() -> jit.LinkedCode:
    return jit.link(jit.assemble(TEXT))


STATUS = object()  # among a call's arguments: the address of the program's status


class Call:
    """A step to be: a kernel's name and its arguments (arrays are passed by address)."""

    def __init__(
        self,
        name: str,
        *values: Any,
        parallel: bool = True,
        barrier: bool = True,
        skip: int = 0,
    ):
        self.name, self.values = name, values  # no name: a test of a byte
        self.parallel, self.barrier, self.skip = parallel, barrier, skip

    def step(self, words: Any) -> DriverStep:
        function = library().address(self.name) if self.name else 0
        return DriverStep(
            function, words.ctypes.data, self.parallel, self.barrier, self.skip, not self.name
        )


class Program:
    """A table with what it points to."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.words = [np.zeros(max(len(call.values), 1), np.int64) for call in calls]
        self.table = DriverTable([c.step(w) for c, w in zip(calls, self.words, strict=True)])
        for call, words in zip(calls, self.words, strict=True):
            words[: len(call.values)] = [self.word(value) for value in call.values]

    def word(self, value: Any) -> int:
        if value is STATUS:
            return self.table.status_address
        return int(value.ctypes.data) if isinstance(value, np.ndarray) else int(value)

    def run(self, workers: int, pool: WorkerThreads | None = None) -> int:
        return (pool or the_pool()).run(self.table.address, self.table.count, workers)
