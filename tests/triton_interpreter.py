"""Programs of the GPU's target, run on the CPU by Triton's interpreter.

Triton reads TRITON_INTERPRET when functions are decorated, so this module is loaded in a process
of its own (`tests/test_triton_interpreted.py`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.special

assert os.environ.get("TRITON_INTERPRET") == "1"

import adjoint  # noqa: E402, F401
from adjoint.engine.backends.array.kernels.image import convolution as eager  # noqa: E402
from adjoint.engine.backends.array.libraries.attention import (  # noqa: E402
    FORWARD as ATTENTION_FORWARD,
)
from adjoint.engine.backends.array.libraries.attention import TENSORS, CudnnAttention  # noqa: E402
from adjoint.engine.backends.array.libraries.convolutions import (  # noqa: E402
    Convolution,
    dense_strides,
)
from adjoint.engine.backends.triton.program.faults import FaultBoard  # noqa: E402
from adjoint.engine.backends.triton.program.mirror import small_program  # noqa: E402
from adjoint.engine.backends.triton.program.program import GpuProgram  # noqa: E402
from adjoint.engine.backends.triton.runtime.compile import function_of, scope  # noqa: E402
from adjoint.engine.backends.triton.target import TritonTarget  # noqa: E402
from adjoint.engine.backends.triton.templates.product import MatrixProduct  # noqa: E402
from adjoint.engine.compiler.executors import register_backend  # noqa: E402
from adjoint.engine.compiler.options import chosen  # noqa: E402
from adjoint.engine.core.device import CPU  # noqa: E402
from tests.quick_interpreter import hurry  # noqa: E402

ML_DTYPES = importlib.import_module("ml_dtypes")
BFLOAT16 = ML_DTYPES.bfloat16
# By Triton's names.
NARROW = {"bf16": BFLOAT16, "fp8e4nv": ML_DTYPES.float8_e4m3fn, "fp8e5": ML_DTYPES.float8_e5m2}
DTYPES = {
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "bfloat16": BFLOAT16,
    "int8": np.int8, "int32": np.int32,
}  # fmt: skip
ELSEWHERE = {
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "erfcx": scipy.special.erfcx,
    "erfinv": scipy.special.erfinv, "lgamma": scipy.special.gammaln, "pow": np.power,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sqrt_rn": np.sqrt,
    "cyl_bessel_i0": scipy.special.i0, "cyl_bessel_i1": scipy.special.i1,
    "j0": scipy.special.j0, "j1": scipy.special.j1, "y0": scipy.special.y0,
    "y1": scipy.special.y1, "normcdf": scipy.special.ndtr, "normcdfinv": scipy.special.ndtri, "fast_dividef": np.divide,
}  # fmt: skip


COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def mend_interpreter() -> None:
    """Have the interpreter round to bfloat16 as GPUs do (it cuts), multiply it, compare numbers."""
    handles = importlib.import_module("triton.runtime.interpreter")
    language = importlib.import_module("triton.language")
    cast = handles.InterpreterBuilder.cast_impl

    def rounded(self: Any, source: Any, kind: Any) -> Any:
        if source.dtype.scalar == language.float32 and kind.scalar == language.bfloat16:
            bits = source.data.astype(np.float32).astype(BFLOAT16).view(np.uint16)
            return handles.TensorHandle(bits, kind.scalar)
        return cast(self, source, kind)

    builder: Any = handles.InterpreterBuilder
    plain = builder.binary_op

    def compared(self: Any, a: Any, b: Any, op: Any) -> Any:
        if op in COMPARISONS:  # of two numbers it would give a number
            return handles.TensorHandle(np.asarray(op(a.data, b.data)), language.int1)
        return plain(self, a, b, op)

    multiply_matrices = builder.create_dot

    def widened(x: Any) -> Any:
        kind = NARROW.get(x.dtype.scalar.name)  # of float8, the interpreter loses the smallest
        if kind is None:
            return x
        return handles.TensorHandle(x.data.view(kind).astype(np.float32), language.float32)

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return multiply_matrices(self, widened(a), widened(b), *rest)

    builder.create_dot = dot
    builder.binary_op = compared
    for name in ("cast_impl", "create_fp_trunc"):
        setattr(builder, name, rounded)


mend_interpreter()


def reduce_pairs(self: Any, operands: Any) -> list[Any]:
    """A reduction by a step that is not the interpreter's own, neighbours together as on a GPU.

    The interpreter takes one element after another: minutes for long rows.
    """
    operands, axis = self.unravel(operands, self.axis)
    kinds = [x.dtype for x in operands]
    parts = [x.handle.data for x in operands]
    rank = parts[0].ndim
    while (size := parts[0].shape[axis]) > 1:
        first, second = (
            [self.to_tensor(np.take(x, range(start, size - size % 2, 2), axis), kind)
             for x, kind in zip(parts, kinds, strict=True)]
            for start in (0, 1)
        )  # fmt: skip
        both = self.combine_fn.fn(*first, *second)
        joined = [x.handle.data for x in (both if isinstance(both, tuple) else (both,))]
        if size % 2:
            rest = [np.take(x, [size - 1], axis) for x in parts]
            joined = [np.concatenate(x, axis) for x in zip(joined, rest, strict=True)]
        parts = joined
    if self.axis is None:
        parts = [x.reshape((1,) * rank) if self.keep_dims else x.item() for x in parts]
    elif not self.keep_dims:
        parts = [np.squeeze(x, axis) for x in parts]
    return [self.to_tensor(x, kind) for x, kind in zip(parts, kinds, strict=True)]


interpreter: Any = importlib.import_module("triton.runtime.interpreter")
interpreter.ReduceOps.generic_reduce = reduce_pairs


class Library:
    """NVIDIA's functions by NumPy's and SciPy's."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Any = ELSEWHERE.get(name) or getattr(np, name)
        language = importlib.import_module("triton.language")
        handles = importlib.import_module("triton.runtime.interpreter")

        def run(*xs: Any) -> Any:
            with np.errstate(all="ignore"):
                data = function(*[x.handle.data for x in xs])
            wide = max(xs, key=lambda x: x.handle.data.size)
            data = np.asarray(data, wide.handle.data.dtype).reshape(np.shape(data) or (1,))
            return language.tensor(handles.TensorHandle(data, wide.handle.dtype), wide.type)

        return run


