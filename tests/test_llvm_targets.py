"""The vector code for processors other than this one: it compiles, and calls no library."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from adjoint import assembly
from adjoint.backends.llvm import halves
from adjoint.backends.llvm.elementwise import LOWER, supports
from adjoint.backends.llvm.vector import Features, V
from adjoint.core import dtype as dt
from adjoint.core.record import REGISTRY
from tests.native_code import write

assembly.load_lazy()
TARGETS = {
    "x86-64-v3": ("x86_64-unknown-linux-gnu", Features(nan_bounds=False)),
    "x86-64": ("x86_64-unknown-linux-gnu", Features(False, False, False)),
    "generic": ("aarch64-unknown-linux-gnu", Features()),
}
# What the oldest x86 has no instruction for, every C library has.
ROUNDING = {name + suffix for name in ("floor", "ceil", "trunc", "rint") for suffix in ("", "f")}
NAMES = sorted(name for name in LOWER if supports(name, dt.float32))


def calls(text: str, cpu: str) -> set[str]:
    """The functions of other libraries that a module's code for a processor calls."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = TARGETS[cpu][0]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=1, reloc="pic")
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.verify()
        code = machine.emit_assembly(module)
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
        x = halves.from_float16_bits(word)
        return halves.float16_bits(halves.from_bfloat16_bits(halves.bfloat16_bits(x)))

    assert calls(write(there_and_back, ("u16",), "u16", 8, TARGETS[cpu][1]), cpu) == set()


def test_a_library_call_is_seen() -> None:
    text = write(lambda x: x.floor(), ("f32",), "f32", 8, TARGETS["x86-64"][1])
    assert calls(text, "x86-64") == {"floorf"}
