"""Lines in order on a GPU against NumPy: run by a GPU, or on a stand-in by Triton's interpreter.

TRITON_INTERPRET=1 python -m tests.order_on_a_gpu
"""

from __future__ import annotations

import importlib
import sys
from typing import Any
from unittest.mock import MagicMock

import numpy as np

import adjoint as ad

# Lines of which many are put in order by one program, few, one, and of several blocks that are
# merged; along which dimension.
SHAPES = [
    ((3, 2), 1),
    ((700, 7), 1),
    ((2, 129), 1),
    ((200, 3), 0),
    ((2, 600, 2), 1),
    ((1, 5000), 1),
]
LONG = [((3, 4096), 1), ((4097, 2), 0), ((1, 21000), 1), ((300_000,), 0), ((2, 100_000), 1)]
# One line of several tiles of the kernel that sorts digit by digit, of several for every block.
LINES = (1 << 18, (1 << 18) + 4097, 3_000_001)
DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8")


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Few distinct ones, so that many are equal; of floats also both zeros, infinities and NaN."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 40, shape)
    if "float" not in dtype:
        most = np.iinfo(dtype).max
        return np.where(found == 39, most, found - (0 if dtype[0] == "u" else 20)).astype(dtype)
    special = {0: -0.0, 1: 0.0, 2: np.inf, 3: -np.inf, 4: np.nan, 5: -np.nan}
    out = ((found - 20) * 0.37).astype(dtype)
    for which, value in special.items():
        out[found == which] = value
    return out


def random_bits(n: int, dtype: str, seed: int) -> Any:
    """Tensor and array of any bits: of floats also NaN of every kind, subnormal ones, both zeros.

    The array is in float32 where NumPy has no such dtype.
    """
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        array = rng.random(n) < 0.3
        return ad.from_numpy(array), array
    size = getattr(ad, dtype).itemsize
    bits = rng.integers(0, 1 << (8 * size - 1), n, dtype=np.uint64).astype(f"u{size}")
    bits ^= (rng.random(n) < 0.5).astype(bits.dtype) << np.array(8 * size - 1, bits.dtype)
    if "float" in dtype:
        few = rng.integers(0, 30, n)
        top = 1 << (8 * size - 1)
        for which, word in enumerate((0, top, 1, top + 1)):
            bits[few == which] = word
    else:
        bits[rng.random(n) < 0.5] &= bits.dtype.type(0xFF)
    x = ad.from_numpy(bits.view(f"i{size}"))
    if dtype == "bfloat16":
        return x.view(ad.bfloat16), (bits.astype(np.uint32) << 16).view(np.float32)
    return x.view(getattr(ad, dtype)), bits.view(dtype)


def bits_of(x: Any) -> Any:
    """The words that a tensor's elements are, on the CPU."""
    x = x.cpu().reshape(-1)
    return (x if x.dtype is ad.bool else x.view(getattr(ad, f"int{8 * x.itemsize}"))).numpy()


