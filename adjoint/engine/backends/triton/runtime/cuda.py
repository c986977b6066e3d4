"""The GPU through CuPy: memory, launches of cubins, graphs of launches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import pairwise
from threading import RLock, get_ident
from types import MappingProxyType
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.dtypes import FLOAT8
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.gpu.device_memory import PER_THREAD, POOLS
from adjoint.engine.backends.array.libraries.attention import CudnnAttention
from adjoint.engine.backends.array.libraries.convolutions import Convolution
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.faults import FaultBoard, board_of
from adjoint.engine.backends.triton.runtime.compile import (
    CompiledKernel,
    KernelError,
    compile_together,
    compiled,
    writer_key,
)
from adjoint.engine.backends.triton.runtime.cublaslt import CublasProducts
from adjoint.engine.backends.triton.runtime.cudnn import CudnnConvolver
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

SHARED = 48 << 10  # bytes that need not be asked for
MAX_SHARED = 8  # the attribute of a function that asks for more
EXTERNAL = 1  # of a mark: to be looked at from outside of the graph it is in
TRIALS = 5  # launches that a way is timed by
UP, DOWN, ALONG = 1, 2, 3  # the direction of a copy: to the device, from it, between places there

Launcher = Callable[[int], None]
NO_STREAMS: Mapping[int, Any] = MappingProxyType({})
HERE = nullcontext()
HOLD = """
extern "C" __global__ void hold(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
}
"""


class StreamOrder:
    """The order of a program's calls, whichever streams they are made on."""

    lock: Any = HERE  # for a call: nobody else has what is kept in order

    def __init__(self, cuda: Any) -> None:
        self.cuda, self.current = cuda, cuda.get_current_stream
        self.stream = self.current()
        self.number, self.thread = self.stream.ptr, get_ident()

    def follow(self) -> bool:
        """Have the current stream wait for what the one before was asked for so far, if it is
        another one; whether it is."""
        stream = self.current()
        if stream.ptr == self.number != PER_THREAD:
            return False
        return self.come_to(stream)

    def come_to(self, stream: Any) -> bool:
        """`follow` to a stream that may be another one."""
        number, thread = stream.ptr, get_ident()
        if number == self.number and thread == self.thread:
            return False
        if self.number == PER_THREAD:  # another thread cannot name it
            self.cuda.runtime.deviceSynchronize()
        else:
            event = self.cuda.Event(disable_timing=True)
            event.record(self.stream)
            stream.wait_event(event)
        self.stream, self.number, self.thread = stream, number, thread
        return True


class LibraryOrder:
    """The same of a program that calls cuBLASLt, whose workspace all such programs of a GPU share.

    Captured calls know its address, so there is one for all streams: what such programs were asked
    for is done in order, and another thread's program waits until all of one call is asked for.
    """

    def __init__(self, own: StreamOrder, shared: StreamOrder, lock: Any) -> None:
        self.own, self.shared, self.lock = own, shared, lock

    def follow(self) -> bool:
        """Come after the program's own call before, and all others' calls; whether its own one was
        on another stream."""
        moved = self.own.follow()
        self.shared.follow()
        return moved


