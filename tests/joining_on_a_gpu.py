"""Parts of any shape, dtype and layout put side by side on a GPU, against NumPy.

TRITON_INTERPRET=1 python -m tests.joining_on_a_gpu
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.backends.triton.templates.joining import PARTS

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")
CASES = 40


def part(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    """Numbers of a shape as NumPy's, and on the GPU as a view of more, turned or with gaps."""
    order = rng.permutation(len(shape))
    steps = rng.integers(1, 3, len(shape))
    room = [int(shape[d] * steps[d] + 1) for d in order]
    whole = (rng.standard_normal(room) * 9).astype(dtype)
    begins = rng.integers(0, 2, len(shape))

    def shown(x: Any) -> Any:
        x = x.transpose(*np.argsort(order)) if isinstance(x, np.ndarray) else x.permute(
            *[int(d) for d in np.argsort(order)]
        )  # fmt: skip
        cuts = zip(shape, begins, steps, strict=True)
        return x[tuple([slice(int(b), int(b + n * s), int(s)) for n, b, s in cuts])]

    host = shown(whole)
    there = shown(ad.from_numpy(whole).to("cuda"))
    assert tuple(there.shape) == shape
    return np.ascontiguousarray(host), there


def check(seed: int, gpu: Any = None) -> None:
    """One draw of everything: bytes, and how many launches."""
    rng = np.random.default_rng(seed)
    dtype, stacked = DTYPES[seed % len(DTYPES)], bool(rng.integers(2))
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    dim, count = int(rng.integers(len(shape) + stacked)), int(rng.integers(2, 2 * PARTS + 3))
    hosts, theres = [], []
    for _ in range(count):
        own = list(shape)
        if not stacked:
            own[dim] = int(rng.integers(1, 5))
        host, there = part(rng, tuple(own), dtype)
        hosts.append(host)
        theres.append(there)
    before = gpu.launched if gpu else 0
    got = (ad.stack if stacked else ad.cat)(theres, dim)
    taken = gpu.launched - before if gpu else 0
    want = np.stack(hosts, dim) if stacked else np.concatenate(hosts, dim)
    assert tuple(got.shape) == want.shape, seed
    found = got.cpu().contiguous().numpy()
    assert found.tobytes() == want.tobytes(), (seed, dtype, shape, dim, found, want)
    assert taken <= -(-count // PARTS), (seed, taken, count)


def main() -> None:
    """All of it on the stand-in."""
    gpu = importlib.import_module("tests.cupy_stand_in").connect()
    for seed in range(CASES):
        check(seed, gpu)
    print("all cases hold")


if __name__ == "__main__":
    main()
