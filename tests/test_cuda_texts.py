"""CUDA C of the eager table compiles for every generation, and does on threads of the CPU's what
it is to do: where a compiler is found, of CUDA and of C++.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.kernels.order import choosing, device

GENERATIONS = ("sm_80", "sm_90", "sm_100")


class Texts:
    """In the place of CuPy: what is compiled is kept, what is launched runs on the CPU's threads.

    A block is so many threads with barriers, blocks come one after another.
    """

    empty, zeros, diff = staticmethod(np.empty), staticmethod(np.zeros), staticmethod(np.diff)
    ascontiguousarray = staticmethod(np.ascontiguousarray)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: list[str] = []

    def RawModule(self, *, code: str) -> Any:
        self.texts.append(code)
        return self

    def RawKernel(self, code: str, name: str) -> Any:
        self.texts.append(code)
        return self.get_function(name)

    def get_function(self, name: str) -> Any:
        return Kernel(self.folder, self.texts[-1], name)


class Kernel:
    """A kernel as a program of its own, which reads and writes arrays in files."""

    def __init__(self, folder: Path, text: str, name: str) -> None:
        self.folder, self.text, self.name = folder, text, name

    def __call__(self, grid: Any, block: Any, words: Any, shared_mem: int = 0) -> None:
        names, lines = [], []
        for k, word in enumerate(words):
            file = self.folder / f"word{k}"
            np.asarray(word).tofile(file)
            size = np.asarray(word).nbytes
            lines.append(f'char* m{k} = load("{file}", {size});')
            is_array = isinstance(word, np.ndarray)
            names.append(f"any(m{k})" if is_array else f"*({C_TYPES[word.dtype.char]}*)m{k}")
        stores = [
            f'store("{self.folder / f"word{k}"}", m{k}, {word.nbytes});'
            for k, word in enumerate(words)
            if isinstance(word, np.ndarray)
        ]
        given = ", ".join(names)
        body = HOST.replace("THREADS_OF_A_BLOCK", str(block[0])).replace("TEXT", self.text)
        body = body.replace("ROOM", str(max(shared_mem, 1))).replace("BLOCKS", str(grid[0]))
        body = body.replace("LOADS", "\n".join(lines)).replace("STORES", "\n".join(stores))
        source, program = self.folder / "kernel.cpp", self.folder / "kernel"
        source.write_text(body.replace("CALL", f"{self.name}({given})"))
        built = subprocess.run(
            ["g++", "-std=c++20", "-w", "-O0", "-pthread", str(source), "-o", str(program)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not built.returncode, built.stderr[:2000]
        subprocess.run([str(program)], check=True, timeout=60)
        for k, word in enumerate(words):
            if isinstance(word, np.ndarray):
                word.reshape(-1)[:] = np.fromfile(self.folder / f"word{k}", word.dtype)


C_TYPES = {"l": "long long", "q": "long long", "i": "int", "f": "float", "d": "double"}
HOST = r"""
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
struct dim { unsigned x; };
const int all_threads = THREADS_OF_A_BLOCK, all_blocks = BLOCKS;
thread_local dim threadIdx, blockIdx;
dim blockDim = {all_threads}, gridDim = {all_blocks};
std::barrier meeting(all_threads);
std::atomic<unsigned> counted;
unsigned votes[all_threads];
void __syncthreads() { meeting.arrive_and_wait(); }
unsigned __syncthreads_count(bool mine) {
    if (!threadIdx.x) counted = 0;
    __syncthreads();
    counted += mine;
    __syncthreads();
    unsigned found = counted;
    __syncthreads();
    return found;
}
unsigned __ballot_sync(unsigned, bool mine) {
    votes[threadIdx.x] = mine;
    __syncthreads();
    unsigned found = 0, first = threadIdx.x & ~31u;
    for (unsigned k = 0; k < 32; k++) found |= votes[first + k] << k;
    __syncthreads();
    return found;
}
int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T> void atomicAdd(T* at, T by) { std::atomic_ref<T>(*at) += by; }
#define __global__
#define __shared__ static
struct any { void* at; any(void* a) : at(a) {} template <class T> operator T*() { return (T*)at; } };
char* load(const char* name, long size) {
    char* at = (char*)malloc(size + 16);
    FILE* file = fopen(name, "rb");
    if (fread(at, 1, size, file) != (size_t)size) abort();
    fclose(file);
    return at;
}
void store(const char* name, char* at, long size) {
    FILE* file = fopen(name, "wb");
    fwrite(at, 1, size, file);
    fclose(file);
}
alignas(16) unsigned int part[ROOM];
TEXT
int main() {
    LOADS
    for (unsigned b = 0; b < all_blocks; b++) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < all_threads; t++)
            threads.emplace_back([&, t] { threadIdx = {t}; blockIdx = {b}; CALL; });
        for (auto& thread : threads) thread.join();
    }
    STORES
}
"""


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Texts]:
    """CuPy's stand-in, with small blocks, so that there are several."""
    for name, value in (("THREADS", 32), ("ITEMS", 2), ("PIECE", 64), ("SCAN", 4)):
        monkeypatch.setattr(choosing, name, value)
    for name, value in (("THREADS", 8), ("BLOCKS", 3), ("SHARED", 16)):
        monkeypatch.setattr(device, name, value)
    found = Texts(tmp_path)
    monkeypatch.setattr(
        Kernel, "__init__",
        lambda self, folder, text, name: self.__dict__.update(
            folder=folder, text=text.replace("extern __shared__ unsigned int part[];", ""),
            name=name,
        ),
    )  # fmt: skip
    yield found
    choosing._kernels.cache_clear()
    device._counting.cache_clear()


needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler of C++")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs CUDA's compiler")
rng = np.random.default_rng(3)


@needs_cpp
@pytest.mark.parametrize(
    ("dtype", "share"), [("uint8", 0.3), ("float16", 0.5), ("int64", 0.0), ("float32", 1.0)]
)
def test_masked(texts: Texts, dtype: str, share: float) -> None:
    x = (rng.standard_normal((13, 21)) * 9).astype(dtype)
    mask = rng.random((13, 21)) < share
    found = choosing.masked(texts, x, mask)
    assert found is not None
    np.testing.assert_array_equal(found, x[mask])


@pytest.mark.parametrize(
    ("x", "mask"),
    [
        (np.ones((3, 4), np.complex128), np.ones((3, 4), bool)),  # no word is as wide
        (np.ones((3, 4)), np.ones(3, bool)),  # rows
        (np.ones((3, 4)), np.ones((3, 4), np.uint8)),
        (np.ones((4, 3)).T, np.ones((3, 4), bool)),
        (np.ones((3, 4)), np.ones((4, 3), bool).T),
        (np.ones((0, 4)), np.ones((0, 4), bool)),
    ],
)
def test_not_masked_at_once(x: Any, mask: Any) -> None:
    assert choosing.masked(None, x, mask) is None


@pytest.mark.slow
@needs_cpp
@pytest.mark.parametrize(("dtype", "sort"), [("uint8", False), ("float32", False), ("int64", True)])
def test_runs(texts: Texts, dtype: str, sort: bool) -> None:
    x = rng.integers(0, 3, 150).astype(dtype)
    if dtype == "float32":
        x[[3, 4, 9]] = np.nan
    order = np.argsort(x, kind="stable") if sort else None
    line = x if order is None else x[order]
    values, inverse, counts = choosing.runs(texts, line, order)
    fresh = np.concatenate([[True], line[1:] != line[:-1]])
    np.testing.assert_array_equal(values, line[fresh])
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(np.repeat(values, counts), line)


@needs_cpp
@pytest.mark.parametrize(("dtype", "bins"), [("float32", 7), ("float64", 40)])
def test_counts_between(texts: Texts, dtype: str, bins: int) -> None:
    x = rng.standard_normal(200).astype(dtype)
    x[:6] = np.nan, np.inf, -np.inf, -1.0, 1.5, 1.5 - 1e-7
    low, high = x.dtype.type(-1), x.dtype.type(1.5)
    found = device.count_between(texts, x, low, high, bins)
    inside = x[(x >= low) & (x <= high)]
    at = ((inside - low) * x.dtype.type(bins) / (high - low)).astype(np.int64)
    np.testing.assert_array_equal(found, np.bincount(np.minimum(at, bins - 1), minlength=bins))


@pytest.mark.slow
@needs_cpp
@pytest.mark.parametrize("bins", [7, 40])
def test_counts(texts: Texts, bins: int) -> None:
    x = rng.integers(-2, bins + 3, 200)
    want = np.bincount(x[(x >= 0) & (x < bins)], minlength=bins)
    np.testing.assert_array_equal(device.count(texts, x, bins), want)


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("generation", GENERATIONS)
def test_compile(tmp_path: Path, generation: str) -> None:
    """Texts as they are launched on a GPU."""
    found: Any = Texts(tmp_path)
    for word in choosing.MOVED.values():
        given = f", const {word}* given, {word}* out"
        choosing._kernels.__wrapped__(found, "unsigned char", "x[i]", given, "out[at] = given[i];")
    for kind, find, more in (
        ("long long", device.AS_IT_IS, ""),
        ("float", device.BETWEEN, ", float low, float high"),
        ("double", device.BETWEEN, ", double low, double high"),
    ):
        device._counting.__wrapped__(found, kind, find, more)
    for k, text in enumerate(found.texts):
        source = tmp_path / f"text{k}.cu"
        source.write_text(text)
        command = ["nvcc", "-cubin", f"-arch={generation}", str(source), "-o", f"{source}.cubin"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not made.returncode, made.stderr[:2000]
