"""Matrix products by cuBLASLt, through ctypes: it can be captured into a graph, as CuPy's cannot.

cuBLASLt is column-major, so it is asked for the transposed product, C' = B' A'.

Note [algorithms]
    The library proposes algorithms, best first by its own rules, which are up to a sixth slower
    than the best of them. So those of a large product are timed when it first runs, on the operands
    it then has, and which was the fastest is kept on disk. While a stream is captured nothing can
    be timed; and where the same bits are wanted every time, the first is taken.
    Weight gradients are a tenth faster by algorithms that it proposes only where it may not split
    the sum, or that go through the result in another order: those are timed as well.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.core.state.precision import get_float32_matmul_precision

# dtype -> (its number, how it is computed, the dtype of factors, in float32 by tensor cores)
KINDS = {
    "float32": (0, 68, 0),
    "float64": (1, 70, 1),
    "float16": (2, 68, 0),
    "bfloat16": (14, 68, 0),
    "int8": (3, 72, 10),  # summed in int32, as are its factors
    "int32": (10, 72, 10),
}
FACTORS: dict[int, Any] = {0: c_float, 1: c_double, 10: c_int32}  # by the number of their dtype
TF32 = 77  # float32 computed by tensor cores, in 10 bits
TRANSPOSE_A, TRANSPOSE_B = 3, 4  # attributes of a product
EPILOGUE, BIAS_POINTER, BIAS_DTYPE = 7, 8, 26
ADDS_BIAS = 4  # an epilogue
COUNT, STEP = 5, 6  # attributes of a matrix
ROOM = 1  # attribute of a preference: bytes of workspace
ALIGNMENTS = (5, 6, 7, 8)  # the same: what addresses of A, B, C and D are multiples of
WORKSPACE = 64 << 20
CANDIDATES = 8
# Of a candidate: the algorithm (64 bytes), the workspace, the status, ...
RESULT_BYTES, ALGORITHM_BYTES, STATUS = 96, 64, 72
# Attributes of an algorithm: the sum is not split (nor reduced); another order of the result.
UNSPLIT, SWIZZLED = {2: 1, 3: 0}, {4: 1}
TIMED = 1 << 30  # operations of a product that is worth timing
TRIALS, FINALISTS = 2, 4  # runs that an algorithm is timed by; those that are timed once more


class CublasFailure(RuntimeError):
    """A call that cuBLASLt refused."""


@cache
def library() -> Any:
    """The shared library: a wheel's, else the system's."""
    names = ("libcublasLt.so.13", "libcublasLt.so.12")
    tried = []
    for package in ("nvidia.cu13", "nvidia.cublas"):
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        for root in module.__path__:
            tried += [str(Path(root) / "lib" / name) for name in names]
    for name in [path for path in tried if Path(path).exists()] + list(names):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError(
        "compile: matrix products on CUDA need cuBLASLt, which was not found. Install it with "
        "`pip install nvidia-cublas`, or the CUDA toolkit."
    )


def check(name: str, status: int) -> None:
    """Refuse a status that is not success."""
    if status:
        raise CublasFailure(f"cuBLASLt: {name} failed with status {status}")


class CublasProducts:
    """The products of one GPU; kinds of products are looked up once."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.handle: c_void_p | None = None
        self.workspace: Any = None
        # Whoever runs a product holds its plan: of ever new sizes there are ever new plans.
        self.plans: WeakValueDictionary[tuple[MatrixProduct, bool], ChosenProduct]
        self.plans = WeakValueDictionary()

    def ready(self) -> c_void_p:
        """The library's handle, made with its workspace when first asked for."""
        if self.handle is None:
            self.handle = c_void_p()
            check("create", library().cublasLtCreate(byref(self.handle)))
            self.workspace = cupy().empty(WORKSPACE, np.uint8)
        return self.handle

    def plan(self, product: MatrixProduct) -> ChosenProduct:
        """The plan of a product as it is computed now."""
        key = product, uses_tf32()
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = ChosenProduct(self.ready(), *key)
        return found

    def prepare(self, product: MatrixProduct) -> Callable[[int], None]:
        """What runs a product, given the address of its three addresses on the host."""
        key = product, uses_tf32()
        plan = self.plan(product)

        def run(words: int) -> None:
            a, b, c, *bias = (c_int64 * (4 if product.biased else 3)).from_address(words)
            stream = cupy().cuda.get_current_stream().ptr
            if bias:  # a captured call keeps it
                plan.set(plan.description, BIAS_POINTER, c_int64(bias[0]))
            addresses = a, b, c, self.workspace.data.ptr, stream
            if plan.undecided and not cupy().cuda.runtime.streamIsCapturing(stream):
                plan.decide(choice_key(self.index, *key), addresses)
            plan(*addresses)

        return run