importlib.import_module("adjoint.engine.backends.triton.prelude").libdevice = Library()


def mend_numbers() -> None:
    """Have numbers of one element be Python's: before 3.9, Triton asks NumPy, which refuses."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


mend_numbers()
hurry()


def word(value: int) -> Any:
    """An argument of 64 bits, as kernels are compiled for.

    A number of Python's that fits 32 bits would be one of 32, as addresses are in some processes.
    """
    language = importlib.import_module("triton.language")
    handle = importlib.import_module("triton.runtime.interpreter").TensorHandle
    return language.tensor(handle(np.array([value], np.int64), language.int64), language.int64)


class OneStream:
    """The order of calls, all of which are on one stream."""

    lock = contextlib.nullcontext()

    def follow(self) -> bool:
        return False


class Interpreter:
    """The machine that a program runs on."""

    name = "interpreter"
    index = 0
    ptr = 0  # of its only stream

    def __init__(self) -> None:
        self.captured: list[Callable[[], Any]] | None = None  # by the graph that is being made

    @property
    def faults(self) -> Any:
        """One board for all of them, as a device has one."""
        return board()

    def stream(self) -> Any:
        return self

    def join(self, other: Any) -> None: ...

    def clear(self, word: Any) -> None:
        word[:] = 0

    def copier(self, target: Any, source: Any) -> Callable[[], None]:
        return lambda: self.asked(lambda: np.copyto(target, source))

    def asked(self, run: Callable[[], Any]) -> None:
        """What a launch does: at once, or at each replay of a graph."""
        if self.captured is None:
            run()
        else:
            self.captured.append(run)

    def timer(self) -> float:
        return time.perf_counter()

    def spans(self, marks: list[float]) -> list[float]:
        return [1000 * (last - first) for first, last in pairwise(marks)]

    def hold(self, microseconds: int) -> None:
        """Launches are done when they are asked for."""

    def active(self) -> Any:
        return contextlib.nullcontext()

    def empty(self, shape: Any, dtype: Any) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = np.empty(size + 64, np.uint8)
        start = -room.ctypes.data % 64
        return np.ndarray(shape, dtype, room.data, start)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        import ctypes

        size = dtype.itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = (ctypes.c_uint8 * size).from_address(address)
        memory.owner = owner  # type: ignore[attr-defined]
        return np.ndarray(shape, dtype, memory, 0, strides)

    def pinned(self, count: int) -> Any:
        return np.zeros(count, np.int64)

    def uploader(self, target: Any, source: Any) -> Callable[[], None]:
        return lambda: self.asked(lambda: np.copyto(target, source))

    def downloader(self, target: Any, source: Any) -> Callable[[], None]:
        return lambda: self.asked(lambda: np.copyto(target, source))

    def download(self, target: Any, source: Any) -> None:
        target[:] = source

    def on_host(self, array: Any) -> Any:
        return array

    def begin(self) -> None:
        """Nothing is remembered."""

    def order(self, by_library: bool) -> Any:
        return OneStream()

    def share(self, arrays: Any) -> None: ...
    def reuse(self, arrays: Any) -> None: ...

    def mark(self, again: Any) -> Any:
        return None

    def read(self, word: Any, streams: Any = ()) -> int:
        return int(word[0])

    def expect(self, works: list[Any]) -> None:
        pass

    def prepare(self, name: str, work: Any) -> Callable[[int], None]:
        if isinstance(work, MatrixProduct):
            return partial(self.call, partial(multiply, self, work), 3 + work.biased)
        if isinstance(work, Convolution):
            return partial(self.call, partial(convolve, self, work), 4)
        if isinstance(work, CudnnAttention):
            return partial(self.call, partial(attend, self, work), len(TENSORS[work.kind]) + 1)
        function = function_of(work.source, name, {**scope(), "libdevice": Library()})

        def run(words: int) -> None:
            with np.errstate(all="ignore"):
                function[work.grid](word(words))

        return lambda words: self.asked(partial(run, words))

    def call(self, run: Callable[[int], None], count: int, words: int) -> None:
        """A call of a library, which is told its addresses when it is captured."""
        if self.captured is None:
            run(words)
            return
        told = self.window(words, None, (count,), (8,), np.dtype(np.int64)).copy()
        self.captured.append(lambda: run(self.address(told)))

    def graph(self, run: Callable[[], None]) -> Callable[[], None]:
        captured: list[Callable[[], Any]] = []
        self.captured = captured
        try:
            run()
        finally:
            self.captured = None

        def replay() -> None:
            for again in captured:
                self.asked(again)

        return replay

    def marked_graph(self, launches: Any) -> Any:
        marks: list[float] = [0.0] * (len(launches) + 1)
        replays = [self.graph(partial(launch, words)) for launch, words in launches]

        def replay() -> None:
            marks[0] = self.timer()
            for k, again in enumerate(replays):
                again()
                marks[k + 1] = self.timer()

        return replay, marks


@cache
def board() -> FaultBoard:
    """Where kernels of all programs report to, as on one device."""
    return FaultBoard(Interpreter())


def multiply(machine: Interpreter, p: MatrixProduct, words: int) -> None:
    """A matrix product as cuBLASLt does it."""
    a, b, c, *bias = machine.window(words, None, (3 + p.biased,), (8,), np.dtype(np.int64))
    dtype, result = np.dtype(DTYPES[p.dtype]), np.dtype(DTYPES[p.out])

    def matrix(
        address: int, rows: int, columns: int, lead: int, step: int, turned: bool, dtype: Any
    ) -> Any:
        strides = (step, 1, lead) if turned else (step, lead, 1)
        return machine.window(
            int(address), None, (p.count, rows, columns),
            tuple(s * dtype.itemsize for s in strides), dtype,
        )  # fmt: skip

    left = matrix(a, p.m, p.k, p.lead[0], p.steps[0], p.transposed[0], dtype)
    right = matrix(b, p.k, p.n, p.lead[1], p.steps[1], p.transposed[1], dtype)
    out = matrix(c, p.m, p.n, p.lead[2], p.steps[2], False, result)
    wide = {"float64": np.float64, "int8": np.int32}.get(p.dtype, np.float32)
    found = left.astype(wide) @ right.astype(wide)
    for address in bias:
        found += machine.window(int(address), None, (p.n,), (result.itemsize,), result)
    out[...] = found.astype(result)


def convolve(machine: Interpreter, call: Convolution, words: int) -> None:
    """A convolution as cuDNN does it: the eager table's, between tensors that lie as it is told."""
    addresses = machine.window(words, None, (4,), (8,), np.dtype(np.int64))
    dtype = np.dtype(DTYPES[call.dtype])
    first, second, out = (
        machine.window(
            int(at), None, shape,
            tuple(s * dtype.itemsize for s in dense_strides(shape, call.channels_last)), dtype,
        )
        for at, shape in zip(addresses, call.shapes, strict=False)
    )  # fmt: skip
    groups = call.image[1] // call.weights[1]
    # Padding that was made even takes in what no window reaches: it is made exact again.
    sizes = zip(call.image[2:], call.maps[2:], call.weights[2:], call.stride, strict=True)
    padding = tuple(
        (low, (o - 1) * s + d * (k - 1) + 1 - n - low)
        for (n, o, k, s), low, d in zip(sizes, call.padding, call.dilation, strict=True)
    )
    run = getattr(eager, call.kind)
    out[...] = run(np, first, second, call.stride, padding, call.dilation, groups)
    machine.window(int(addresses[3]), None, (8,), (1,), np.dtype(np.uint8))[:] = 255


