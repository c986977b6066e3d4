"""Recurrent networks by cuDNN: all layers, directions and moments in one call.

cuDNN's graphs have no recurrence, so its older interface in C is called, of the library that the
frontend has loaded.

Note [reserve]
    What forward keeps for backward is a block of bytes whose order is cuDNN's alone: the reserve.
    Backward writes into it, so it is given a copy, since a tape may be walked twice.

Note [weight space]
    Parameters are read from one block of memory, in an order that cuDNN is asked for, once for a
    kind of network. They are copied there by each call forward. In training the block lies behind
    the reserve, so that backward finds it there: the tape sees to it that parameters are still the
    same.

Note [tried networks]
    What cuDNN does not run it says when it is called, and some of its algorithms were seen to give
    wrong gradients (9.19: by the input, of float16, of plain cells in both directions). So each
    kind of network is tried once on random numbers, forward and backward, over a few moments, in
    memory full of NaN, and taken if it leaves none there and gives what the standard algorithm
    gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from ctypes import CDLL, byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import replace
from functools import cache, lru_cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core.dtype import named
from adjoint.engine.ops.nn.recurrent_networks import GATES, RecurrentNetwork

Array = Any

LIBRARIES = ("libcudnn.so.9", "libcudnn.so.8")
CELLS = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}  # cudnnRNNMode_t
KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}  # cudnnDataType_t
STANDARD, PERSISTENT, PERSISTENT_SMALL = 0, 1, 3  # cudnnRNNAlgo_t
TWO_BIASES = 2
ANY_CORES, TENSOR_CORES, ALL_BITS = 0, 1, 3  # cudnnMathType_t
IN_TIME = 1  # layout: moment after moment, without gaps
INFERENCE, TRAINING = 0, 1
ON_DEVICE = 3  # cudaMemcpyKind
ADDED = 0  # gradients of weights are added to what is there
KINDS_KEPT = 256
PAGE = 256  # bytes that CUDA's memory begins at a multiple of


def math_of(network: RecurrentNetwork) -> int:
    """What products may go through."""
    if network.dtype == "float32":
        return ANY_CORES if network.tf32 else ALL_BITS
    return ANY_CORES if network.dtype == "float64" else TENSOR_CORES


# The functions that are called, and what they take: addresses, ints, sizes, a float, a seed.
TYPES = {"p": c_void_p, "i": c_int, "n": c_size_t, "u": c_uint, "f": c_float, "l": c_uint64}
TAKES = {
    "cudnnCreate": "p",
    "cudnnSetStream": "pp",
    "cudnnCreateDropoutDescriptor": "p",
    "cudnnSetDropoutDescriptor": "ppfpnl",
    "cudnnCreateRNNDescriptor": "p",
    "cudnnSetRNNDescriptor_v8": "p" + "i" * 12 + "pu",
    "cudnnDestroyRNNDescriptor": "p",
    "cudnnCreateRNNDataDescriptor": "p",
    "cudnnSetRNNDataDescriptor": "piiiiipp",
    "cudnnDestroyRNNDataDescriptor": "p",
    "cudnnCreateTensorDescriptor": "p",
    "cudnnSetTensorNdDescriptor": "piipp",
    "cudnnGetTensorNdDescriptor": "pipppp",
    "cudnnDestroyTensorDescriptor": "p",
    "cudnnGetRNNWeightSpaceSize": "ppp",
    "cudnnGetRNNWeightParams": "ppinpipppp",
    "cudnnGetRNNTempSpaceSizes": "ppippp",
    "cudnnRNNForward": "ppi" + "p" * 11 + "np" * 3,
    "cudnnRNNBackwardData_v8": "p" * 16 + "np" * 3,
    "cudnnRNNBackwardWeights_v8": "ppi" + "p" * 7 + "np" * 3,
}


class CudnnRefusal(RuntimeError):
    """A call that cuDNN did not take."""


class CudnnCalls:
    """The functions in C; each raises what its status says."""

    def __init__(self, library: CDLL) -> None:
        for name, takes in TAKES.items():
            fn = getattr(library, name)
            fn.argtypes = [TYPES[t] for t in takes]
            fn.restype = c_int
            setattr(self, name, self.checked(name, fn))

    @staticmethod
    def checked(name: str, fn: Callable[..., int]) -> Callable[..., None]:
        """A function that raises where its status is not success."""

        def call(*args: Any) -> None:
            status = fn(*args)
            if status:
                raise CudnnRefusal(f"cuda: cuDNN's {name} failed with status {status}")

        return call

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AttributeError(name)  # all are set above: for those who check types


@cache
def library() -> CudnnCalls | None:
    """cuDNN's functions; None where it is missing or has none of these."""
    for name in LIBRARIES:
        try:
            return CudnnCalls(CDLL(name))
        except (OSError, AttributeError):
            continue
    return None