def choice_key(index: int, product: MatrixProduct, tf32: bool) -> str:
    """What the choice of an algorithm is kept by."""
    name = cupy().cuda.runtime.getDeviceProperties(index)["name"]
    version = library().cublasLtGetVersion
    version.restype = c_size_t
    return key_of("cublaslt, more", str(version()), str(name), repr(product), str(tf32))


def uses_tf32() -> bool:
    """Whether float32 products may go through tensor cores."""
    return get_float32_matmul_precision() != "highest"


@cache
def factors(scale: int) -> tuple[Any, Any]:
    """One and zero, of which the library is told the addresses."""
    return FACTORS[scale](1), FACTORS[scale](0)


def described_anew(compute: int, scale: int, transposed: tuple[bool, bool]) -> c_void_p:
    """A description of products: how they are computed, and which operands are transposed."""
    description, lib = c_void_p(), library()
    made = lib.cublasLtMatmulDescCreate(byref(description), c_int(compute), c_int(scale))
    check("description", made)
    # Its first operand is our second.
    for attribute, turned in zip((TRANSPOSE_A, TRANSPOSE_B), transposed[::-1], strict=True):
        if turned:
            value = c_int32(1)
            size = c_size_t(ctypes.sizeof(value))
            set_status = lib.cublasLtMatmulDescSetAttribute(
                description, c_int(attribute), byref(value), size
            )
            check("attribute", set_status)
    return description


described_once = cache(described_anew)


def destroyed(layouts: list[c_void_p], description: c_void_p | None) -> None:
    """Give back what the library holds for a product."""
    for layout in layouts:
        library().cublasLtMatrixLayoutDestroy(layout)
    if description is not None:
        library().cublasLtMatmulDescDestroy(description)


@cache
def preference(workspace: int, aligned: int) -> c_void_p:
    """What algorithms may use: memory, and what addresses are multiples of (0: of 256)."""
    lib, made = library(), c_void_p()
    check("preference", lib.cublasLtMatmulPreferenceCreate(byref(made)))
    wishes: list[tuple[int, Any]] = [(ROOM, c_size_t(workspace))]
    if aligned:
        wishes += [(attribute, ctypes.c_uint32(aligned)) for attribute in ALIGNMENTS]
    for attribute, wish in wishes:
        status = lib.cublasLtMatmulPreferenceSetAttribute(
            made, c_int(attribute), byref(wish), c_size_t(ctypes.sizeof(wish))
        )
        check("preference's attribute", status)
    return made


