"""The functions that C calls, as LLVM text: checks, words, the walk, the way back.

`run` looks at everything it is given before it touches anything; then it copies the program's words
into the arena, adds the bases (Note [arenas]), computes numbers and walks the table.
"""

from __future__ import annotations

import re
from typing import Any

from adjoint.engine.backends.llvm.runtime import shared_words as table
from adjoint.engine.backends.llvm.runtime.driver import driver_text, walk_text
from adjoint.engine.backends.registers.vector import Code
from adjoint.engine.compiler.package.status import CODE_BITS
from adjoint.export.calls.around import around, pool
from adjoint.export.calls.layout import ARENA, STATE, Variant
from adjoint.export.calls.numbers import NumberCode
from adjoint.export.calls.parts import ProgramText, bases_of, constants
from adjoint.export.errors import ExportError
from adjoint.export.output.machines import Destination
from adjoint.export.state import ALIGNED

# Words copied from an image with bases added; then those that differ between sizes put in first.
SET_UP = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @set_up(ptr %arena, ptr %image, i64 %count, ptr %differ, i64 %differing,
    ptr %row, ptr %places, i64 %placed, ptr %bases) {
entry:
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %arena, ptr align 8 %image, i64 %bytes, i1 false)
  br label %sizes
sizes:
  %i = phi i64 [0, %entry], [%i1, %size]
  %some = icmp ult i64 %i, %differing
  br i1 %some, label %size, label %addresses
size:
  %dp = getelementptr [2 x i32], ptr %differ, i64 %i
  %dat = load i32, ptr %dp
  %dwp = getelementptr i32, ptr %dp, i64 1
  %dwhich = load i32, ptr %dwp
  %dfrom = getelementptr i64, ptr %row, i32 %dwhich
  %dvalue = load i64, ptr %dfrom
  %dto = getelementptr i64, ptr %arena, i32 %dat
  store i64 %dvalue, ptr %dto
  %i1 = add i64 %i, 1
  br label %sizes
addresses:
  %j = phi i64 [0, %sizes], [%j1, %address]
  %more = icmp ult i64 %j, %placed
  br i1 %more, label %address, label %end
address:
  %pp = getelementptr [2 x i32], ptr %places, i64 %j
  %pat = load i32, ptr %pp
  %pwp = getelementptr i32, ptr %pp, i64 1
  %pwhich = load i32, ptr %pwp
  %pfrom = getelementptr i64, ptr %bases, i32 %pwhich
  %base = load i64, ptr %pfrom
  %pto = getelementptr i64, ptr %arena, i32 %pat
  %shift = load i64, ptr %pto
  %sum = add i64 %shift, %base
  store i64 %sum, ptr %pto
  %j1 = add i64 %j, 1
  br label %addresses
end:
  ret void
}"""
ALONE = """
define internal i64 @barrier(ptr %pool, ptr %table, i64 %w, i64 %n, i64 %epoch) {
  ret i64 0
}"""


def module_text(program: ProgramText, where: Destination) -> str:
    """The whole module."""
    parts = [program.kernels, SET_UP, constants(program)]
    if program.interface.threads:
        if where.platform is None:
            raise ExportError(f"export.aot: there are no threads on {where.name}.")
        parts += [driver_text(where.platform), pool(program.interface, where)]
    else:
        parts += [ALONE, walk_text(timed=False)]
    run = Run(program, where)
    parts.append(run.text())
    parts += around(program, where)
    return _one_module("\n".join(parts), program.interface.name)


def _one_module(text: str, name: str) -> str:
    """All functions but the program's own kept inside; each declaration once."""
    declared: dict[str, None] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("declare "):
            declared[line] = None
        elif line.startswith("define ") and not line.startswith("define internal "):
            own = re.search(rf"@{name}_[a-z_0-9]+\(", line) is not None
            lines.append(line if own else line.replace("define ", "define internal ", 1))
        else:
            lines.append(line)
    once: dict[str, str] = {}
    for line in declared:
        match = re.search(r"@([\w.]+)\(", line)
        once.setdefault(match[1] if match else line, line)
    return "\n".join([*once.values(), *lines, ""])


# -- run ------------------------------------------------------------------------------------------


def given(name: str) -> str:
    """A parameter of a user's naming, which no other name of the text is."""
    return f"%given.{name}"