class Recurrence:
    """cuDNN on one GPU: a handle in the order of CuPy's current stream, and no dropout."""

    def __init__(self, index: int, functions: CudnnCalls) -> None:
        self.index, self.functions = index, functions
        self.lock = Lock()  # a call sets the handle's stream first
        self.stream = -1
        with cupy().cuda.Device(index):
            self.handle = self.made("cudnnCreate")
            self.no_dropout = self.made("cudnnCreateDropoutDescriptor")
            functions.cudnnSetDropoutDescriptor(self.no_dropout, self.handle, 0.0, None, 0, 0)

    def made(self, name: str) -> int:
        """What a function that makes something writes."""
        made = c_void_p()
        getattr(self.functions, name)(byref(made))
        return int(made.value or 0)

    def follow(self) -> int:
        """Have calls join the current stream, which is returned; under the lock."""
        stream = int(cupy().cuda.get_current_stream().ptr)
        if stream != self.stream:
            self.functions.cudnnSetStream(self.handle, stream)
            self.stream = stream
        return stream


@cache
def recurrence_of(index: int) -> Recurrence | None:
    """cuDNN's recurrence on a GPU; None where there is none."""
    functions = library()
    return None if functions is None else Recurrence(index, functions)


class DescribedNetwork:
    """A kind of network as cuDNN was told of it: descriptors, and bytes of what it wants.

    All have biases, of zeros if need be: the faster algorithms know no others.
    """

    def __init__(self, owner: Recurrence, network: RecurrentNetwork) -> None:
        self.owner, self.network = owner, network
        self.x = self.described_rows(network.inputs)
        self.y = self.described_rows(network.directions * network.hidden)
        self.state = self.described_state()
        self.rnn = self.described_network()
        c = owner.functions
        size = c_size_t()
        c.cudnnGetRNNWeightSpaceSize(owner.handle, self.rnn, byref(size))
        self.weights = int(size.value)
        self.rooms = [self.room(mode) for mode in (INFERENCE, TRAINING)]

    def kept(self, made: str, destroyed: str) -> int:
        """A descriptor that goes when this does."""
        handle = self.owner.made(made)
        end = weakref.finalize(self, getattr(self.owner.functions, destroyed), handle)
        end.atexit = False
        return handle

    def described_rows(self, width: int) -> int:
        made = self.kept("cudnnCreateRNNDataDescriptor", "cudnnDestroyRNNDataDescriptor")
        n = self.network
        lengths = (c_int * n.batch)(*n.lengths)
        self.owner.functions.cudnnSetRNNDataDescriptor(
            made, KINDS[n.dtype], IN_TIME, n.length, n.batch, width, lengths, None
        )
        return made

    def described_state(self) -> int:
        made = self.kept("cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor")
        shape = self.network.state_shape
        self.owner.functions.cudnnSetTensorNdDescriptor(
            made, KINDS[self.network.dtype], 3, (c_int * 3)(*shape),
            (c_int * 3)(shape[1] * shape[2], shape[2], 1),
        )  # fmt: skip
        return made

    def described_network(self) -> int:
        made = self.kept("cudnnCreateRNNDescriptor", "cudnnDestroyRNNDescriptor")
        n = self.network
        kind = KINDS[n.dtype]
        computed = kind if n.dtype == "float64" else KINDS["float32"]
        self.owner.functions.cudnnSetRNNDescriptor_v8(
            made, n.algorithm, CELLS[n.cell], TWO_BIASES,
            n.directions - 1, 0, kind, computed, math_of(n), n.inputs, n.hidden, n.hidden, n.layers,
            self.owner.no_dropout, 0,
        )  # fmt: skip
        return made

    def room(self, mode: int) -> tuple[int, int]:
        """Bytes of the workspace and of the reserve."""
        work, reserve = c_size_t(), c_size_t()
        self.owner.functions.cudnnGetRNNTempSpaceSizes(
            self.owner.handle, self.rnn, mode, self.x, byref(work), byref(reserve)
        )
        return int(work.value), int(reserve.value)

    def offsets(self) -> list[int]:
        """Where each parameter begins in the weight space, in bytes.

        Gates of one parameter follow each other here as there: i, f, g, o and r, z, n.
        """
        n, item = replace(self.network, biases=True), named(self.network.dtype).itemsize
        gates = GATES[n.cell]
        offsets: list[int] = []
        base = cupy().empty(max(self.weights, 1), np.uint8)
        shapes = iter(n.weight_shapes())
        for layer in range(n.layers * n.directions):
            every = [self.placed(layer, gate, base, item) for gate in range(2 * gates)]
            halves = [[row[k] for row in every[at : at + gates]]
                      for k in (0, 1) for at in (0, gates)]  # fmt: skip
            for parts in halves:
                size = prod(next(shapes)) // gates * item
                first = parts[0][0]
                if parts != [(first + k * size, size) for k in range(gates)]:
                    raise CudnnRefusal("cuda: cuDNN keeps a network's weights in another order")
                offsets.append(first)
        each = 4 if self.network.biases else 2
        return [offset for i, offset in enumerate(offsets) if i % 4 < each]

    def placed(self, layer: int, gate: int, base: Array, item: int) -> list[tuple[int, int]]:
        """(offset, bytes) of a gate's matrix and of its bias."""
        c, owner = self.owner.functions, self.owner
        at = [c_void_p(), c_void_p()]
        about = [self.kept("cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor")
                 for _ in at]  # fmt: skip
        c.cudnnGetRNNWeightParams(
            owner.handle, self.rnn, layer, self.weights, int(base.data.ptr), gate,
            about[0], byref(at[0]), about[1], byref(at[1]),
        )  # fmt: skip
        found = []
        for address, described in zip(at, about, strict=True):
            if address.value is None:
                continue
            kind, rank, sizes, steps = c_int(), c_int(), (c_int * 3)(), (c_int * 3)()
            c.cudnnGetTensorNdDescriptor(described, 3, byref(kind), byref(rank), sizes, steps)
            found.append((address.value - int(base.data.ptr), prod(sizes[: rank.value]) * item))
        return found


