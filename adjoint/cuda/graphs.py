"""Graphs of GPU work captured by hand: `CUDAGraph`, `graph`, `make_graphed_callables`.

`adjoint.compile` captures graphs by itself, of fused kernels, and lets shapes, addresses and
numbers change between calls; these are for programs that were written with PyTorch's.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from adjoint.cuda.memory import MemPool, empty_cache
from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.cuda import current_device, synchronize
from adjoint.engine.backends.array.gpu.streams import (
    Stream,
    StreamContext,
    current_stream,
    is_current_stream_capturing,
)
from adjoint.engine.backends.array.gpu.transfers import is_pinned, pin
from adjoint.engine.backends.triton.runtime.cublaslt import KINDS
from adjoint.engine.backends.triton.runtime.cuda import machine
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.api import compile as compile_function
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.late_faults import BOARDS, Board, settle
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.core.tree import flatten
from adjoint.optim.stepping.hooks import BEFORE_EVERY_STEP

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

MODES = ("global", "thread_local", "relaxed")
_pools: dict[Any, MemPool] = {}  # memory that graphs share, by handle


def graph_pool_handle() -> tuple[int, int]:
    """A handle of memory that several graphs share: the `pool` of `graph` and `capture_begin`."""
    pool = MemPool()
    _pools[pool.id] = pool
    return pool.id


class CUDAGraph:
    """Work of a GPU, captured once and done again by `replay()`, on the same memory.

    Args:
        keep_graph: kept as PyTorch has it; the graph is ready to run either way.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        cupy()
        self._graph: Any = None
        self._memory: MemPool | None = None
        self._allocator: Any = None
        self._stream: Any = None
        self._host_memory: list[Any] = []  # host memory that captured copies read
        self._order: Any = None  # among all that calls cuBLASLt, where this does
        self._calls: dict[int, int] = {}  # that can fail, by device, before it was captured
        self._reporting: list[Board] = []  # where its kernels report what they find

    # -- capturing ------------------------------------------------------------------------------

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Have the current stream's work go into this graph, until `capture_end`."""
        if capture_error_mode not in MODES:
            raise ValueError(
                f"CUDAGraph.capture_begin: capture_error_mode must be one of {', '.join(MODES)}, "
                f"received {capture_error_mode!r}"
            )
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. Call reset()."
            )
        if STREAM_CAPTURE.graph is not None:
            raise RuntimeError("CUDAGraph.capture_begin: another graph is being captured")
        stream = current_stream()
        if stream.cuda_stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, "
                "it's ok to replay them on the default stream.)"
            )
        machine(current_device()).ready()  # what capturing may not make
        settle()  # nor may it wait for what was launched before
        self._memory = _memory_of(pool)
        self._allocator = device_memory.using(self._memory._pool)
        self._stream = stream.wrapped
        # Memory may be taken from the driver while work is captured.
        self._stream.begin_capture()
        self._allocator.__enter__()
        self._calls = {index: board.calls for index, board in BOARDS.items()}
        STREAM_CAPTURE.graph = self
        BEFORE_EVERY_STEP[id(self)] = _refuse_counting

    def capture_end(self) -> None:
        """End the capture."""
        if STREAM_CAPTURE.graph is not self:
            raise RuntimeError("CUDAGraph.capture_end: this graph is not being captured")
        STREAM_CAPTURE.graph = None
        del BEFORE_EVERY_STEP[id(self)]
        self._allocator.__exit__(None, None, None)
        boards = BOARDS.items()
        self._reporting = [b for index, b in boards if b.calls != self._calls.get(index, 0)]
        self._graph = self._stream.end_capture()
        self._stream = self._allocator = None

    def replay(self) -> None:
        """Do the captured work again, in the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        for board in self._reporting:
            board.replay()
        if self._order is not None:
            self._order.follow()
        self._graph.launch(cupy().cuda.get_current_stream())

    def reset(self) -> None:
        """Let go of the graph and its memory."""
        self._graph = self._memory = None
        self._host_memory = []

    def pool(self) -> Any:
        """The handle of the graph's memory, which another graph may share."""
        if self._memory is None:
            raise RuntimeError("CUDAGraph.pool: nothing was captured yet")
        _pools[self._memory.id] = self._memory
        return self._memory.id

    def enable_debug_mode(self) -> None:
        """Keep what `debug_dump` writes, which is kept anyway."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph as text for Graphviz."""
        if self._graph is None:
            raise RuntimeError("CUDAGraph.debug_dump: nothing was captured yet")
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(self._graph.debug_dot_str())

    def instantiate(self) -> None:
        """Make the graph ready to run, which it is."""

    # -- what operations ask while work is captured ---------------------------------------------

    def copied(self, array: Any, to_host: bool) -> Any:
        """An array on the other side: from pinned memory, which replays read again."""
        if to_host:
            STREAM_CAPTURE.refuse(
                "elements of a tensor on the GPU are asked for",
                "The host cannot wait for a graph: read results after replay().",
            )
        if not is_pinned(array):
            if array.ndim:
                STREAM_CAPTURE.refuse(
                    f"a tensor of shape {list(array.shape)} in pageable memory is copied",
                    "Pin it, x.pin_memory(), or copy it to a tensor on the GPU before replay().",
                )
            array = pin(array)  # a number, as it is now
        array = np.ascontiguousarray(array)
        self._host_memory.append(array)
        out = cupy().empty(array.shape, array.dtype)
        out.data.copy_from_host_async(array.ctypes.data, array.nbytes)
        return out

    def product(self, x: Any, y: Any) -> Any:
        """A matrix product by cuBLASLt: CuPy's cannot be captured."""
        xp = cupy()
        name = x.dtype.name
        if name not in KINDS or y.dtype != x.dtype:
            STREAM_CAPTURE.refuse(
                f"a product of {name} and {y.dtype.name}", "Products of floats can be captured."
            )
        left, right = x.reshape(1, -1) if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        (m, k), n = left.shape[-2:], right.shape[-1]
        out = xp.zeros((*batch, m, n), x.dtype) if 0 in (m, n, k, *batch) else None
        if out is None:
            out = xp.empty((*batch, m, n), x.dtype)
            turned = right.ndim == 2 and not batch and right.T.flags.c_contiguous
            left = xp.ascontiguousarray(xp.broadcast_to(left, (*batch, m, k)))
            right = right if turned else xp.broadcast_to(right, (*batch, k, n))
            right = right if turned else xp.ascontiguousarray(right)
            product = MatrixProduct(
                name, name, m, n, k, (False, turned), (k, k if turned else n, n), prod(batch),
                (m * k, k * n, m * n),
            )  # fmt: skip
            words = np.array([left.data.ptr, right.data.ptr, out.data.ptr], np.int64)
            gpu = machine(current_device())
            self._order = self._order or gpu.order(by_library=True)
            gpu.products.prepare(product)(words.ctypes.data)
        out = out[..., 0] if y.ndim == 1 else out
        return out[..., 0, :] if x.ndim == 1 and y.ndim > 1 else out[..., 0] if x.ndim == 1 else out


