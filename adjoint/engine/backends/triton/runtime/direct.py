"""Launches on the current stream through the driver itself, for programs of eager mode.

CuPy's own launch converts each argument; here they are words in a buffer that the driver copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import replace
from functools import cache, reduce
from math import prod
from operator import or_
from threading import Lock
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.device_memory import POOLS
from adjoint.engine.backends.array.gpu.driver import NO_CONTEXT, launch_function
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.tables import tables
from adjoint.engine.backends.triton.runtime import cublaslt
from adjoint.engine.backends.triton.runtime.compile import (
    KernelError,
    compile_ahead,
    compile_together,
    compiled,
    expect_kernels,
    writer_key,
)
from adjoint.engine.backends.triton.runtime.cublaslt import BIAS_POINTER, WORKSPACE
from adjoint.engine.backends.triton.runtime.cuda import (
    MAX_SHARED,
    SHARED,
    UP,
    CudaMachine,
    machine,
)
from adjoint.engine.backends.triton.runtime.launching import (
    ALGORITHM,
    ATTRIBUTE,
    HANDLE,
    MOST,
    ROOM,
    ROOM_SIZE,
    SET,
    SPARE,
    WIDEST,
    NativeLaunches,
    Patches,
    PlainLaunch,
    Works,
    by_work,
    kernel_address,
    launch_all,
    recorded,
)
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.core.errors import AcceleratorError, OutOfMemoryError
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

Shape = tuple[int, ...]
Launcher = Callable[[int], None]  # on a stream
BUFFER, SIZE, END = 1, 2, 0  # how the driver is given arguments that lie in one piece
TABLES = 32  # copies of a table that may be under way
ALIGNED = 256  # bytes that cuBLASLt takes addresses for multiples of, unless it is told


@cache
def product_function() -> Any:
    """cuBLASLt's `cublasLtMatmul`, given numbers."""
    kinds = [c_void_p] * 14 + [c_size_t, c_void_p]
    return ctypes.CFUNCTYPE(c_int, *kinds)(("cublasLtMatmul", cublaslt.library()))


@cache
def product_addresses() -> tuple[int, int]:
    """Where cuBLASLt's function is, and the one that tells it a bias."""
    bias = cublaslt.library().cublasLtMatmulDescSetAttribute
    return kernel_address(product_function()), kernel_address(bias)


def loaded_name(name: str) -> str:
    """What a kernel of eager mode is called among a machine's."""
    return f"direct {name}"