class PreparedNetwork:
    """A kind of network that can run."""

    def __init__(self, owner: Recurrence, network: RecurrentNetwork) -> None:
        self.owner, self.network = owner, network
        self.about = DescribedNetwork(owner, network)
        self.shapes = network.weight_shapes()
        self.out_shape, self.state_shape = network.out_shape, network.state_shape
        self.state_size = prod(self.state_shape) * named(network.dtype).itemsize
        self.bytes = [prod(shape) * named(network.dtype).itemsize for shape in self.shapes]
        self.empty: Callable[..., Array] = cupy().ndarray
        self.nothing = cupy().ndarray(0, np.uint8)
        self.kept = paged(self.about.rooms[TRAINING][1]) + self.about.weights  # bytes
        self.offsets = weight_offsets(owner, replace(network, length=1, batch=1, sizes=()))

    def forward(
        self, x: Array, states: Sequence[Array], weights: Sequence[Array], training: bool
    ) -> tuple[Array, ...]:
        """The outputs, what is kept and the last states; `states` may be none, which is zeros.

        What is kept is the reserve and, behind it, the weight space; without training nothing.
        """
        about, empty, owner = self.about, self.empty, self.owner
        out = empty(self.out_shape, x.dtype)
        last = self.states(x.dtype)
        size, reserve = about.rooms[training]
        before = paged(reserve if training else size)
        block = empty(before + about.weights, np.uint8)  # the reserve or memory to work in, weights
        begin: int = block.data.ptr
        work = empty(size, np.uint8) if training else block
        hx, cx = addresses(states)
        hy, cy = addresses(last)
        with owner.lock:
            self.pack(weights, begin + before, owner.follow())
            owner.functions.cudnnRNNForward(
                owner.handle, about.rnn, int(training), None, about.x, x.data.ptr, about.y,
                out.data.ptr, about.state, hx, hy, about.state, cx, cy,
                about.weights, begin + before, size, work.data.ptr,
                reserve, begin if training else None,
            )  # fmt: skip
        return out, block if training else self.nothing, *last

    def backward(
        self,
        x: Array,
        states: Sequence[Array],
        outs: Sequence[Array],  # the outputs, and what is kept
        gs: Sequence[Array | None],  # of the outputs and of the last states
        of_weights: bool,
    ) -> tuple[Array, list[Array], list[Array]]:
        """The cotangents of the inputs, of the first states, and of parameters if asked for."""
        about, empty, owner = self.about, self.empty, self.owner
        out, kept = outs
        if kept.data.ptr % PAGE:  # in a program's memory
            kept = kept.copy()
        size, reserve = about.rooms[TRAINING]
        before = paged(reserve)
        room = empty(before + size, np.uint8)  # a copy of the reserve, and memory to work in
        begin: int = room.data.ptr
        g_out = empty(self.out_shape, x.dtype) if gs[0] is None else gs[0]
        dx = empty(x.shape, x.dtype)
        first = self.states(x.dtype)
        into = empty(about.weights, np.uint8) if of_weights else None
        hx, cx = addresses(states)
        ghy, gcy = addresses(gs[1:])
        ghx, gcx = addresses(first)
        rest = (size, begin + before, reserve, begin)
        runtime = cupy().cuda.runtime
        with owner.lock:
            stream = owner.follow()
            runtime.memcpyAsync(begin, kept.data.ptr, reserve, ON_DEVICE, stream)  # Note [reserve]
            if gs[0] is None:
                runtime.memsetAsync(g_out.data.ptr, 0, g_out.nbytes, stream)
            owner.functions.cudnnRNNBackwardData_v8(
                owner.handle, about.rnn, None, about.y, out.data.ptr, g_out.data.ptr, about.x,
                dx.data.ptr, about.state, hx, ghy, ghx, about.state, cx, gcy, gcx,
                about.weights, kept.data.ptr + before, *rest,
            )  # fmt: skip
            if into is not None:
                runtime.memsetAsync(into.data.ptr, 0, about.weights, stream)
                owner.functions.cudnnRNNBackwardWeights_v8(
                    owner.handle, about.rnn, ADDED, None, about.x, x.data.ptr, about.state, hx,
                    about.y, out.data.ptr, about.weights, into.data.ptr, *rest,
                )  # fmt: skip
        return dx, first, [] if into is None else self.unpacked(into, x.dtype)

    def states(self, dtype: Any) -> list[Array]:
        """New states, in memory that is asked for once."""
        if self.network.states == 1:
            return [self.empty(self.state_shape, dtype)]
        step, array = paged(self.state_size), cupy().ndarray
        begin = self.empty(2 * step, np.uint8).data
        return [array(self.state_shape, dtype, begin + at) for at in (0, step)]

    def pack(self, weights: Sequence[Array], begin: int, stream: int) -> None:
        """Fill a weight space (Note [weight space])."""
        runtime = cupy().cuda.runtime
        if not self.network.biases:
            runtime.memsetAsync(begin, 0, self.about.weights, stream)
        copy = runtime.memcpyAsync
        for weight, offset, size in zip(weights, self.offsets, self.bytes, strict=True):
            copy(begin + offset, weight.data.ptr, size, ON_DEVICE, stream)

    def unpacked(self, space: Array, dtype: Any) -> list[Array]:
        """The parts of a weight space, in place."""
        array, begin = cupy().ndarray, space.data
        return [
            array(shape, dtype, begin + offset)
            for shape, offset in zip(self.shapes, self.offsets, strict=True)
        ]