def check_line(n: int, dtype: str, seed: int = 0) -> None:
    """One long line: in order both ways, medians, the k-th, many of the largest, distinct ones."""
    x, array = random_bits(n, dtype, seed)
    x = x.to("cuda")
    order = np.argsort(array, kind="stable")
    down = n - 1 - np.argsort(array[::-1], kind="stable")[::-1]
    for descending, want in ((False, order), (True, down)):
        at = x.argsort(descending=descending, stable=True).cpu().numpy()
        np.testing.assert_array_equal(at, want)

    def shown(y: Any) -> Any:
        return (y.float() if dtype == "bfloat16" else y).cpu().numpy()

    for descending, want in ((False, order), (True, down)):
        for line in (x, x.reshape(1, -1, 1)):
            values, at = line.sort(1 if line.ndim == 3 else 0, descending, stable=True)
            assert values.shape == at.shape == line.shape
            np.testing.assert_array_equal(at.cpu().numpy().reshape(-1), want)
            np.testing.assert_array_equal(bits_of(values), bits_of(x)[want])
    if dtype == "bool":
        return
    np.testing.assert_array_equal(x.topk(1000).indices.cpu().numpy(), down[:1000])
    assert x.kthvalue(n // 3).indices.item() == order[n // 3 - 1]
    absent = int((array != array).sum())
    middle = order[n - absent if absent else (n - 1) // 2]
    among = order[max(n - absent - 1, 0) // 2]
    flat = x.reshape(1, -1)
    assert x.median(0).indices.item() == middle
    assert x.nanmedian(0).indices.item() == among
    np.testing.assert_array_equal(shown(flat.median()), array[middle])
    np.testing.assert_array_equal(shown(flat.nanmedian()), array[among])


def mode_of(line: Any) -> int:
    """Where the smallest of the most frequent elements of a line is last; NaN equals nothing."""
    values, counts = np.unique(line[line == line], return_counts=True)
    if not len(counts) or counts.max() == 1:
        return int(np.argsort(line, kind="stable")[0])
    return int(np.nonzero(line == values[counts.argmax()])[0][-1])


def check(shape: tuple[int, ...], dim: int, dtype: str, seed: int = 0) -> None:
    """Sorted, as positions both ways, medians and modes: those of NumPy."""
    array = numbers(shape, dtype, seed)
    x = ad.from_numpy(array).to("cuda")
    told = f"{shape} along {dim}, {dtype}"
    order = np.argsort(array, dim, kind="stable")
    values, at = x.sort(dim, stable=True)
    np.testing.assert_array_equal(at.cpu().numpy(), order, err_msg=told)
    want = np.take_along_axis(array, order, dim)
    assert values.cpu().numpy().tobytes() == want.tobytes(), told
    down = x.argsort(dim, descending=True, stable=True).cpu().numpy()
    backwards = np.flip(np.argsort(np.flip(array, dim), dim, kind="stable"), dim)
    np.testing.assert_array_equal(down, shape[dim] - 1 - backwards, err_msg=told)
    middle = x.median(dim).indices.cpu().numpy()
    lines = np.moveaxis(array, dim, -1).reshape(-1, shape[dim])
    kept = np.moveaxis(order, dim, -1).reshape(-1, shape[dim])
    for line, places, one in zip(lines, kept, middle.reshape(-1), strict=True):
        absent = int((line != line).sum())
        rank = len(line) - absent if absent else (len(line) - 1) // 2
        assert one == places[rank], told
    found = x.mode(dim).indices.cpu().numpy().reshape(-1)
    np.testing.assert_array_equal(found, [mode_of(line) for line in lines], err_msg=told)


def check_table() -> None:
    """A long line is one call of the eager table, unless somebody looks on."""
    executor = importlib.import_module("adjoint.engine.backends.array.executor")
    devices = importlib.import_module("adjoint.engine.backends.array.devices")
    timeline = importlib.import_module("adjoint.engine.core.state.timeline")
    record = importlib.import_module("adjoint.engine.ops.order.sort").SORT
    calls: list[int] = []

    def kernel(x: Any, dim: int, descending: bool, stable: bool) -> Any:
        calls.append(dim)
        at = devices.cupy().argsort(-x if descending else x, dim)
        return devices.cupy().take_along_axis(x, at, dim), at

    record.plans[executor.DEVICE_KERNEL] = kernel
    array = np.random.default_rng(2).standard_normal(1 << 18).astype(np.float32)
    x = ad.from_numpy(array).to("cuda")
    leaf = x.detach().requires_grad_()

    def listened() -> Any:
        timeline.LISTENERS.append(MagicMock())
        try:
            return x.sort()
        finally:
            timeline.LISTENERS.pop()

    def sorted_leaf() -> Any:
        values, at = leaf.sort()
        (g,) = ad.autograd.grad(values[0], leaf)
        assert g.cpu().numpy().nonzero()[0].tolist() == [int(array.argmin())]
        return values.detach(), at

    ways = {
        "plain": (x.sort, 1), "of a row": (lambda: x.reshape(1, -1).sort(1), 1),
        "of columns": (lambda: x.reshape(-1, 1).sort(1), 0), "short": (x[:1000].sort, 0),
        "on the tape": (sorted_leaf, 0), "listened to": (listened, 0),
        "without the tape": (ad.no_grad()(lambda: leaf.sort()), 0),
    }  # fmt: skip
    for name, (way, count) in ways.items():
        calls.clear()
        values, at = way()
        assert len(calls) == count, name
        want = array[:1000] if name == "short" else array
        order = np.arange(len(want)) if name == "of columns" else np.argsort(want, kind="stable")
        np.testing.assert_array_equal(
            at.cpu().numpy().reshape(-1) + (order if name == "of columns" else 0),
            order,
            err_msg=name,
        )
        np.testing.assert_array_equal(values.cpu().numpy().reshape(-1), want[order], err_msg=name)
    del record.plans[executor.DEVICE_KERNEL]


def main() -> None:
    """All of it on the stand-in."""
    importlib.import_module("tests.cupy_stand_in").connect()
    check_table()
    for shape, dim in SHAPES:
        for dtype in DTYPES if shape[-1] < 1000 else DTYPES[:2]:
            check(shape, dim, dtype)
    print("all cases hold")


if __name__ == "__main__":
    main()
    sys.exit(0)