def _refuse_counting(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Refuse the step of an optimizer that counts its steps: the host does, a replay would not."""
    if any("capturable" in group for group in optimizer.param_groups):
        STREAM_CAPTURE.refuse(
            f"{type(optimizer).__name__}.step() is called, which counts its steps",
            "Compile the step instead, adjoint.compile, or use SGD.",
        )


def _memory_of(pool: Any) -> MemPool:
    if pool is None:
        return MemPool()
    if isinstance(pool, MemPool):
        return pool
    if pool not in _pools:
        raise ValueError(
            "CUDAGraph: pool must be what graph_pool_handle() or another graph's pool() gave, "
            f"received {pool!r}"
        )
    return _pools[pool]


class graph:
    """A `with` block whose work on the GPU is captured into a graph, not done.

    Args:
        cuda_graph: the `CUDAGraph`.
        pool: memory to share, what `graph_pool_handle()` or another graph's `pool()` gave.
        stream: where work is captured; one of its own unless given.
        capture_error_mode: kept as PyTorch has it.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.cuda_graph, self.pool = cuda_graph, pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode
        self._context = StreamContext(stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        empty_cache()
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except Exception:
            if error is None:
                raise
            # The capture was broken by the error that is on its way.
        finally:
            self._context.__exit__(kind, error, trace)
        if error is not None:
            self.cuda_graph.reset()


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules whose forward and backward run as graphs of kernels.

    They are compiled (`adjoint.compile`) and run with the samples; later calls must have arguments
    of the samples' shapes, dtypes and need for gradients, as PyTorch has it.

    Args:
        callables: a module or function, or a tuple of them.
        sample_args: a tuple of tensors for it, or a tuple of such tuples.
        num_warmup_iters: how often each runs with its samples now.
        allow_unused_input: kept as PyTorch has it; inputs that are not used get no gradient.
        pool: kept as PyTorch has it; compiled programs have their own memory.
    """
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    if len(functions) != len(samples):
        raise ValueError(
            f"make_graphed_callables: {len(functions)} callables and {len(samples)} tuples of "
            "samples"
        )
    graphed = [
        _graphed(fn, tuple(args), num_warmup_iters)
        for fn, args in zip(functions, samples, strict=True)
    ]
    return tuple(graphed) if several else graphed[0]


def _graphed(fn: Any, sample: tuple[Any, ...], count: int) -> Any:
    if not all(is_tensor(x) for x in flatten(sample)[0]):
        raise TypeError("make_graphed_callables: samples must be tensors")
    module = fn if hasattr(fn, "forward") and hasattr(fn, "parameters") else None
    run = compile_function(fn.forward if module is not None else fn)
    wanted = _kinds(sample)

    def graphed(*args: Any) -> Any:
        if _kinds(args) != wanted:
            raise ValueError(
                "make_graphed_callables: arguments must be as the samples were (shape, dtype, "
                f"device, requires_grad): {_in_words(wanted)}; received {_in_words(_kinds(args))}"
            )
        return run(*args)

    for _ in range(max(count, 1)):
        _warm(graphed, sample)
    if module is None:
        return graphed
    training, eager = module.training, module.forward

    def forward(*args: Any) -> Any:
        return graphed(*args) if module.training == training else eager(*args)

    module.forward = forward
    return module


def _kinds(args: Sequence[Any]) -> list[Any]:
    return [
        (tuple(x.shape), x.dtype.name, str(x.device), bool(x.requires_grad)) if is_tensor(x) else x
        for x in flatten(tuple(args))[0]
    ]


def _in_words(kinds: list[Any]) -> str:
    return ", ".join(
        f"{k[1]}{list(k[0])} on {k[2]}" if isinstance(k, tuple) else repr(k) for k in kinds
    )


def _warm(run: Callable[..., Any], sample: tuple[Any, ...]) -> None:
    """Forward and backward with the samples; gradients are left as they were."""
    outs = [x for x in flatten(run(*sample))[0] if is_tensor(x) and x.requires_grad]
    inputs = [x for x in flatten(sample)[0] if x.requires_grad]
    if outs and inputs:
        grad([x.sum() for x in outs], inputs, allow_unused=True)
