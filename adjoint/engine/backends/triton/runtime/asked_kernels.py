"""Kernels that are compiled beside all else, before somebody waits for them.

Note [asked kernels]
    A backward knows ahead which kernels it needs (Note [rules ahead]). They are given to the
    workers by threads that nobody waits for: the program goes on, and may end. Whoever then needs a
    kernel takes it from the disk, waits for it where it is being compiled, and compiles it itself
    where its turn has not come. One that cannot be compiled is asked for again by whoever needs it,
    and the error is theirs.

    Some of the workers that stay are left to those who wait. Where there are no workers, or no
    folder to keep code in, nothing is done ahead. A child of a fork has no such threads, and
    forgets what was asked for.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future
from threading import Lock, Thread

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.triton.runtime.kernel_workers import WORKERS, Answer, Work

LEFT = 4  # of so many workers that stay, one is left to those who wait


class AskedKernels:
    """The kernels of this process that were asked for and are not on disk yet."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have none, as in a child after a fork."""
        self.owner = os.getpid()
        self.lock = Lock()
        self.futures: dict[str, Future[Answer | None]] = {}
        self.queue: deque[tuple[str, Work]] = deque()
        self.threads = 0

    @staticmethod
    def most() -> int:
        """How many are compiled at a time."""
        staying = WORKERS.staying()
        return max(staying - max(staying // LEFT, 1), 1)

    def ask(self, key: str, work: Work) -> None:
        """Have a kernel compiled and kept on disk under a key."""
        if self.owner != os.getpid():
            self.forget()
        if store.place() is None or not WORKERS.can_begin:
            return
        with self.lock:
            if key in self.futures:
                return
            self.futures[key] = Future()
            self.queue.append((key, work))
            if self.threads >= self.most():
                return
            self.threads += 1
        try:
            Thread(target=self.serve, daemon=True, name="kernels asked for").start()
        except RuntimeError:  # no threads any more: Python ends
            with self.lock:
                self.threads -= 1

    def serve(self) -> None:
        """Compile what was asked for, one after the other."""
        while True:
            with self.lock:
                if not self.queue:
                    self.threads -= 1
                    return
                key, work = self.queue.popleft()
                future = self.futures.get(key)
            if future is None or not future.set_running_or_notify_cancel():
                continue
            answer: Answer | None = None
            try:
                answer = WORKERS.compile(work)
                if answer is not None and answer[0] is not None:
                    store.put(key, answer[0])
                else:
                    answer = None
            except Exception:  # whoever needs the kernel meets it again
                answer = None
            with self.lock:
                if answer is None or not answer[1]:  # what is to be told stays until it is asked
                    self.futures.pop(key, None)
            future.set_result(answer)

    def answer(self, key: str) -> Answer | None:
        """The code of a kernel that is being compiled, once it is; None: it is on disk, or is not
        to be had here."""
        if self.owner != os.getpid():
            self.forget()
        future = self.futures.get(key)
        if future is None:
            return None
        if future.cancel():  # its turn had not come
            with self.lock:
                self.futures.pop(key, None)
            return None
        answer = future.result()
        with self.lock:
            self.futures.pop(key, None)
        return answer


ASKED = AskedKernels()
