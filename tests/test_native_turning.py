"""Copies of matrices that lie by columns, square by square (Note [squares])."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.ir.machine import CodeMachine, this_machine, writing_for
from adjoint.engine.backends.llvm.loops.turning import copies_by_lines, square_side, turned


@pytest.mark.parametrize("side", [4, 8, 16])
def test_squares_are_turned_in_registers(side: int) -> None:
    registers = {f"%r{k}": [(k, lane) for lane in range(side)] for k in range(side)}

    def let(text: str) -> str:
        """What LLVM says of an instruction that picks lanes of two vectors."""
        a, b = (registers[name] for name in re.findall(r"%r\d+", text))
        lanes = [int(lane) for lane in re.findall(r"i32 (\d+)", text)]
        name = f"%r{len(registers)}"
        registers[name] = [(a + b)[lane] for lane in lanes]
        return name

    rows = turned(let, "vector", [f"%r{k}" for k in range(side)])
    assert [registers[row] for row in rows] == [
        [(k, lane) for k in range(side)] for lane in range(side)
    ]


def test_a_square_has_the_side_of_a_register() -> None:
    for bits, sides, by_lines in ((128, (4, 4), False), (256, (8, 4), False), (512, (16, 8), True)):
        with writing_for(CodeMachine(this_machine().features, bits, 32, by_lane=False)):
            assert (square_side("float32"), square_side("int64")) == sides
            assert copies_by_lines("float32") is copies_by_lines("float64") is by_lines


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_turned_matrices_are_numpys(dtype: Any) -> None:
    turn = ad.compile(lambda x: x.transpose(-1, -2).contiguous(), dynamic=False)
    shapes = ((4, 4), (5, 7), (17, 33), (31, 64), (100, 4), (3, 40, 50), (1030, 21), (21, 1030))
    for shape in shapes:
        a = (np.random.default_rng(7).standard_normal(shape) * 100).astype(dtype)
        assert np.array_equal(turn(ad.tensor(a)).numpy(), a.swapaxes(-1, -2)), shape