class DirectGpu:
    """One GPU, as programs of eager mode see it."""

    def __init__(self, whole: CudaMachine) -> None:
        self.whole = whole
        self.index = whole.index
        self.cupy = whole.cupy
        self.array = whole.cupy.ndarray
        self.stream_of = whole.cupy.cuda.get_current_stream
        self.current = whole.cupy.cuda.runtime.getDevice
        self.use = whole.cupy.cuda.runtime.setDevice
        self.workspaces: dict[int, int] = {}  # by stream
        self.rooms: list[Any] = []
        self.choices: dict[Any, int] = {}  # which of several ways was the fastest, of those asked
        self.biases = Lock()
        self.faults = whole.faults
        expect_kernels()

    def enter(self) -> tuple[int, int | None]:
        """The current stream; and the current device, if it is another one."""
        before = self.current()
        if before == self.index:
            return self.stream_of().ptr, None
        self.use(self.index)
        return self.stream_of().ptr, before

    def leave(self, before: int) -> None:
        """Back to the device that was current."""
        self.use(before)

    def empty(self, shape: Any, dtype: Any) -> Any:
        """A new array, from the pool."""
        try:
            return self.array(shape, dtype)
        except OutOfMemoryError:  # which has tried all and says what is wrong
            raise
        except MemoryError:
            return self.whole.empty(shape, dtype)  # which tries again, and says what is wrong

    def strided(self, shape: Shape, dtype: Any, strides: Shape) -> Any:
        """The same, its dimensions in another order in memory."""
        size = prod(shape) * dtype.itemsize
        try:
            return self.array(shape, dtype, self.cupy.cuda.alloc(size), strides)
        except OutOfMemoryError:
            raise
        except MemoryError:
            return self.array(shape, dtype, self.whole.empty(size, np.uint8).data, strides)

    def maker(self, shape: Shape, dtype: Any, strides: Shape | None = None) -> Callable[[int], Any]:
        """What makes such an array on this GPU, given its current stream."""
        return POOLS[0].maker(self.index, shape, dtype, strides)

    @staticmethod
    def address(array: Any) -> int:
        """Where an array begins."""
        return int(array.data.ptr)

    def arguments(self, count: int) -> tuple[Any, int]:
        """Words that launches read when they are asked for, and where they are."""
        words = (ctypes.c_int64 * max(count, 1))()
        return words, ctypes.addressof(words)

    # -- launches -------------------------------------------------------------------------------

    def launcher(self, name: str, work: Any, at: int, count: int) -> Launcher:
        """What launches a kernel or a product with the words at an address of the host."""
        if isinstance(work, MatrixProduct):
            return self.product(work, at)
        if work.others:
            return self.choice(name, work, at, count)
        function, kernel = self.loaded(name, work)
        (across, down), threads, shared = work.grid, kernel.warps * 32, kernel.shared
        words = (ctypes.c_int64 * (count + 2)).from_address(at)
        scratch = kernel.scratch * across * down
        size = c_size_t(8 * (count + 2))
        extra = (c_void_p * 5)(BUFFER, at, SIZE, ctypes.addressof(size), END)
        run, handle, extras = launch_function(), function.ptr, ctypes.addressof(extra)

        def launch(stream: int, hold: Any = (function, size, extra)) -> None:
            if scratch:
                room = self.empty(scratch, np.uint8)
                words[count] = room.data.ptr
            code = run(handle, across, down, 1, threads, 1, 1, shared, stream, None, extras)
            if code:
                self.refused(
                    code,
                    work,
                    lambda: run(
                        handle, across, down, 1, threads, 1, 1, shared, stream, None, extras
                    ),
                )

        return launch

    def together(self, works: Works, words: Any, patches: Patches, room: int) -> Any:
        """What launches all of a program's kernels (Note [native launches]), or None.

        Products work in memory whose address has the number `room`.
        """
        into = by_work(works, patches)
        compile_together(self.new_kernels(works), self.whole.capability)
        found = []
        for (name, work, start, count), own in zip(works, into, strict=True):
            launch = self.plain(name, work, count, own)
            if launch is not None and not launch.is_product:
                told = [int(words[start + k]) for k in range(count + SPARE)]
                launch = replace(launch, words=told)
            found.append(launch)
        launches = [launch for launch in found if launch is not None]
        if not works or len(launches) < len(works) or room >= MOST:
            return None
        for launch, own in zip(launches, into, strict=True):
            if launch.is_product:
                own.append((ROOM, room, 0))
        record = recorded(launches, into)
        run = launch_all(kernel_address(launch_function()))

        def refused(code: int, again: Callable[[], int]) -> None:
            if code == NO_CONTEXT:  # of the first launch
                self.use(self.index)
                code = again()
            if code:
                _, work, _, _ = works[code >> 32]
                if isinstance(work, MatrixProduct):
                    cublaslt.check("product", code & 0xFFFFFFFF)
                self.refused(code & 0xFFFFFFFF, work, lambda: code)

        return NativeLaunches(run, record, refused)

    def ask(self, works: Works) -> None:
        """Have a program's kernels compiled, which are not waited for."""
        for work in self.new_kernels(works):
            compile_ahead(work, self.whole.capability)

    def new_kernels(self, works: Works) -> list[Written]:
        """Those of a program's kernels that are not loaded, and not one of several ways."""
        return [
            work
            for name, work, _, _ in works
            if isinstance(work, Written)
            and not work.others
            and loaded_name(name) not in self.whole.loaded
        ]

    def plain(self, name: str, work: Any, count: int, into: Sequence[Any]) -> PlainLaunch | None:
        """A launch that needs nothing but its words, without them; None where it needs more.

        A product's are there: its addresses begin at multiples of 64 bytes, views besides.
        """
        if isinstance(work, MatrixProduct):
            return self.plain_product(work, into)
        if count < 0:
            return None
        if work.others:
            best = self.known_choice(work)
            if best is None:
                return None
            name, work = f"{name}.{best}", [work.beside([]), *work.others][best]
        function, kernel = self.loaded(name, work)
        if kernel.scratch or count + SPARE > WIDEST:
            return None
        across, down = work.grid
        return PlainLaunch(function.ptr, across, down, kernel.warps * 32, kernel.shared, ())

    def plain_product(self, work: MatrixProduct, into: Sequence[Any]) -> PlainLaunch:
        """A product as a launch."""
        shifts = [64, *[plus for _, _, plus in into]]
        low = reduce(or_, shifts)
        plan, told = self.planned(work, low & -low, alone=work.biased)
        words = [0] * (ATTRIBUTE + 1)
        words[HANDLE : ALGORITHM + 1] = [value or 0 for value in told]
        words[ROOM_SIZE] = WORKSPACE
        function, add_bias = product_addresses()
        if work.biased:
            words[SET], words[ATTRIBUTE] = add_bias, BIAS_POINTER
        return PlainLaunch(function, 1, 1, 0, 0, words, plan)

    def known_choice(self, work: Written) -> int | None:
        """Which of several ways was the fastest, if that is known."""
        asked = (*work.codes(), prod(work.grid).bit_length())
        known = self.choices.get(asked)
        if known is None:
            stored = store.get(self.choice_key(work))
            if stored is not None:
                known = self.choices[asked] = int(stored)
        return known

    def choice_key(self, work: Written) -> str:
        """What a choice is kept by: the texts, and how many programs a launch has, about."""
        size = prod(work.grid).bit_length()
        codes = repr(work.codes())
        return key_of("choice", str(self.whole.capability), writer_key(), codes, str(size))

    def loaded(self, name: str, work: Written) -> tuple[Any, Any]:
        """A kernel's function on this GPU, and what its launch must be told."""
        functions = self.whole.loaded
        key = loaded_name(name)
        if key not in functions:
            kernel = compiled(work, self.whole.capability)
            with self.whole.active():
                module = self.cupy.cuda.function.Module()
                module.load(kernel.cubin)
                function = module.get_function(kernel.name)
                if kernel.shared > SHARED:
                    self.cupy.cuda.driver.funcSetAttribute(function.ptr, MAX_SHARED, kernel.shared)
            functions[key] = function, kernel
        return functions[key]

    def refused(self, code: int, work: Written, again: Callable[[], int]) -> None:
        """A launch that the driver refused: once more, where the thread was new to the device."""
        if code == NO_CONTEXT:
            self.use(self.index)
            code = again()
        if code:
            raise AcceleratorError(
                f"cuda: the kernel of {work.origin} could not be launched (error {code} of the "
                "driver). An earlier kernel may have failed: ADJOINT_LAUNCH_BLOCKING=1 says which."
            )

    def choice(self, name: str, work: Written, at: int, count: int) -> Launcher:
        """The fastest of several ways, found by launching each when it is first asked for."""
        ways = [work.beside([]), *work.others]
        key, best = self.choice_key(work), self.known_choice(work)
        if best is not None:
            return self.launcher(f"{name}.{best}", ways[best], at, count)
        compile_together([work], self.whole.capability)
        ready: list[tuple[int, Launcher]] = []
        refused: Exception | None = None
        for number, way in enumerate(ways):
            try:
                ready.append((number, self.launcher(f"{name}.{number}", way, at, count)))
            except (KernelError, self.cupy.cuda.driver.CUDADriverError) as error:
                refused = error
        if not ready:
            assert refused is not None
            raise refused
        fastest: list[Launcher] = []

        def launch(stream: int) -> None:
            if not fastest:
                times = [(self.whole.timed(run, stream), k, run) for k, run in ready]
                _, best, run = min(times, key=lambda timing: timing[:2])
                store.put(key, str(best).encode())
                fastest.append(run)
            fastest[0](stream)

        return launch

    # -- products -------------------------------------------------------------------------------

    def product(self, work: MatrixProduct, at: int) -> Launcher:
        """What asks cuBLASLt for a product."""
        single = work.dtype == "float32"  # which is computed in one way or another
        plans = {(cublaslt.uses_tf32(), ALIGNED): self.planned(work, ALIGNED)}
        known = next(iter(plans))
        words = (ctypes.c_int64 * 4).from_address(at)
        run, biased, workspaces = product_function(), work.biased, self.workspaces
        add_bias = cublaslt.library().cublasLtMatmulDescSetAttribute
        bias_at, length = c_void_p(at + 24), c_size_t(8)

        def launch(stream: int) -> None:
            a, b, c = words[0], words[1], words[2]
            key, low = known, (a | b | c | (words[3] if biased else 0)) & (ALIGNED - 1)
            if single or low:
                key = cublaslt.uses_tf32(), low & -low or ALIGNED
                if key not in plans:
                    plans[key] = self.planned(work, key[1])
            plan, (handle, description, one, left, right, zero, out, algorithm) = plans[key]
            room = workspaces.get(stream) or self.workspace_on(stream)
            if not biased:
                code = run(
                    handle, description, one, b, left, a, right, zero, c, out, c, out, algorithm,
                    room, WORKSPACE, stream,
                )  # fmt: skip
                cublaslt.check("product", code)
                return
            with self.biases:  # one description serves all products of a kind
                add_bias(plan.description, c_int(BIAS_POINTER), bias_at, length)
                code = run(
                    handle, description, one, b, left, a, right, zero, c, out, c, out, algorithm,
                    room, WORKSPACE, stream,
                )  # fmt: skip
            cublaslt.check("product", code)

        return launch

    def planned(
        self, work: MatrixProduct, aligned: int, *, alone: bool = False
    ) -> tuple[Any, tuple[int | None, ...]]:
        """A product's plan for addresses that are multiples of `aligned`, and what is handed over.

        Views begin anywhere, and most algorithms load 16 bytes at once. `alone`: nobody else has
        the plan.
        """
        products = self.whole.products
        aligned = min(aligned, work.aligned or ALIGNED)
        if aligned < ALIGNED:
            work = replace(work, aligned=aligned)
        if alone:
            plan = cublaslt.ChosenProduct(products.ready(), work, cublaslt.uses_tf32())
        else:
            plan = products.plan(work)
        left, right, out = (layout.value for layout in plan.layouts)
        return plan, (
            plan.handle.value, plan.description.value, ctypes.addressof(plan.one), left, right,
            ctypes.addressof(plan.zero), out, ctypes.addressof(plan.algorithm),
        )  # fmt: skip

    def workspace_on(self, stream: int) -> int:
        """Memory for products on a stream."""
        known = self.workspaces.get(stream)
        if known is not None:
            return known
        memory = self.cupy.cuda.alloc(WORKSPACE)
        self.workspaces[stream] = memory.ptr
        self.rooms.append(memory)
        return int(memory.ptr)

    # -- tables ---------------------------------------------------------------------------------

    def tables(self, symbols: list[tuple[int, str]]) -> list[tuple[int, Any]]:
        """Words that are addresses of tables, and the tables (Note [tables])."""
        with self.whole.active():
            return tables(self.whole, symbols)

    def table(self, words: Any, start: int, count: int) -> WordTable:
        """The words of many kernels, which are copied to the device."""
        return WordTable(self, words, start, count)


