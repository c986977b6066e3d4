"""The machines that programs are exported for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache

from adjoint.engine.backends.llvm.ir.machine import CodeMachine, Features, this_machine
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.backends.llvm.runtime.shared_words import Platform, host_platform
from adjoint.export.errors import ExportError

LEVEL = 2  # of code generation


@dataclass(frozen=True, slots=True)
class Destination:
    """A machine to export for: what LLVM is told, and what kernels are written for."""

    name: str
    triple: str
    processor: str
    attributes: str  # LLVM's, as "+a,-b"
    machine: CodeMachine
    pointer: int = 64  # bits
    zig: str = ""  # the target's name for `zig cc`

    @property
    def size(self) -> str:
        """LLVM's type of C's size_t."""
        return f"i{self.pointer}"

    @property
    def platform(self) -> Platform | None:
        """What a pool of threads is written for; None where there are none."""
        machine = self.triple.split("-", maxsplit=1)[0]
        known = machine in ("x86_64", "aarch64") and self.pointer == 64
        linux = "linux" in self.triple
        return Platform(machine, linux, linux) if known else None

    @property
    def is_wasm(self) -> bool:
        """Whether it is WebAssembly."""
        return self.triple.startswith("wasm")


_X86 = "x86_64-unknown-linux-gnu"
_NO_FUSED = Features(fused=False, halves=False, nan_bounds=False, slow_underflow=True)
_X86_FEATURES = Features(nan_bounds=False, slow_underflow=True)
_PLAIN = Features(fused=True, halves=False, nan_bounds=False)
_OTHERS = [
    Destination(
        "x86-64-v2", _X86, "x86-64-v2", "", CodeMachine(_NO_FUSED, 128, 16, False, "pairs128"),
        zig="x86_64-linux-musl",
    ),
    Destination(
        "x86-64-v3", _X86, "x86-64-v3", "",
        CodeMachine(_X86_FEATURES, 256, 16, False, "pairs256"),
        zig="x86_64-linux-musl",
    ),
    Destination(
        "x86-64-v4", _X86, "x86-64-v4", "",
        CodeMachine(_X86_FEATURES, 512, 32, False, "pairs512"),
        zig="x86_64-linux-musl",
    ),
    Destination(
        "aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon",
        CodeMachine(Features(overwrites=True, folds=True), 128, 32, True, "widened"),
        zig="aarch64-linux-musl",
    ),
    Destination(
        "riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c",
        CodeMachine(_PLAIN, 128, 16, False, "widened"), zig="riscv64-linux-musl",
    ),
    Destination(
        "arm", "armv7-unknown-linux-gnueabihf", "cortex-a15", "+neon,+vfp4",
        CodeMachine(_PLAIN, 128, 16, False, "widened"), pointer=32, zig="arm-linux-musleabihf",
    ),
    Destination(
        "wasm32", "wasm32-unknown-unknown", "generic",
        "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals",
        CodeMachine(
            Features(fused=False, halves=False, nan_bounds=True), 128, 16, False, "widened"
        ),
        pointer=32, zig="wasm32-freestanding",
    ),
]  # fmt: skip
PORTABLE = "portable"  # C that no instruction of a processor's is in
_PLAINEST = CodeMachine(_NO_FUSED, 128, 16, False, "widened")
_OTHERS.append(Destination(PORTABLE, _X86, "x86-64", "", _PLAINEST))
DESTINATIONS = {machine.name: machine for machine in _OTHERS}
NATIVE = "native"


@cache
def native() -> Destination:
    """This machine, its own processor and all it can do."""
    triple, processor, attributes = jit.host()
    machine = host_platform().machine
    zig = {"linux": f"{machine}-linux-gnu", "darwin": f"{machine}-macos"}.get(sys.platform, "")
    pointer = 64 if sys.maxsize > 2**32 else 32
    # The text may become C, which has no vectors that are read and written in part.
    code_machine = replace(this_machine(), masks=False, indexes=False)
    return Destination(NATIVE, triple, processor, attributes, code_machine, pointer, zig)


def destination(name: str) -> Destination:
    """A machine by its name.

    >>> destination("wasm32").pointer
    32
    """
    if name == NATIVE:
        return native()
    if name not in DESTINATIONS:
        raise ExportError(
            f"export.aot: there is no machine {name!r}. There are {NATIVE}, "
            f"{', '.join(DESTINATIONS)}."
        )
    return DESTINATIONS[name]


def object_code(text: str, where: Destination) -> bytes:
    """The object file of a module's text."""
    return jit.object_for(text, where.triple, where.processor, where.attributes, level=LEVEL)