def paged(size: int) -> int:
    """So many bytes and as many more as the next block needs to begin where memory of its own does.

    >>> paged(0), paged(1), paged(512)
    (0, 256, 512)
    """
    return -(-size // PAGE) * PAGE


def addresses(arrays: Sequence[Array | None]) -> tuple[int | None, int | None]:
    """Those of up to two arrays; None for what is not there."""
    found = [None if a is None else a.data.ptr for a in arrays]
    found += [None, None]
    return found[0], found[1]


@lru_cache(maxsize=KINDS_KEPT)
def weight_offsets(owner: Recurrence, network: RecurrentNetwork) -> list[int]:
    """Those of a kind of network, which neither its length nor its batch decides."""
    with cupy().cuda.Device(owner.index):
        return DescribedNetwork(owner, network).offsets()


TRIED = 16  # moments
PATTERN = 4099  # numbers that are drawn: those of large networks repeat
CLOSE = {"float64": 1e-9, "float32": 1e-3, "float16": 3e-2, "bfloat16": 2e-1}  # of the largest


def full_of_nan(shape: Any, dtype: Any) -> Array:
    """New memory in which anything that is not written shows."""
    made = cupy().ndarray(shape, dtype)
    made.view(np.uint8).fill(255)
    return made


def results(owner: Recurrence, network: RecurrentNetwork) -> list[Any] | None:
    """What a network gives for random numbers, forward and backward; None where it does not run."""
    n = network
    pattern = np.random.default_rng(0).standard_normal(PATTERN) / n.hidden**0.5

    def random(shape: Sequence[int]) -> Array:
        return cupy().asarray(np.resize(pattern, shape).astype(NUMPY_OF[named(n.dtype)]))

    try:
        ready = PreparedNetwork(owner, n)
        ready.empty = full_of_nan
        x, weights = random((*n.out_shape[:-1], n.inputs)), list(map(random, n.weight_shapes()))
        states = [random(n.state_shape) for _ in range(n.states)]
        alone = ready.forward(x, states, weights, training=False)[0]
        out, kept, *last = ready.forward(x, states, weights, training=True)
        gs = [random(g.shape) for g in (out, *last)]
        dx, first, parts = ready.backward(x, states, (out, kept), gs, of_weights=True)
    except CudnnRefusal:
        return None
    found = (alone, out, *last, dx, *first, *parts)
    return [cupy().asnumpy(array).astype(np.float64) for array in found]


@lru_cache(maxsize=KINDS_KEPT)
def is_right(owner: Recurrence, network: RecurrentNetwork) -> bool:
    """Whether a kind of network gives what the standard algorithm gives (Note [tried networks])."""
    found = results(owner, network)
    if found is None or not all(np.isfinite(array).all() for array in found):
        return False
    if network.algorithm == STANDARD:
        return True
    wanted = results(owner, replace(network, algorithm=STANDARD))
    near = CLOSE["float16" if network.tf32 else network.dtype]
    return wanted is not None and all(
        bool((np.abs(a - b) <= near * np.abs(b).max()).all())
        for a, b in zip(found, wanted, strict=True)
    )


@lru_cache(maxsize=KINDS_KEPT)
def prepared(index: int, network: RecurrentNetwork) -> PreparedNetwork | None:
    """A network ready to run on a GPU; None where cuDNN does not do it."""
    owner = recurrence_of(index)
    if owner is None:
        return None
    length = min(network.length, TRIED)
    sizes = packed_sizes(length, network.batch) if network.sizes else ()
    with cupy().cuda.Device(index):
        if not is_right(owner, replace(network, length=length, sizes=sizes)):
            return None
        try:
            return PreparedNetwork(owner, network)
        except CudnnRefusal:
            return None


def packed_sizes(length: int, batch: int) -> tuple[int, ...]:
    """Those of sequences of different lengths.

    >>> packed_sizes(4, 3)
    (3, 2, 1, 1)
    """
    return tuple(max(batch - moment, 1) for moment in range(length))