class Run:
    """Writes the function that runs the program."""

    def __init__(self, program: ProgramText, where: Destination) -> None:
        self.program, self.interface, self.where = program, program.interface, where
        self.code = Code(where.machine.features)
        self.lines = self.code.lines

    def text(self) -> str:
        """The definition, and what it needs."""
        self._sizes()
        self._checks()
        self._bases()
        self._walk()
        body = "\n".join(line if line.endswith(":") else f"  {line}" for line in self.lines)
        room = f"  %bases = alloca [{max(len(bases_of(self.program)), 1)} x i64], align 16"
        head = f"define i32 @{self.interface.name}_run({', '.join(self._parameters())})"
        return "\n".join(
            [*sorted(self.code.declarations), f"{head} {{\nentry:\n{room}\n{body}\n}}"]
        )

    def _parameters(self) -> list[str]:
        size = self.where.size
        parameters = [f"i64 {given(s.name)}" for s in self.interface.sizes]
        for buffer in self.interface.buffers:
            parameters += [f"ptr {given(buffer.name)}", f"{size} {given(buffer.name)}_count"]
        parameters += [f"double {given(name)}" for name, _ in self.interface.numbers]
        if self.interface.takes_state:
            parameters += ["ptr %state", f"{size} %state_bytes"]
        parameters += ["ptr %arena", f"{size} %arena_bytes"]
        return parameters + (["ptr %pool"] if self.interface.threads else [])

    # -- checks ---------------------------------------------------------------------------------

    def _refuse(self, bad: str, code: int) -> None:
        """Return a code where something is wrong."""
        self.lines += [
            f"br i1 {bad}, label %fail_{code}, label %good_{code}",
            f"fail_{code}:",
            f"ret i32 {code}",
            f"good_{code}:",
        ]

    def _sizes(self) -> None:
        """The point that the sizes are, in %point."""
        let, checks = self.code.let, self.program.checks
        point = "0"
        for size in self.interface.sizes:
            below = let(f"sub i64 {given(size.name)}, {size.low}")
            self._refuse(let(f"icmp uge i64 {below}, {size.count}"), checks.sizes[size.name])
            point = let(f"add i64 {let(f'mul i64 {point}, {size.count}')}, {below}")
        self.point = point

    def _wide(self, name: str) -> str:
        """A size_t as 64 bits."""
        if self.where.pointer == 64:
            return name
        return self.code.let(f"zext {self.where.size} {name} to i64")

    def _at_point(self, name: str, counts: tuple[int, ...]) -> str:
        """A number of each point."""
        if not self.interface.sizes:
            return str(counts[0])
        at = self.code.let(f"getelementptr i64, ptr @{name}, i64 {self.point}")
        return self.code.let(f"load i64, ptr {at}")

    def _checks(self) -> None:
        checks, let = self.program.checks, self.code.let
        for buffer in self.interface.buffers:
            self._address(buffer.name, given(buffer.name), buffer.dtype.itemsize)
            count = self._at_point(f"count_{buffer.name}", buffer.counts)
            passed = self._wide(f"{given(buffer.name)}_count")
            self._refuse(let(f"icmp ne i64 {passed}, {count}"), checks.counts[buffer.name])
        if self.interface.takes_state:
            self._address("state", "%state", ALIGNED)
            passed = self._wide("%state_bytes")
            bad = let(f"icmp ult i64 {passed}, {self.interface.state_bytes}")
            self._refuse(bad, checks.counts["state"])
        self._address("arena", "%arena", ALIGNED)
        least = self._at_point("arena_of", self.interface.arena_bytes)
        bad = let(f"icmp ult i64 {self._wide('%arena_bytes')}, {least}")
        self._refuse(bad, checks.counts["arena"])

    def _address(self, name: str, place: str, aligned: int) -> None:
        let = self.code.let
        self._refuse(let(f"icmp eq ptr {place}, null"), self.program.checks.null[name])
        if aligned > 1:
            number = let(f"ptrtoint ptr {place} to i64")
            rest = let(f"and i64 {number}, {aligned - 1}")
            self._refuse(let(f"icmp ne i64 {rest}, 0"), self.program.checks.aligned[name])

    # -- words ----------------------------------------------------------------------------------

    def _bases(self) -> None:
        let, interface = self.code.let, self.interface
        bases = bases_of(self.program)
        if interface.state_bytes and not interface.takes_state:
            self.lines.append(
                f"%state = getelementptr i8, ptr @{interface.name}_initial_state, i64 0"
            )
        names = {buffer.base: given(buffer.name) for buffer in interface.buffers}
        names |= {ARENA: "%arena", STATE: "%state"}
        for base, k in bases.items():
            address = f"@{base[1]}" if base[0] == "function" else names[base]
            at = let(f"getelementptr i64, ptr %bases, i64 {k}")
            self.lines.append(f"store i64 {let(f'ptrtoint ptr {address} to i64')}, ptr {at}")

    def _walk(self) -> None:
        """Set up the variant for this point, run its table, and tell how that ended."""
        self._choose()
        self._run()
        self.lines += [
            "%status = load i64, ptr %arena",
            "%fine = icmp eq i64 %status, 0",
            "br i1 %fine, label %good, label %bad",
            "bad:",
            f"%which = and i64 %status, {(1 << CODE_BITS) - 1}",
            "%fault = trunc i64 %which to i32",
            "%code = add i32 %faults, %fault",
            "ret i32 %code",
            "good:",
        ]
        self._advance()
        self.lines.append("ret i32 0")

    def _choose(self) -> None:
        """Go to the variant for this point, which has %count entries and its own %faults."""
        values = self._number_values()
        variants = self.program.variants
        if len(variants) > 1:
            place = self.code.let(f"getelementptr i32, ptr @variant_of, i64 {self.point}")
            chosen = self.code.let(f"load i32, ptr {place}")
            cases = " ".join(f"i32 {k}, label %variant_{k}" for k in range(1, len(variants)))
            self.lines.append(f"switch i32 {chosen}, label %variant_0 [{cases}]")
        else:
            self.lines.append("br label %variant_0")
        for k, variant in enumerate(variants):
            self.lines.append(f"variant_{k}:")
            self._set_up(k, variant)
            self._put_numbers(variant, values)
            self.lines.append("br label %go")
        counts = ", ".join(
            f"[{len(v.first.entries)}, %variant_{k}]" for k, v in enumerate(variants)
        )
        faults = ", ".join(
            f"[{self.program.checks.faults[k]}, %variant_{k}]" for k in range(len(variants))
        )
        self.lines += [
            "go:",
            f"%count = phi i64 {counts}",
            f"%faults = phi i32 {faults}",
        ]

    def _run(self) -> None:
        """Have all entries of the table run, again from where they paused."""
        self.lines += [
            "%resume = getelementptr i8, ptr %arena, i64 8",
            *(self._workers() if self.interface.threads else []),
            "br label %again",
            "again:",
            "%start = phi i64 [0, %go], [%at, %again]",
        ]
        if self.interface.threads:
            self.lines += [
                (
                    "%ended = call i64 @run(ptr %pool, ptr %arena, i64 %count, i64 %workers, "
                    "i64 %start)"
                ),
                "%at = load i64, ptr %resume",
                f"%paused = icmp eq i64 %ended, {table.PAUSED}",
            ]
        else:
            self.lines += [
                "store i64 -1, ptr %resume",
                (
                    "%ended = call i64 @walk(ptr null, ptr %arena, i64 %count, i64 0, i64 1, "
                    "i64 0, i64 %start)"
                ),
                "%at = load i64, ptr %resume",
                "%paused = icmp sge i64 %at, 0",
            ]
        self.lines += [
            "br i1 %paused, label %again, label %over",
            "over:",
        ]

    def _workers(self) -> list[str]:
        """How many workers there are: those of the pool, and the caller."""
        return [
            "%nobody = icmp eq ptr %pool, null",
            "%held = select i1 %nobody, ptr @no_pool, ptr %pool",
            f"%startedp = getelementptr i8, ptr %held, i64 {table.STARTED}",
            "%started = load i64, ptr %startedp",
            "%workers = add i64 %started, 1",
        ]

    def _set_up(self, k: int, variant: Variant) -> None:
        first, row = variant.first, f"@rows_{k}"
        if len(variant.columns):
            let = self.code.let
            at = let(f"getelementptr i32, ptr @row_of, i64 {self.point}")
            number = let(f"load i32, ptr {at}")
            wide = variant.table.shape[1]
            row = let(f"getelementptr [{wide} x i64], ptr @rows_{k}, i32 {number}")
        self.lines.append(
            f"call void @set_up(ptr %arena, ptr @image_{k}, i64 {len(first.words)}, "
            f"ptr @differ_{k}, i64 {len(variant.columns)}, ptr {row}, ptr @places_{k}, "
            f"i64 {len(first.additions)}, ptr %bases)"
        )

    def _number_values(self) -> dict[int, Any]:
        program = self.program
        arguments = {leaf: given(name) for name, leaf in self.interface.numbers}
        writer = NumberCode(self.code, program.recording, program.state, program.fixed, arguments)
        wanted = {i for v in program.variants for _, i, _ in v.first.numbers}
        return {i: writer.value(program.recording.hosts[i]) for i in sorted(wanted)}

    def _put_numbers(self, variant: Variant, values: dict[int, Any]) -> None:
        let, graph = self.code.let, self.program.recording.task.graph
        for at, i, plus in variant.first.numbers:
            value = values[i]
            if graph.inputs[i].spec.dtype.is_floating_point:
                value = value.convert("f64")
                stored = f"double {value.ref}"
            else:
                stored = f"i64 {(value.convert('i64') + plus).ref if plus else value.ref}"
            place = let(f"getelementptr i64, ptr %arena, i64 {at}")
            self.lines.append(f"store {stored}, ptr {place}")

    def _advance(self) -> None:
        """Random generators go on by as many numbers as were drawn."""
        let = self.code.let
        for generator, count in self.program.recording.draws:
            start = self.program.state.offset(("generator", id(generator)))
            at = let(f"getelementptr i8, ptr %state, i64 {start + 8}")
            moved = let(f"add i64 {let(f'load i64, ptr {at}')}, {count}")
            self.lines.append(f"store i64 {moved}, ptr {at}")