class ChosenProduct:
    """A product's descriptors and the algorithm chosen for it."""

    def __init__(self, handle: c_void_p, product: MatrixProduct, tf32: bool) -> None:
        self.handle, self.product = handle, product
        self.aligned = product.aligned
        p = product
        number, compute, scale = KINDS[p.dtype]
        if p.dtype == "float32" and tf32:
            compute = TF32
        self.one, self.zero = factors(scale)
        # That of a bias has its address besides, so it is the product's own.
        if not p.biased:
            self.description = described_once(compute, scale, p.transposed)
        else:
            self.description = described_anew(compute, scale, p.transposed)
            self.set(self.description, EPILOGUE, c_int32(ADDS_BIAS))
            self.set(self.description, BIAS_DTYPE, c_int32(KINDS[p.out][0]))
        rows = ((p.n, p.k), (p.k, p.m), (p.n, p.m))
        turned3 = (p.transposed[1], p.transposed[0], False)
        leads = (p.lead[1], p.lead[0], p.lead[2])
        steps = (p.steps[1], p.steps[0], p.steps[2])
        numbers = (number, number, KINDS[p.out][0])
        self.layouts = [
            self.layout(number, shape[::-1] if turned else shape, lead, p.count, step)
            for number, shape, turned, lead, step in zip(
                numbers, rows, turned3, leads, steps, strict=True
            )
        ]
        gone = finalize(self, destroyed, self.layouts, self.description if p.biased else None)
        gone.atexit = False  # the library may have gone before
        large = 2 * p.count * p.m * p.n * p.k >= TIMED
        self.algorithms = self.choose(is_timed=False)[:1]
        self.algorithm = self.algorithms[0]
        self.undecided = large and not are_deterministic_algorithms_enabled()

    def decide(self, key: str, addresses: tuple[int, ...]) -> None:
        """Take the fastest algorithm (Note [algorithms])."""
        self.undecided = False
        # Launches of eager mode, which are never timed, know where the first one is.
        first = bytes(self.algorithm)[:ALGORITHM_BYTES]
        others = self.choose(is_timed=True)
        self.algorithms += [one for one in others if bytes(one)[:ALGORITHM_BYTES] != first]
        stored = store.get(key)
        if stored is not None and int(stored) < len(self.algorithms):
            self.algorithm = self.algorithms[int(stored)]
            return
        few = self.fastest([*range(len(self.algorithms))], addresses, TRIALS)[:FINALISTS]
        at = self.fastest(few, addresses, 6 * TRIALS)[0]
        self.algorithm = self.algorithms[at]
        store.put(key, str(at).encode())

    def fastest(self, which: list[int], addresses: tuple[int, ...], trials: int) -> list[int]:
        """Numbers of algorithms, the fastest first."""
        times = {at: self.timed(self.algorithms[at], addresses, trials) for at in which}
        return sorted(which, key=times.__getitem__)

    def timed(self, algorithm: Any, addresses: tuple[int, ...], trials: int) -> float:
        """Milliseconds that so many runs of an algorithm take."""
        module = cupy().cuda
        begin, end = module.Event(), module.Event()
        self.algorithm = algorithm
        try:
            self(*addresses)
            begin.record()
            for _ in range(trials):
                self(*addresses)
            end.record()
        except CublasFailure:  # one that the library proposed, and does not run
            return float("inf")
        end.synchronize()
        return float(module.get_elapsed_time(begin, end))

    def set(self, description: c_void_p, attribute: int, value: Any) -> None:
        status = library().cublasLtMatmulDescSetAttribute(
            description, c_int(attribute), byref(value), c_size_t(ctypes.sizeof(value))
        )
        check("attribute", status)

    def layout(
        self, number: int, shape: tuple[int, int], lead: int, count: int, step: int
    ) -> c_void_p:
        """A matrix as cuBLASLt sees it, in columns."""
        lib, layout = library(), c_void_p()
        rows, columns = shape
        made = lib.cublasLtMatrixLayoutCreate(
            byref(layout), number, c_int64(rows), c_int64(columns), c_int64(lead)
        )
        if made:
            check("layout", made)
        if count > 1:
            for attribute, value in ((COUNT, c_int32(count)), (STEP, c_int64(step))):
                status = lib.cublasLtMatrixLayoutSetAttribute(
                    layout, c_int(attribute), byref(value), c_size_t(ctypes.sizeof(value))
                )
                check("layout's attribute", status)
        return layout

    def choose(self, is_timed: bool) -> list[Any]:
        """Algorithms, the library's first proposal first; more if they are timed."""
        # The first of one is the first of many, and the library has it in a quarter of the time.
        every = [] if is_timed else self.proposed(WORKSPACE, 1)
        every = every or self.proposed(WORKSPACE)
        if not every:
            raise CublasFailure("cuBLASLt: no algorithm for this product")
        if is_timed:
            every += self.proposed(0)
            every += [one for result in every for one in self.altered(result, UNSPLIT)]
            every += [one for result in every for one in self.altered(result, SWIZZLED)]
        unique: dict[bytes, bytes] = {}
        for result in every:
            unique.setdefault(result[:ALGORITHM_BYTES], result)
        return [(ctypes.c_uint8 * RESULT_BYTES).from_buffer_copy(r) for r in unique.values()]

    def altered(self, result: bytes, to: dict[int, int]) -> list[bytes]:
        """The same algorithm, set otherwise; nothing where it cannot be."""
        lib, made = library(), (ctypes.c_uint8 * RESULT_BYTES).from_buffer_copy(result)
        for attribute, value in to.items():
            number = c_int32(value)
            if lib.cublasLtMatmulAlgoConfigSetAttribute(
                made, c_int(attribute), byref(number), c_size_t(ctypes.sizeof(number))
            ):
                return []
        checked = (ctypes.c_uint8 * RESULT_BYTES)()
        a, b, c = self.layouts
        if lib.cublasLtMatmulAlgoCheck(self.handle, self.description, a, b, c, c, made, checked):
            return []
        room = int.from_bytes(bytes(checked[ALGORITHM_BYTES:STATUS]), "little")
        return [bytes(made)] if room <= WORKSPACE else []

    def proposed(self, workspace: int, most: int = CANDIDATES) -> list[bytes]:
        """The algorithms that the library proposes for so much memory to work in, best first."""
        results = (ctypes.c_uint8 * (RESULT_BYTES * most))()
        count = c_int(0)
        a, b, c = self.layouts
        status = library().cublasLtMatmulAlgoGetHeuristic(
            self.handle, self.description, a, b, c, c, preference(workspace, self.aligned),
            c_int(most), results, byref(count),
        )  # fmt: skip
        if status and not workspace:
            return []  # none without memory
        check("choice of an algorithm", status)
        told, size = bytes(results), RESULT_BYTES
        every = [told[at * size : (at + 1) * size] for at in range(count.value)]
        return [result for result in every if not any(result[STATUS : STATUS + 4])]

    def __call__(self, a: int, b: int, c: int, workspace: int, stream: int) -> None:
        left, right, out = self.layouts
        status = library().cublasLtMatmul(
            self.handle, self.description, byref(self.one),
            c_void_p(b), left, c_void_p(a), right, byref(self.zero),
            c_void_p(c), out, c_void_p(c), out, self.algorithm,
            c_void_p(workspace), c_size_t(WORKSPACE), c_void_p(stream),
        )  # fmt: skip
        check("product", status)
