"""All launches of a program by one call of native code; the driver writes down what it is told."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from adjoint.engine.backends.triton.runtime.launching import (
    MOST,
    LaunchRecord,
    PlainLaunch,
    kernel_address,
    launch_all,
    recorded,
)

Told = tuple[Any, ...]
FIRST = PlainLaunch(0x1111, 7, 2, 128, 0, [5, 0, -3, 0, 0, 0])
SECOND = PlainLaunch(0x2222, 1, 1, 32, 2048, [0, 9, 0, 0])
KINDS = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]


class Driver:
    """A `cuLaunchKernel` that fails at one launch, or at none."""

    def __init__(self, fails: int = -1) -> None:
        self.seen: list[Told] = []
        self.fails = fails
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *KINDS)(self.launch)
        self.run = launch_all.__wrapped__(kernel_address(self.function))

    def launch(self, function: int, *rest: Any) -> int:
        *sizes, stream, arguments, extra = rest
        buffer, at, size, length, end = (ctypes.c_int64 * 5).from_address(extra)
        assert (buffer, size, end, arguments) == (1, 2, 0, None)
        count = ctypes.c_size_t.from_address(length).value // 8
        words = [*(ctypes.c_int64 * count).from_address(at)]
        self.seen.append((function, tuple(sizes), stream, words))
        return 209 if len(self.seen) - 1 == self.fails else 0


def patched() -> LaunchRecord:
    return recorded([FIRST, SECOND], [[(1, 0, 16), (3, 1, 0)], [(0, 1, -8), (2, 2, 1)]])


def test_functions_sizes_and_words_reach_the_driver() -> None:
    driver, record = Driver(), patched()
    assert driver.run(record.address, 77, 1000, 1 << 46, -1) == 0
    assert driver.seen == [
        (0x1111, (7, 2, 1, 128, 1, 1, 0), 77, [5, 1016, -3, 1 << 46, 0, 0]),
        (0x2222, (1, 1, 1, 32, 1, 1, 2048), 77, [(1 << 46) - 8, 9, 0, 0]),
    ]
    assert driver.run(record.address, 0, 0, 0, 0) == 0  # what was told before is forgotten
    assert driver.seen[2][3] == [5, 16, -3, 0, 0, 0]


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_comes_with_the_number_of_its_launch(which: int) -> None:
    driver, record = Driver(fails=which), patched()
    assert driver.run(record.address, 0, 1, 2, 3) == which << 32 | 209
    assert len(driver.seen) == which + 1  # what comes after it is not launched


@pytest.mark.parametrize("wrong", [1.5, None, 1 << 70])
def test_what_is_no_address_is_refused(wrong: Any) -> None:
    driver, record = Driver(), patched()
    with pytest.raises((TypeError, OverflowError)):
        driver.run(record.address, 0, 1, wrong, 3)
    assert not driver.seen


def test_many_addresses() -> None:
    driver = Driver()
    launch = PlainLaunch(1, 1, 1, 32, 0, [0] * (MOST + 2))
    record = recorded([launch], [[(k, k, 0) for k in range(MOST)]])
    assert driver.run(record.address, 0, *range(MOST)) == 0
    assert driver.seen[0][3] == [*range(MOST), 0, 0]
