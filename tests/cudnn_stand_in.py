"""A stand-in for cuDNN's functions in C that recurrent networks are run by, and for CuPy's memory.

Addresses are of this process's own memory. Its networks keep their parameters in another order than
callers do, with a gap, and what it keeps for backward is spent once: a caller that hands over the
same bytes again is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_int, c_size_t, c_ubyte, c_void_p, cast, memmove, memset
from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.ops.nn.recurrent_networks import GATES, RECURRENT_NETWORK, RecurrentNetwork

DTYPES = {0: "float32", 1: "float64"}
KINDS = ("RNN_RELU", "RNN_TANH", "LSTM", "GRU")
FRESH, SPENT = 7, 8  # what the first byte kept for backward says
RESERVE, GAP = 32, 64  # bytes
WRONG = 1  # the algorithm that adds gradients by data to what lies there


class Address(int):
    """Where memory begins, with what keeps it alive."""

    owner: Any
    device_id = 0

    @property
    def ptr(self) -> int:
        return int(self)

    def __add__(self, offset: int) -> Address:
        moved = Address(int(self) + offset)
        moved.owner = self.owner
        return moved


class HostArray(np.ndarray[Any, Any]):
    """An array in the memory of this process, made as CuPy makes its own."""

    kept: Any

    def __new__(cls, shape: Any, dtype: Any = float, memory: Any = None) -> HostArray:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        size = prod(sizes) * np.dtype(dtype).itemsize
        if memory is None:
            room = np.full(size + 16, 255, np.uint8)
            memory = Address(room.ctypes.data + -room.ctypes.data % 16)
            memory.owner = room
        found = np.ndarray.__new__(cls, sizes, dtype, bytes_at(memory, size))
        found.kept = memory.owner
        return found

    @property
    def data(self) -> Any:
        address = Address(self.ctypes.data)
        address.owner = self
        return address

    def copy(self, order: Any = "C") -> Any:
        made = HostArray(self.shape, self.dtype)
        made[...] = self
        return made


def bytes_at(address: int, size: int) -> Any:
    return (c_ubyte * size).from_address(int(address)) if size else bytearray()


def read(address: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A copy of what lies at an address."""
    size = prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(bytes(bytes_at(address, size)), dtype).reshape(shape)


def write(address: Any, values: Any) -> None:
    dense = np.ascontiguousarray(values)
    memmove(int(address), dense.ctypes.data, dense.nbytes)


def host_cupy() -> Any:
    """What is used of CuPy."""

    class Device:
        def __init__(self, index: int) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    def zeros(shape: Any, dtype: Any) -> Any:
        made = HostArray(shape, dtype)
        made[...] = 0
        return made

    def copied(to: int, source: int, size: int, kind: int, stream: int) -> None:
        memmove(to, source, size)

    def asarray(values: Any) -> Any:
        made = HostArray(values.shape, values.dtype)
        made[...] = values
        return made

    def filled(to: int, byte: int, size: int, stream: int) -> None:
        memset(to, byte, size)

    runtime = SimpleNamespace(memcpyAsync=copied, memsetAsync=filled)
    cuda = SimpleNamespace(
        Device=Device, runtime=runtime, get_current_stream=lambda: SimpleNamespace(ptr=5)
    )
    return SimpleNamespace(
        ndarray=HostArray, empty=HostArray, zeros=zeros, cuda=cuda, asarray=asarray,
        asnumpy=np.asarray,
    )  # fmt: skip


class Function:
    """One of the functions: numbers of arguments are checked, as a compiler would."""

    def __init__(self, fn: Callable[..., int | None]) -> None:
        self.fn = fn
        self.argtypes: list[Any] = []
        self.restype: Any = None

    def __call__(self, *args: Any) -> int:
        assert len(args) == len(self.argtypes), self.fn.__name__
        for given, kind in zip(args, self.argtypes, strict=True):
            kind.from_param(given)
        return self.fn(*args) or 0


