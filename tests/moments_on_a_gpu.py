"""Mean and variance of images of any size and layout on a GPU, against NumPy.

TRITON_INTERPRET=1 python -m tests.moments_on_a_gpu
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.triton.templates import moments

CASES = 5
WIDEST = {1: 200, 2: 15, 3: 6}  # sizes of images are below, by their dimensions


def images(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Numbers far from zero, as NumPy's and on the GPU: in rows, by channels, or within more."""
    layout = int(rng.integers(3))
    room = [n + 2 * (layout == 2 and d > 1) for d, n in enumerate(shape)]
    whole = (rng.standard_normal(room) + 30).astype(np.float32)
    there = ad.from_numpy(whole).to("cuda")
    inside = tuple([slice(0, n) for n in shape])
    if layout == 1 and len(shape) == 4:
        there = there.contiguous(memory_format=ad.channels_last)
    return whole[inside].astype(np.float64), there[inside]


def normalised(x: Any, dims: tuple[int, ...]) -> Any:
    """The same with a mean of zero and a variance of one."""
    return (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + 1e-5)


def check(seed: int) -> None:
    """One draw of everything, by channels and by groups of them."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 4))
    channels = groups * int(rng.choice([1, 3, 8, 24]))
    rank = int(rng.integers(1, 4))
    sizes = map(int, rng.integers(2, WIDEST[rank], rank))
    shape = (int(rng.integers(1, 5)), channels, *sizes)
    host, there = images(rng, shape)
    cases = [
        (host, (0, *range(2, len(shape))), F.batch_norm(there, None, None, training=True)),
        (
            host.reshape(shape[0], groups, -1),
            (2,),
            F.group_norm(there, groups),
        ),
    ]
    for x, dims, got in cases:
        want = normalised(x, dims).reshape(shape)
        found = got.cpu().contiguous().numpy()
        np.testing.assert_allclose(found, want, 1e-4, 1e-4, err_msg=f"{seed}: {shape}")


def main() -> None:
    """All cases on the stand-in, by Triton's interpreter, whose images are small."""
    importlib.import_module("tests.cupy_stand_in").connect()
    moments.LONG = moments.LONG_GROUP = 64
    moments.PARTS, moments.FEW_PARTS = 16, 4
    plain, written = moments.parts_source, []

    def noted(*given: Any) -> Any:
        written.append(plain(*given))
        return written[-1]

    moments.parts_source = noted
    for seed in range(CASES):
        check(seed)
    assert len(written) > CASES
    print("all cases hold")


if __name__ == "__main__":
    main()