def attend(machine: Interpreter, call: CudnnAttention, words: int) -> None:
    """Attention as cuDNN does it, between tensors that lie as it is told."""
    names = TENSORS[call.kind]
    addresses = machine.window(words, None, (len(names) + 1,), (8,), np.dtype(np.int64))
    x: dict[str, Any] = {}
    for name, at, strides in zip(names, addresses, call.strides, strict=False):
        dtype = np.dtype(np.float32 if name == "lse" else DTYPES[call.dtype])
        steps = tuple(s * dtype.itemsize for s in strides)
        x[name] = machine.window(int(at), None, call.shape(name), steps, dtype)
    query, key, value = (x[name].astype(np.float64) for name in ("query", "key", "value"))
    groups = call.batch[1] // call.batch[2]  # of queries' heads, that share those of keys
    key, value = (y.repeat(groups, 1) for y in (key, value))
    scores = query @ key.swapaxes(-1, -2) * call.scale
    if call.causal:
        scores = np.where(np.tri(call.queries, call.keys, dtype=bool), scores, -np.inf)
    if call.kind == ATTENTION_FORWARD:
        top = scores.max(-1, keepdims=True)
        x["lse"][...] = top + np.log(np.exp(scores - top).sum(-1, keepdims=True))
        x["out"][...] = np.exp(scores - x["lse"]) @ value
    else:
        weights, grad = np.exp(scores - x["lse"]), x["grad"].astype(np.float64)
        shift = (grad * x["out"].astype(np.float64)).sum(-1, keepdims=True)
        inner = weights * (grad @ value.swapaxes(-1, -2) - shift) * call.scale
        x["query_grad"][...] = inner @ key
        for name, wide in (
            ("key_grad", inner.swapaxes(-1, -2) @ query),
            ("value_grad", weights.swapaxes(-1, -2) @ grad),
        ):
            each = (call.batch[0], call.batch[2], groups, *wide.shape[2:])
            x[name][...] = wide.reshape(each).sum(2)
    machine.window(int(addresses[-1]), None, (8,), (1,), np.dtype(np.uint8))[:] = 255


class Library8:
    """Somebody who runs every convolution and attention, in a workspace of 8 bytes."""

    def room(self, call: Convolution) -> int:
        return 8

    def attention_room(self, call: CudnnAttention) -> int:
        return 8


class CpuTriton(TritonTarget):
    """The GPU's target for memory of the CPU's."""

    name = "triton on the cpu"
    device = "cpu"

    def __init__(
        self,
        unaligned: frozenset[int] = frozenset(),
        rows: int = 0,
        convolver: Any = None,
        attender: Any = None,
    ) -> None:
        super().__init__(unaligned, rows, convolver or Library8(), attender or Library8())


def maker(mode: str, options: dict[str, Any]) -> Any:
    return lambda task: GpuProgram(task, chosen(mode, options), Interpreter(), CpuTriton)


register_backend("interpreted-triton", maker)


def mirror_maker(mode: str, options: dict[str, Any]) -> Any:
    """Programs all of whose values are on the CPU and mirrored on a GPU that is the interpreter."""

    def executable(task: Any) -> Any:
        made = small_program(task, chosen(mode, options), Interpreter(), CPU, CpuTriton)
        assert not isinstance(made, str), made
        return made

    return executable


register_backend("mirrored-triton", mirror_maker)