class FakeCudnn:
    """The library."""

    def __init__(self) -> None:
        self.about: dict[int, Any] = {}  # by descriptor
        self.gone: list[int] = []
        self.streams: list[Any] = []
        self.unsupported = False  # backward, which is then said when it is called

    def __getattr__(self, name: str) -> Function:
        for prefix, fn in (("cudnnCreate", self._create), ("cudnnDestroy", self._destroy)):
            if name.startswith(prefix):
                return Function(fn)
        return Function(object.__getattribute__(self, "_" + name))

    def _create(self, into: Any) -> None:
        made = 1000 + len(self.about)
        self.about[made] = None
        cast(into, POINTER(c_void_p))[0] = made

    def _destroy(self, descriptor: int) -> None:
        self.gone.append(descriptor)

    def _cudnnSetStream(self, handle: int, stream: int) -> None:
        self.streams.append(stream)

    def _cudnnSetDropoutDescriptor(self, *args: Any) -> None:
        assert args[2:] == (0.0, None, 0, 0)

    def _cudnnSetRNNDescriptor_v8(
        self, made: int, algorithm: int, cell: int, bias: int, way: int, inputs: int, kind: int,
        computed: int, math: int, width: int, hidden: int, projected: int, layers: int,
        dropout: int, flags: int,
    ) -> int | None:  # fmt: skip
        if kind not in DTYPES:
            return 3000  # refused
        assert (inputs, projected, flags, computed) == (0, hidden, 0, kind)
        assert bias == 2
        self.wrong = algorithm == WRONG
        self.about[made] = RecurrentNetwork(
            KINDS[cell], DTYPES[kind], 0, 0, width, hidden, layers, 1 + way, bias == 2, math == 0
        )
        return None

    def _cudnnSetRNNDataDescriptor(
        self, made: int, kind: int, layout: int, length: int, batch: int, width: int, lengths: Any,
        fill: Any,
    ) -> None:  # fmt: skip
        assert (max(lengths), len(lengths), layout) == (length, batch, 1)
        assert list(lengths) == sorted(lengths, reverse=True)
        self.about[made] = (list(lengths), width)

    def _cudnnSetTensorNdDescriptor(
        self, made: int, kind: int, rank: int, sizes: Any, steps: Any
    ) -> None:
        assert list(steps) == [sizes[1] * sizes[2], sizes[2], 1]
        self.about[made] = tuple(sizes)

    def _cudnnGetTensorNdDescriptor(
        self, made: int, asked: int, kind: Any, rank: Any, sizes: Any, steps: Any
    ) -> None:
        cast(rank, POINTER(c_int))[0] = 3
        for i, n in enumerate(self.about[made]):
            sizes[i] = n

    # -- parameters: the last first, each after a gap ---------------------------------------------

    @staticmethod
    def places(network: RecurrentNetwork) -> tuple[list[int], int]:
        at, places = 0, []
        for shape in reversed(network.weight_shapes()):
            places.append(at + GAP)
            at += GAP + prod(shape) * np.dtype(network.dtype).itemsize
        return places[::-1], at

    def _cudnnGetRNNWeightSpaceSize(self, handle: int, made: int, size: Any) -> None:
        cast(size, POINTER(c_size_t))[0] = self.places(self.about[made])[1]

    def _cudnnGetRNNWeightParams(
        self, handle: int, made: int, layer: int, size: int, space: int, gate: int, matrix: int,
        matrix_at: Any, bias: int, bias_at: Any,
    ) -> None:  # fmt: skip
        n: RecurrentNetwork = self.about[made]
        places, item = self.places(n)[0], np.dtype(n.dtype).itemsize
        gates, each = GATES[n.cell], 2 + 2 * n.biases
        which, row = divmod(gate, gates)
        for kind, (about, into) in enumerate(((matrix, matrix_at), (bias, bias_at))[: each // 2]):
            at = layer * each + 2 * kind + which
            shape = n.weight_shapes()[at]
            self.about[about] = (1, shape[0] // gates, prod(shape[1:]))
            into = cast(into, POINTER(c_void_p))
            into[0] = space + places[at] + row * prod(self.about[about]) * item

    def weights(self, network: RecurrentNetwork, space: int) -> list[Any]:
        return [
            read(space + place, shape, network.dtype)
            for place, shape in zip(self.places(network)[0], network.weight_shapes(), strict=True)
        ]

    # -- running ------------------------------------------------------------------------------------

    def _cudnnGetRNNTempSpaceSizes(
        self, handle: int, made: int, mode: int, x: int, work: Any, reserve: Any
    ) -> None:
        cast(work, POINTER(c_size_t))[0] = 16
        cast(reserve, POINTER(c_size_t))[0] = RESERVE * mode

    def operands(
        self, made: int, x_about: int, x: int, states: Any, hx: Any, cx: Any, space: int
    ) -> tuple[RecurrentNetwork, list[Any], int]:
        """The network, its operands and how many of them are states."""
        n: RecurrentNetwork = self.about[made]
        lengths, width = self.about[x_about]
        sizes = tuple(sum(length > t for length in lengths) for t in range(max(lengths)))
        even = len(set(sizes)) == 1
        rows = (max(lengths), len(lengths)) if even else (sum(lengths),)
        begins = [a for a in (hx, cx) if a is not None]
        found = [read(x, (*rows, width), n.dtype)]
        found += [read(a, states, n.dtype) for a in begins] + self.weights(n, space)
        sized = replace(
            n, length=max(lengths), batch=len(lengths), sizes=() if even else sizes, tf32=False
        )
        return sized, found, len(begins)

    def computed(
        self, network: RecurrentNetwork, arrays: list[Any], given: int
    ) -> tuple[Any, list[Any]]:
        leaves = [ad.tensor(a).requires_grad_() for a in arrays]
        with ad.enable_grad():  # callers are a backward pass
            out, _, *last = RECURRENT_NETWORK(*leaves, network=network, given=given, training=True)
        return leaves, [out, *last]

    def _cudnnRNNForward(
        self, handle: int, made: int, mode: int, lengths: Any, x_about: int, x: int, y_about: int,
        y: int, h_about: int, hx: Any, hy: int, c_about: int, cx: Any, cy: Any, size: int,
        space: int, work_size: int, work: int, reserve_size: int, reserve: int,
    ) -> None:  # fmt: skip
        states = self.about[h_about]
        network, arrays, given = self.operands(made, x_about, x, states, hx, cx, space)
        outs = self.computed(network, arrays, given)[1]
        for address, out in zip((y, hy, cy), outs, strict=False):
            write(address, out.detach().numpy())
        assert reserve_size == RESERVE * mode
        if mode:
            self.inputs = x, x_about
            write(reserve, np.full(RESERVE, FRESH, np.uint8))

    def _cudnnRNNBackwardData_v8(
        self, handle: int, made: int, lengths: Any, y_about: int, y: int, gy: int, x_about: int,
        gx: int, h_about: int, hx: Any, ghy: Any, ghx: int, c_about: int, cx: Any, gcy: Any,
        gcx: Any, size: int, space: int, work_size: int, work: int, reserve_size: int,
        reserve: int,
    ) -> int | None:  # fmt: skip
        if self.unsupported:
            return 3000
        if read(reserve, (1,), "uint8")[0] != FRESH:
            return 2000
        states = self.about[h_about]
        network, arrays, given = self.operands(made, x_about, self.inputs[0], states, hx, cx, space)
        if not given:  # their gradients are written all the same
            zeros = np.zeros(states, network.dtype)
            arrays, given = [arrays[0], *[zeros] * network.states, *arrays[1:]], network.states
        leaves, outs = self.computed(network, arrays, given)
        cotangents = [ad.tensor(read(gy, network.out_shape, network.dtype))]
        for address, out in zip((ghy, gcy), outs[1:], strict=False):
            zero = ad.zeros_like(out)
            got = zero if address is None else ad.tensor(read(address, states, network.dtype))
            cotangents.append(got)
        pulled = [g.numpy() for g in ad.autograd.grad(outs, leaves, cotangents)]
        for address, g in zip((gx, ghx, gcx)[: 1 + given], pulled, strict=False):
            write(address, g + read(address, g.shape, network.dtype) if self.wrong else g)
        self.pulled = pulled[1 + given :]
        write(reserve, np.full(RESERVE, SPENT, np.uint8))
        return None

    def _cudnnRNNBackwardWeights_v8(
        self, handle: int, made: int, mode: int, lengths: Any, x_about: int, x: int, h_about: int,
        hx: Any, y_about: int, y: int, size: int, into: int, work_size: int, work: int,
        reserve_size: int, reserve: int,
    ) -> None:  # fmt: skip
        assert read(reserve, (1,), "uint8")[0] == SPENT  # after the gradients of data
        assert mode == 0
        network: RecurrentNetwork = self.about[made]
        for place, g in zip(self.places(network)[0], self.pulled, strict=True):
            before = read(into + place, g.shape, network.dtype)
            write(into + place, before + g)