class CudaMachine:
    """One GPU."""

    def __init__(self, index: int) -> None:
        self.cupy = cupy()
        self.index, self.name = index, f"cuda:{index}"
        major, minor = divmod(int(self.cupy.cuda.Device(index).compute_capability), 10)
        self.capability = major * 10 + minor
        self.loaded: dict[str, tuple[Any, CompiledKernel]] = {}
        self.products = CublasProducts(index)
        self.holding: Any = None
        self.shared: StreamOrder | None = None  # of what calls cuBLASLt
        self.lock = RLock()

    @property
    def faults(self) -> FaultBoard:
        """Where kernels on this GPU report to."""
        return board_of(self)

    def ready(self) -> None:
        """Make what may not be made while work is captured."""
        self.products.ready()
        board_of(self)

    def active(self) -> Any:
        """A context in which memory and launches are this GPU's."""
        if self.cupy.cuda.runtime.getDevice() == self.index:
            return HERE
        return self.cupy.cuda.Device(self.index)

    # -- memory ---------------------------------------------------------------------------------

    def empty(self, shape: Any, dtype: Any) -> Any:
        """A new array; `OutOfMemoryError` where the GPU has no room for it."""
        return self.cupy.empty(shape, FLOAT8.get(dtype, dtype))

    def address(self, array: Any) -> int:
        """Where an array begins."""
        return int(array.data.ptr)

    def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        """An array on memory of somebody else's."""
        module = self.cupy.cuda
        size = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True))
        memory = module.UnownedMemory(address, size + dtype.itemsize, owner, self.index)
        pointer = module.MemoryPointer(memory, 0)
        return self.cupy.ndarray(shape, FLOAT8.get(dtype, dtype), pointer, strides)

    def pinned(self, count: int) -> Any:
        """Words on the host that the GPU copies by itself."""
        memory = self.cupy.cuda.alloc_pinned_memory(max(count, 1) * 8)
        return np.frombuffer(memory, np.int64, count)

    def uploader(self, target: Any, source: Any) -> Callable[[], None]:
        """What copies pinned words to the device, in the order of the stream."""
        copy, stream = self.cupy.cuda.runtime.memcpyAsync, self.cupy.cuda.get_current_stream
        to, here, size = target.data.ptr, source.ctypes.data, source.nbytes

        def upload() -> None:
            copy(to, here, size, UP, stream().ptr)

        return upload

    def downloader(self, target: Any, source: Any) -> Callable[[], None]:
        """What copies words of the device to pinned ones, in the order of the stream."""
        copy, stream = self.cupy.cuda.runtime.memcpyAsync, self.cupy.cuda.get_current_stream
        to, there, size = target.ctypes.data, source.data.ptr, target.nbytes

        def download() -> None:
            copy(to, there, size, DOWN, stream().ptr)

        return download

    def copier(self, target: Any, source: Any) -> Callable[[], None]:
        """What copies words of the device to others, in the order of the stream."""
        copy, stream = self.cupy.cuda.runtime.memcpyAsync, self.cupy.cuda.get_current_stream
        to, there, size = target.data.ptr, source.data.ptr, target.nbytes

        def copied() -> None:
            copy(to, there, size, ALONG, stream().ptr)

        return copied

    def join(self, other: Any) -> None:
        """Have the current stream come after what another one was asked for so far."""
        with self.active():
            if other.ptr == PER_THREAD:  # perhaps another thread's, which cannot be named
                faults.guarded(self.cupy.cuda.runtime.deviceSynchronize)
            else:
                event = self.cupy.cuda.Event(disable_timing=True)
                event.record(other)
                self.stream().wait_event(event)

    def download(self, target: Any, source: Any) -> None:
        """Copy words of the device to pinned ones, and wait for them."""
        self.downloader(target, source)()
        faults.guarded(self.cupy.cuda.get_current_stream().synchronize)

    def on_host(self, array: Any) -> Any:
        """The same elements on the CPU."""
        return faults.guarded(array.get)

    def begin(self) -> Any:
        """What a program's call begins with: it is remembered for messages of faults. Gives where
        it was called, if that is known."""
        STREAM_CAPTURE.refuse(  # a replay would copy what is in the program's words then
            "a compiled function is called", "It is a graph already: call it by itself."
        )
        _, code, instruction = faults.note("a compiled program")
        return None if code is None else (code, instruction)

    def mark(self, again: Any = None) -> Any:
        """A mark after what was asked for so far, to be waited for; one that was may be reused."""
        event = self.cupy.cuda.Event(disable_timing=True) if again is None else again
        event.record()
        return event

    def stream(self) -> Any:
        """The current stream of this GPU."""
        return self.cupy.cuda.get_current_stream(self.index)

    def read(self, word: Any, streams: Mapping[Any, Any] = NO_STREAMS) -> int:
        """One word of the device's, after all that the current stream was asked for, and others.

        What is captured meanwhile is not done, so nothing is there to be waited for.
        """
        with self.active():
            for stream in streams.values():
                if stream.ptr == PER_THREAD:  # perhaps another thread's, which cannot be named
                    faults.guarded(self.cupy.cuda.runtime.deviceSynchronize)
                elif stream.ptr != self.stream().ptr and not stream.is_capturing:
                    faults.guarded(stream.synchronize)
            return int(faults.guarded(word.get)[0])

    def clear(self, word: Any) -> None:
        """Make a word of the device's zero, for all streams: that is waited for."""
        with self.active():
            word.fill(0)
            faults.guarded(self.stream().synchronize)

    def order(self, by_library: bool = False) -> StreamOrder | LibraryOrder:
        """What keeps a program's calls in order, from now on; one that calls cuBLASLt, or not."""
        own = StreamOrder(self.cupy.cuda)
        if not by_library:
            return own
        if self.shared is None:
            self.shared = StreamOrder(self.cupy.cuda)
        return LibraryOrder(own, self.shared, self.lock)

    def share(self, arrays: list[Any]) -> None:
        """The current stream uses arrays that were made on others (Note [other streams])."""
        stream = self.cupy.cuda.get_current_stream()
        for array in arrays:
            POOLS[0].used_by(array, stream, self.index)

    def reuse(self, arrays: list[Any]) -> None:
        """Arrays are about to be written, which other streams may yet read."""
        POOLS[0].written_by(arrays, self.index)

    # -- launches -------------------------------------------------------------------------------

    def expect(self, works: list[Written]) -> None:
        """Compile kernels that are about to be prepared, several at a time."""
        compile_together(works, self.capability)

    def prepare(
        self, name: str, work: Written | MatrixProduct | Convolution | CudnnAttention
    ) -> Launcher:
        """What launches a kernel, given the address of its words on the device (or, for a call of a
        library, on the host)."""
        if isinstance(work, MatrixProduct):
            return self.watched(self.products.prepare(work), "a matrix product")
        if isinstance(work, Convolution | CudnnAttention):
            what = "a convolution" if isinstance(work, Convolution) else "attention"
            return self.watched(CudnnConvolver(self.index).prepare(work), what)
        if work.others:
            return self.choice(name, work)
        if name not in self.loaded:
            kernel = compiled(work, self.capability)
            self.loaded[name] = self.load(kernel, work.origin), kernel
        function, kernel = self.loaded[name]
        grid, block = (*work.grid, 1), (kernel.warps * 32, 1, 1)
        scratch = (
            self.empty(kernel.scratch * grid[0] * grid[1], np.uint8) if kernel.scratch else None
        )
        room = np.uint64(0 if scratch is None else scratch.data.ptr)

        def launch(words: int, hold: Any = scratch) -> None:
            arguments = (np.int64(words), room, np.uint64(0))
            function(grid, block, arguments, shared_mem=kernel.shared)

        return self.watched(launch, f"the kernel of {work.origin}")

    def load(self, kernel: CompiledKernel, origin: str) -> Any:
        """The function of a kernel's code on this GPU."""
        with self.active():
            try:
                module = self.cupy.cuda.function.Module()
                module.load(kernel.cubin)
                function = module.get_function(kernel.name)
                if kernel.shared > SHARED:
                    self.cupy.cuda.driver.funcSetAttribute(function.ptr, MAX_SHARED, kernel.shared)
            except self.cupy.cuda.driver.CUDADriverError as error:
                raise KernelError(
                    f"compile: the GPU does not take the kernel of {origin} ({error})"
                ) from error
        return function

    def watched(self, run: Launcher, what: str) -> Launcher:
        """A launch that is waited for and named if it fails, where that is asked for."""
        if not faults.BLOCKING:
            return run

        def launch(words: int) -> None:
            run(words)
            faults.note(what)
            wait = self.cupy.cuda.runtime.deviceSynchronize
            faults.guarded(wait, waited_for=True)

        return launch

    def choice(self, name: str, work: Written) -> Launcher:
        """The fastest of several ways, found by launching each when it is first asked for.

        What was found is kept on disk. A way that this GPU has no room for is none.
        """
        ways = [replace(work, others=()), *work.others]
        key = key_of("choice", str(self.capability), writer_key(), repr(work))
        stored = store.get(key)
        if stored is not None:
            at = int(stored)
            return self.prepare(f"{name}.{at}", ways[at])
        ready: list[tuple[int, Launcher]] = []
        refused: Exception | None = None
        for at, way in enumerate(ways):
            try:
                ready.append((at, self.prepare(f"{name}.{at}", way)))
            except KernelError as error:
                refused = error
        if not ready:
            assert refused is not None
            raise refused
        fastest: list[Launcher] = []

        def launch(words: int) -> None:
            if not fastest:
                times = [(self.timed(run, words), at, run) for at, run in ready]
                _, at, best = min(times, key=lambda timing: timing[:2])
                store.put(key, str(at).encode())
                fastest.append(best)
            fastest[0](words)

        return launch

    def timer(self) -> Any:
        """A mark that tells the time it is reached at."""
        event = self.cupy.cuda.Event()
        event.record()
        return event

    def spans(self, marks: list[Any]) -> list[float]:
        """Milliseconds between each such mark and the next, waited for."""
        faults.guarded(marks[-1].synchronize)
        elapsed, events = self.cupy.cuda.runtime.eventElapsedTime, [mark.ptr for mark in marks]
        return [elapsed(first, last) for first, last in pairwise(events)]

    def hold(self, microseconds: int) -> None:
        """Have the GPU do nothing for a while."""
        if self.holding is None:
            self.holding = self.cupy.RawKernel(HOLD, "hold")
        self.holding((1,), (1,), (np.int64(microseconds * 1000),))

    def timed(self, run: Launcher, words: int) -> float:
        """Milliseconds that a launch takes; it is launched several times."""
        run(words)
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record()
        for _ in range(TRIALS):
            run(words)
        end.record()
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(begin, end))

    def graph(self, run: Callable[[], None]) -> Callable[[], None]:
        """What replays the launches that `run` makes."""
        if faults.BLOCKING:
            return run
        stream = self.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                run()
            finally:
                graph = stream.end_capture()

        launch, current = graph.launch, self.cupy.cuda.get_current_stream

        def replay() -> None:
            launch(current())

        return replay

    def marked_graph(
        self, launches: list[tuple[Launcher, int]]
    ) -> tuple[Callable[[], None], list[Any]] | None:
        """What replays launches with a mark before, between and after them; None: there is none.

        Marks that are nodes of a graph are recorded anew by each replay (cudaEventRecordExternal).
        """
        record = external_record()
        if faults.BLOCKING or record is None:
            return None
        marks = [self.cupy.cuda.Event() for _ in range(len(launches) + 1)]

        def mark(event: Any) -> None:
            record(event.ptr, self.cupy.cuda.get_current_stream().ptr, EXTERNAL)

        def run() -> None:
            mark(marks[0])
            for (launch, words), event in zip(launches, marks[1:], strict=True):
                launch(words)
                mark(event)

        try:
            return self.graph(run), marks
        except RuntimeError:  # a driver that cannot
            return None


@cache
def external_record() -> Any:
    """The function of CUDA's that makes a mark a node of a graph; None where there is none."""
    try:
        record_event = importlib.import_module("cuda.bindings.runtime").cudaEventRecordWithFlags
    except (ImportError, AttributeError):
        return None

    def record(event: int, stream: int, flags: int) -> None:
        (status,) = record_event(event, stream, flags)
        if int(status):
            raise RuntimeError(f"cudaEventRecordWithFlags: {status}")

    return record


@cache
def machine(index: int) -> CudaMachine:
    """A GPU by its number."""
    return CudaMachine(index)
