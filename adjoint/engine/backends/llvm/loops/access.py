"""Access: where a kernel's references lie, loads and stores."""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.masked import masked_load, masked_store
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.registers.elementwise import from_memory, to_memory
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.registers.vector import Code, V, any_of, select, type_text, width
from adjoint.engine.compiler.loops.ir import Form
from adjoint.engine.core.dtype import named

LINE = 64  # bytes of the cache's lines
_ALIGNMENT = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "u16": 2, "i16": 2}


class Access:
    """The references of a form: `word` are its words, `base` where a piece begins."""

    def __init__(self, form: Form, code: Code, blocks: Blocks, vector: int) -> None:
        self.form, self.code, self.blocks = form, code, blocks
        self.vector = vector  # the dimension that lanes run along
        self.word: dict[tuple[str, int, int], str] = {}
        self.base: dict[int, str] = {}
        self.mask: V | None = None  # lanes that there are, while the last ones are written
        self.later: dict[int, str] = {}  # indices of what is asked for (Note [lines ahead])

    def address(self, r: int, where: dict[int, str]) -> str:
        """A reference's address (or, for a coordinate, value) after the given indices."""
        let = self.code.let
        at = self.word["address", r, -1]
        name, classes = self.form.refs[r]
        shift = ""
        for d, i in where.items():
            if classes[d] == 0:
                continue
            step = i if classes[d] == 1 else let(f"mul i64 {i}, {self.word['stride', r, d]}")
            shift = step if not shift else let(f"add i64 {shift}, {step}")
        if name == "index":
            return let(f"add i64 {at}, {shift}") if shift else at
        pointer = let(f"inttoptr i64 {at} to ptr")
        if not shift:
            return pointer
        element = type_text(KIND[name][1], 1)
        return let(f"getelementptr {element}, ptr {pointer}, i64 {shift}")

    def pointer(self, r: int, where: dict[int, str]) -> str:
        """The address of a reference at further indices."""
        let = self.code.let
        name, classes = self.form.refs[r]
        at = self.base[r]
        for d, i in where.items():
            if classes[d]:
                step = i if classes[d] == 1 else let(f"mul i64 {i}, {self.word['stride', r, d]}")
                at = let(f"getelementptr {type_text(KIND[name][1], 1)}, ptr {at}, i64 {step}")
        return at

    def load(self, r: int, where: dict[int, str], lanes: int) -> V:
        """The elements of a reference here, in as many lanes."""
        name, classes = self.form.refs[r]
        kind = KIND[name][1]
        across = classes[self.vector] if self.vector >= 0 and self.vector in where else 0
        at = self.pointer(r, where)
        align = alignment(name)
        code = self.code
        if lanes == 1 or across == 0:
            one = code.value(
                code.let(f"load {type_text(kind, 1)}, ptr {at}, align {align}"), kind, 1
            )
            return code.splat(widen(one, name), lanes)
        if across == 1 and self.mask is not None and lanes == self.mask.lanes:
            return widen(masked_load(self.mask, at, align, kind), name)
        if across == 1:
            wide = type_text(kind, lanes)
            elements = code.value(code.let(f"load {wide}, ptr {at}, align {align}"), kind, lanes)
            self.ask(r, where, elements, written=False)
            return widen(elements, name)
        wide = type_text(kind, lanes)
        if across == 3:
            last = code.let(f"getelementptr {type_text(kind, 1)}, ptr {at}, i64 {1 - lanes}")
            if self.mask is not None and lanes == self.mask.lanes:
                some = masked_load(self.turned(self.mask), last, align, kind)
                return widen(self.turned(some), name)
            ref = code.let(f"load {wide}, ptr {last}, align {align}")
            return widen(self.turned(code.value(ref, kind, lanes)), name)
        ref = "poison"
        element = type_text(kind, 1)
        for k in range(lanes):
            step = code.let(f"mul i64 {self.word['stride', r, self.vector]}, {k}")
            here = code.let(f"getelementptr {element}, ptr {at}, i64 {step}")
            one_ref = code.let(f"load {element}, ptr {here}, align {align}")
            ref = code.let(f"insertelement {wide} {ref}, {element} {one_ref}, i64 {k}")
        return widen(code.value(ref, kind, lanes), name)

    def turned(self, x: V) -> V:
        """A vector's elements from the last to the first."""
        order = ", ".join(f"i32 {k}" for k in reversed(range(x.lanes)))
        text = f"shufflevector {x.type} {x.ref}, {x.type} poison, <{x.lanes} x i32> <{order}>"
        return self.code.value(self.code.let(text), x.kind, x.lanes)

    def load_picked(
        self, k: int, indices: list[V], lanes: int, where: dict[int, str], uniform: bool
    ) -> V:
        """A load at a place that indices decide; `uniform` if they are one for all lanes."""
        op, code = self.form.ops[k], self.code
        r = op.args[0][1]
        name, classes = self.form.refs[r]
        shift: V | None = None
        for j, index in enumerate(indices):
            safe = self.in_bounds(
                index.convert("i64"), self.word["limit", r, j], k, j, bool(op.params)
            )
            step = code.splat(code.value(self.word["pick", r, j], "i64", 1), safe.lanes)
            shift = safe * step if shift is None else shift + safe * step
        assert shift is not None
        element = type_text(KIND[name][1], 1)
        if uniform:
            base = self.base[r]
            self.base[r] = code.let(f"getelementptr {element}, ptr {base}, i64 {shift.ref}")
            value = self.load(r, where, lanes)
            self.base[r] = base
            return value
        across = classes[self.vector] if self.vector >= 0 and self.vector in where else 0
        if across:
            stride = "1" if across == 1 else self.word["stride", r, self.vector]
            shift = shift + code.iota("i64", lanes) * code.splat(
                code.value(stride, "i64", 1), lanes
            )
        return self.collect(name, self.pointer(r, where), shift)

    def collect(self, name: str, at: str, shift: V) -> V:
        """Elements so many places after an address, one for each lane."""
        code, lanes = self.code, shift.lanes
        kind, align = KIND[name][1], alignment(name)
        element, wide = type_text(kind, 1), type_text(kind, lanes)
        if lanes == 1:
            here = code.let(f"getelementptr {element}, ptr {at}, i64 {shift.ref}")
            ref = code.let(f"load {element}, ptr {here}, align {align}")
            return widen(code.value(ref, kind, 1), name)
        ref = "poison"
        for lane in range(lanes):
            step_ref = code.let(f"extractelement {shift.type} {shift.ref}, i64 {lane}")
            here = code.let(f"getelementptr {element}, ptr {at}, i64 {step_ref}")
            one = code.let(f"load {element}, ptr {here}, align {align}")
            ref = code.let(f"insertelement {wide} {ref}, {element} {one}, i64 {lane}")
        return widen(code.value(ref, kind, lanes), name)

    def in_bounds(self, index: V, limit: str, k: int, j: int, wrap: bool) -> V:
        """An index made safe; one that is out of bounds is reported (Note [faults])."""
        code = self.code
        size = code.splat(code.value(limit, "i64", 1), index.lanes)
        given = index
        if wrap:
            index = select(index < 0, index + size, index)
        bad = index.bitcast("u64") >= size.bitcast("u64")
        self.report(bad, k, j, given)
        return select(bad, 0, index)

    def report(self, bad: V, k: int, j: int, number: V | None = None) -> None:
        """Note [faults]: a kernel that finds an error in a lane says so in the status, and goes on.

        The driver stops at the next barrier; memory it wrote meanwhile is the program's own.
        """

        def store() -> None:
            status = self.code.let(f"inttoptr i64 {self.word['status', 0, -1]} to ptr")
            store_fault(self.code, status, self.word["fault", k, j], bad, number)

        self.blocks.when(any_of(bad).ref, store)

    def store(self, r: int, where: dict[int, str], value: V) -> None:
        """Write a value to where a reference is."""
        name, classes = self.form.refs[r]
        kind = KIND[name][1]
        value = narrow(value, name)
        at = self.pointer(r, where)
        align = alignment(name)
        lines, let = self.code.lines, self.code.let
        if self.mask is not None and classes[self.vector] == 1:
            masked_store(self.mask, self.code.splat(value, self.mask.lanes), at, align)
            return
        if self.mask is not None and classes[self.vector] == 3:
            last = let(f"getelementptr {type_text(kind, 1)}, ptr {at}, i64 {1 - self.mask.lanes}")
            given = self.turned(self.code.splat(value, self.mask.lanes))
            masked_store(self.turned(self.mask), given, last, align)
            return
        if value.lanes == 1 or classes[self.vector] == 1:
            self.ask(r, where, value, written=True)
            lines.append(f"store {value.type} {value.ref}, ptr {at}, align {align}")
            return
        if classes[self.vector] == 0:  # only where there are no elements: the loop never runs
            return
        element = type_text(kind, 1)
        if classes[self.vector] == 3:
            last = let(f"getelementptr {element}, ptr {at}, i64 {1 - value.lanes}")
            turned = self.turned(value)
            lines.append(f"store {turned.type} {turned.ref}, ptr {last}, align {align}")
            return
        for k in range(value.lanes):
            step = let(f"mul i64 {self.word['stride', r, self.vector]}, {k}")
            here = let(f"getelementptr {element}, ptr {at}, i64 {step}")
            one = let(f"extractelement {value.type} {value.ref}, i64 {k}")
            lines.append(f"store {element} {one}, ptr {here}, align {align}")

    def ask(self, r: int, where: dict[int, str], value: V, *, written: bool) -> None:
        """Ask for the line that is wanted where `later` says; it need not exist.

        Note [lines ahead]
            A write waits for its line where the cache has it not, and those behind it wait with it.
            Sums in memory that are written in between are half of those that wait: then only half
            as many lines come at once, and all takes three times as long. So who writes both asks
            for lines before. Where registers are as wide as a line, that is an instruction for
            each; elsewhere it was not measured.
        """
        if self.later and value.lanes * width(value.kind) == machine().bits == 8 * LINE:
            code = self.code
            code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            later = self.pointer(r, {**where, **self.later})
            code.lines.append(
                f"call void @llvm.prefetch.p0(ptr {later}, i32 {int(written)}, i32 3, i32 1)"
            )

    def coordinate(self, r: int, where: dict[int, str], lanes: int, kind: str = "i64") -> V:
        """The value of a reference without a buffer; `kind` is what holds it."""
        let, code = self.code.let, self.code
        _, classes = self.form.refs[r]
        at = self.base[r]
        across: V | None = None
        for d, i in where.items():
            if not classes[d]:
                continue
            stride = "1" if classes[d] == 1 else self.word["stride", r, d]
            at = let(f"add i64 {at}, {let(f'mul i64 {i}, {stride}')}")
            if d == self.vector and lanes > 1:
                step = code.splat(code.value(stride, "i64", 1).convert(kind), lanes)
                across = code.iota(kind, lanes) * step
        value = code.splat(code.value(at, "i64", 1).convert(kind), lanes)
        return value if across is None else value + across


def alignment(dtype: str) -> int:
    """What a pointer to elements of a dtype is a multiple of, in bytes."""
    return _ALIGNMENT.get(KIND[dtype][1], 1)


def widen(x: V, dtype: str) -> V:
    """What was loaded, as its kind in registers."""
    return from_memory(x, named(dtype))


def narrow(x: V, dtype: str) -> V:
    """A value as it is stored."""
    return to_memory(x, named(dtype))
