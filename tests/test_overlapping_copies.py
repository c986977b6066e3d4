"""Copies between windows of one memory: as if what is read had been read before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

WINDOWS: dict[str, Callable[[Any, int], Any]] = {
    "from the first": lambda x, m: x[:m],
    "from the second": lambda x, m: x[1 : 1 + m],
    "from the fifth": lambda x, m: x[5 : 5 + m],
    "every second": lambda x, m: x[: 2 * m : 2],
    "every third": lambda x, m: x[1 : 1 + 3 * m : 3],
    "in the middle": lambda x, m: x[m // 2 : m // 2 + m],
    "one over again": lambda x, m: x[m // 2 : m // 2 + 1].expand(m),
    "a column": lambda x, m: x[: 4 * m].view(m, 4)[:, 1],
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "copy_": lambda x, y: x.copy_(y),
    "index": lambda x, y: x.__setitem__(Ellipsis, y),
    "add_": lambda x, y: x.add_(y),
    "copy of another dtype": lambda x, y: x.copy_(
        y.view(ad.int32 if y.itemsize == 4 else ad.int64)
    ),
}
DTYPES = (ad.float32, ad.float64, ad.complex64, ad.int32, ad.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("size", [3, 40, 2048, 5000])
def test_overlapping_copies(size: int, write: str, dtype: ad.dtype) -> None:
    if write == "copy of another dtype" and dtype in (ad.complex64, ad.bfloat16):
        pytest.skip("the integers of such a size are no case of their own")
    for target, first in WINDOWS.items():
        if target == "one over again":  # nothing is written there
            continue
        for source, second in WINDOWS.items():
            for _ in range(4):  # native code takes over
                x = (ad.arange(4 * size + 8) % 100).to(dtype)
                wanted = x.clone()
                WRITES[write](first(wanted, size), second(x, size))
                WRITES[write](first(x, size), second(x, size))
                assert x.equal(wanted), (target, source)
