"""The vector code for processors other than this one: it compiles, and calls no library."""

from __future__ import annotations

import re

import pytest

from adjoint.engine import assembly
from adjoint.engine.backends.llvm.ir import writer
from adjoint.engine.backends.llvm.templates.convolution import lines_kernel
from adjoint.engine.backends.llvm.templates.product import (
    few_kernel,
    panels_kernel,
    thin_kernel,
    tiles,
)
from adjoint.engine.backends.llvm.templates.product import kernel as product
from adjoint.engine.backends.registers import half_bits
from adjoint.engine.backends.registers.elementwise import LOWER, supports
from adjoint.engine.backends.registers.vector import Features, V
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.operations.record import REGISTRY
from tests.assembly_text import assembly_of, with_every_pass
from tests.native_code import write

assembly.load_lazy()
TARGETS = {
    "x86-64-v4": ("x86_64-unknown-linux-gnu", Features(nan_bounds=False)),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", Features(nan_bounds=False)),
    "x86-64": ("x86_64-unknown-linux-gnu", Features(False, False, False)),
    "generic": ("aarch64-unknown-linux-gnu", Features()),
}
# What the oldest x86 has no instruction for, every C library has.
ROUNDING = {name + suffix for name in ("floor", "ceil", "trunc", "rint") for suffix in ("", "f")}
NAMES = sorted(name for name in LOWER if supports(name, dt.float32))


def calls(text: str, cpu: str) -> set[str]:
    """The functions of other libraries that a module's code for a processor calls."""
    return called(assembly_of(text, TARGETS[cpu][0], cpu))


def called(code: str) -> set[str]:
    """The functions of other libraries that code calls."""
    found = re.findall(r"([A-Za-z_.][\w.]*)@(?:GOT|PLT)", code)
    found += re.findall(r"\b(?:bl|callq)[ \t]+([A-Za-z_.][\w.]*)", code)
    return {name for name in found if not name.startswith((".L", "adjoint", "_GLOBAL"))}


@pytest.mark.parametrize("cpu", TARGETS)
def test_no_library_calls(cpu: str) -> None:
    allowed = ROUNDING if cpu == "x86-64" else set()
    for name in NAMES:
        kinds = ("f32",) * len(REGISTRY[name].operands)
        fn = lambda *xs, lower=LOWER[name]: lower(*xs).convert("f32")
        if name == "where":
            kinds = ("i1", "f32", "f32")
        found = calls(write(fn, kinds, "f32", 8, TARGETS[cpu][1]), cpu)
        assert found <= allowed, (name, found)


@pytest.mark.parametrize("cpu", TARGETS)
def test_halves_call_no_library(cpu: str) -> None:
    def there_and_back(word: V) -> V:
        x = half_bits.from_float16_bits(word)
        return half_bits.float16_bits(half_bits.from_bfloat16_bits(half_bits.bfloat16_bits(x)))

    assert calls(write(there_and_back, ("u16",), "u16", 8, TARGETS[cpu][1]), cpu) == set()


# processor -> bits of its vectors, how many, whether NEON; the multiply-add of a tile's loop
TILES = {
    "x86-64-v4": ((512, 32, False), "vfmadd"),
    "x86-64-v3": ((256, 16, False), "vfmadd"),
    "x86-64": ((128, 16, False), "addps"),
    "generic": ((128, 32, True), "fmla"),
}


@pytest.mark.parametrize("cpu", TILES)
def test_tiles_stay_in_registers(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of a product's tile are not put aside in its innermost loops, and nothing is called."""
    registers, adding = TILES[cpu]
    monkeypatch.setattr(tiles, "registers", lambda: registers)
    monkeypatch.setattr(tiles, "has_masks", lambda: registers[0] == 512)
    monkeypatch.setattr(writer, "host_features", lambda: TARGETS[cpu][1])
    outer, inner = tiles.outer_tile("f32"), tiles.inner_tile("f32")
    thin = [
        (inner.rows * columns, thin_kernel.dots_text("dots", "f32", columns))
        for columns in range(2, inner.vectors + 1)
    ]
    square = (outer.rows * outer.vectors, product.product_text("product", "f32", outer))
    tile = tiles.product_tile("f32")
    tall = [
        (t.rows * t.vectors, panels_kernel.panels_text("product", "f32", t))
        for t in (tile,)
        if tiles.has_wide_registers()
    ]
    few = [
        (t.rows * t.vectors, few_kernel.few_text("product", "f32", t))
        for t in (tiles.few_tile("f32", rows) for rows in (2, 4, 9, 12))
        if tiles.has_wide_registers()
    ]
    together = lines_kernel.vectors_together()
    size = (together // lines_kernel.ACROSS, lines_kernel.ACROSS)
    along = [
        (together, lines_kernel.line_sums_text("lines", "f32", True, size, 1, near))
        for near in (True, False)
    ]
    kernels = (square, *tall, *few, *thin, *along)
    texts = ["\n".join([*sorted(declared), function]) for _, (function, declared) in kernels]
    codes = with_every_pass(texts, TARGETS[cpu][0], cpu)
    for (sums, _), code in zip(kernels, codes, strict=True):
        assert called(code) == set()
        found = 0
        for block in re.split(r"\n(?=\.LBB)", code):
            lines = [line for line in block.splitlines() if line.startswith("\t")]
            if sum(adding in line for line in lines) >= sums:
                found += 1
                aside = re.compile(r"(mov[au]p.*%[xyz]mm|\t(str|ldr)\tq).*(%rsp|\bsp\b)")
                assert not [line for line in lines if aside.search(line)]
        assert found


def test_a_library_call_is_seen() -> None:
    text = write(lambda x: x.floor(), ("f32",), "f32", 8, TARGETS["x86-64"][1])
    assert calls(text, "x86-64") == {"floorf"}
