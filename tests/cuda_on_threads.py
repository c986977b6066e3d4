"""Kernels in CUDA C on threads of the CPU's: a block is so many threads that meet at barriers.

Blocks come one after another. Arrays are those of `cupy_stand_in`, whose addresses kernels are
given as a driver's launch is (`PackedLaunch`).
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path
from typing import Any

from tests.cupy_stand_in import StandIn

HOST = r"""
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
using namespace std;
struct dim { unsigned x; };
const unsigned most_threads = 1024;
unsigned all_threads;
thread_local dim threadIdx, blockIdx;
dim blockDim, gridDim;
std::barrier<>* meeting;
std::atomic<unsigned> counted;
alignas(16) char shown[most_threads][16];
unsigned char* given_room;
void __syncthreads() { meeting->arrive_and_wait(); }
unsigned __syncthreads_count(bool mine) {
    if (!threadIdx.x) counted = 0;
    __syncthreads();
    counted += mine;
    __syncthreads();
    unsigned found = counted;
    __syncthreads();
    return found;
}
int __syncthreads_or(bool mine) { return __syncthreads_count(mine) != 0; }
void __syncwarp() { __syncthreads(); }
template <class T> T of_lane(T mine, unsigned lane) {
    memcpy(shown[threadIdx.x], &mine, sizeof(T));
    __syncthreads();
    unsigned from = (threadIdx.x & ~31u) + lane;
    T found = mine;
    if (from < all_threads) memcpy(&found, shown[from], sizeof(T));
    __syncthreads();
    return found;
}
template <class T> T __shfl_sync(unsigned, T mine, int lane) { return of_lane(mine, lane & 31); }
template <class T> T __shfl_xor_sync(unsigned, T mine, int by) {
    return of_lane(mine, (threadIdx.x & 31) ^ by);
}
template <class T> T __shfl_up_sync(unsigned, T mine, int by) {
    int lane = (int)(threadIdx.x & 31) - by;
    return of_lane(mine, lane < 0 ? threadIdx.x & 31 : lane);
}
unsigned __ballot_sync(unsigned, bool mine) {
    unsigned found = 0;
    for (unsigned k = 0; k < 32; k++)
        found |= (unsigned)(of_lane((int)mine, k) && (threadIdx.x & ~31u) + k < all_threads) << k;
    return found;
}
int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T> T atomicAdd(T* at, T by) { return std::atomic_ref<T>(*at).fetch_add(by); }
template <class T> T atomicCAS(T* at, T was, T now) {
    std::atomic_ref<T>(*at).compare_exchange_strong(was, now);
    return was;
}
long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
#define __constant__ static
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static
#define __restrict__
struct any { void* at; template <class T> operator T*() { return (T*)at; } };
template <class F> void run(F kernel, unsigned blocks, unsigned block, int shared) {
    gridDim = {blocks};
    blockDim = {all_threads = block};
    std::barrier<> met(block);
    meeting = &met;
    given_room = (unsigned char*)aligned_alloc(16, (shared + 31) / 16 * 16);
    for (unsigned b = 0; b < blocks; b++) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < all_threads; t++)
            threads.emplace_back([&, t] { threadIdx = {t}; blockIdx = {b}; kernel(); });
        for (auto& thread : threads) thread.join();
    }
    free(given_room);
}
"""
ROOM = "extern __shared__ __align__(16) unsigned char room[];"
WORDS = {
    "P": ctypes.c_void_p, "q": ctypes.c_longlong, "i": ctypes.c_int, "?": ctypes.c_bool,
    "f": ctypes.c_float, "d": ctypes.c_double, "Q": ctypes.c_ulonglong, "I": ctypes.c_uint,
}  # fmt: skip
NAMES = {
    "P": "any(*(void**){})", "q": "*(long long*){}", "i": "*(int*){}", "?": "*(bool*){}",
    "f": "*(float*){}", "d": "*(double*){}", "Q": "*(unsigned long long*){}", "I": "*(unsigned*){}",
}  # fmt: skip
RUN = """
extern "C" void run_{name}(unsigned blocks, int shared, void** words) {{
    run([&] {{ {name}({given}); }}, blocks, {threads}, shared);
}}
"""
COMPILER = ["g++", "-std=c++20", "-w", "-O0", "-ffp-contract=off", "-fPIC", "-pthread"]


def compiled(*words: str) -> None:
    built = subprocess.run([*COMPILER, *words], capture_output=True, text=True, check=False)
    assert not built.returncode, built.stderr[:2000]


def threaded(
    folder: Path, text: str, *kernels: tuple[str, int, str], options: tuple[str, ...] = ()
) -> tuple[Any, ...]:
    """Kernels of one text, in the place of `driver.kernels_of`; made once for a folder."""
    header = folder / "host.h"
    if not header.exists():
        header.write_text(HOST)
        compiled("-x", "c++-header", str(header), "-o", f"{header}.gch")
    body = text.replace(ROOM, "unsigned char* room = given_room;")
    for name, threads, layout in kernels:
        given = ", ".join(NAMES[c].format(f"words[{k}]") for k, c in enumerate(layout))
        body += RUN.format(name=name, given=given, threads=threads)
    made = folder / f"{hashlib.sha256(body.encode()).hexdigest()[:16]}.so"
    if not made.exists():
        source = made.with_suffix(".cpp")
        source.write_text(body)
        compiled("-include", str(header), "-shared", str(source), "-o", str(made))
    library = ctypes.CDLL(str(made))
    return tuple(
        ThreadedLaunch(getattr(library, f"run_{name}"), layout) for name, _, layout in kernels
    )


class ThreadedLaunch:
    """Launches of a kernel, in the place of `PackedLaunch`."""

    def __init__(self, run: Any, layout: str) -> None:
        self.run, self.layout = run, layout

    def __call__(self, blocks: int, *values: Any, shared: int = 0) -> None:
        words = [WORDS[c](value) for c, value in zip(self.layout, values, strict=True)]
        places = (ctypes.c_void_p * len(words))(*map(ctypes.addressof, words))
        self.run(blocks, shared, places)


class Cuda:
    """What kernels of the eager table ask of CuPy's module of that name."""

    class runtime:
        getDevice = staticmethod(lambda: 0)

    class Stream:
        ptr = 0
        synchronize = staticmethod(lambda: None)

    get_current_stream = staticmethod(Stream)

    class Pinned:
        def __init__(self, size: int) -> None:
            self.room = (ctypes.c_char * size)()
            self.ptr = ctypes.addressof(self.room)

    alloc_pinned_memory = staticmethod(Pinned)


class Gpu(StandIn):
    """In the place of CuPy: what is launched runs on the CPU's threads."""

    cuda = Cuda()