class WordTable:
    """Words that lie in the device's memory."""

    def __init__(self, gpu: DirectGpu, words: Any, start: int, count: int) -> None:
        self.gpu, self.start, self.count = gpu, start, count
        self.words = words
        self.staged = [gpu.whole.pinned(count) for _ in range(TABLES)]
        self.marks: list[Any] = [None] * TABLES
        self.captured: list[Any] = []  # by graphs of the program's own
        self.turn = 0

    def launcher(self, name: str, work: Written) -> Launcher:
        """What copies the words and launches the kernel of which they are."""
        gpu = self.gpu
        given, at = gpu.arguments(3)
        run = gpu.launcher(name, work, at, 1)
        copy = gpu.cupy.cuda.runtime.memcpyAsync
        source = np.frombuffer(self.words, np.int64)[self.start : self.start + self.count]

        def launch(stream: int, hold: Any = given) -> None:
            there = gpu.empty(self.count, np.int64)
            given[0] = there.data.ptr
            if STREAM_CAPTURE.graph is not None:  # each replay copies it again
                pinned = gpu.whole.pinned(self.count)
                self.captured.append((pinned, there))
                pinned[:] = source
                copy(there.data.ptr, pinned.ctypes.data, 8 * self.count, UP, stream)
            else:
                self.turn = turn = (self.turn + 1) % TABLES
                if self.marks[turn] is not None:
                    self.marks[turn].synchronize()
                self.staged[turn][:] = source
                copy(there.data.ptr, self.staged[turn].ctypes.data, 8 * self.count, UP, stream)
                self.marks[turn] = gpu.whole.mark(self.marks[turn])
            run(stream)

        return launch


@cache
def direct_gpu(index: int) -> DirectGpu:
    """A GPU by its number."""
    return DirectGpu(machine(index))
