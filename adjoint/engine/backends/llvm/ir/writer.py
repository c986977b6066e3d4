"""Functions of templates: words read by name, loops over them, loads and stores.

A template's function is `void f(ptr args, i64 worker, i64 workers)`; its words lie at `args`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.engine.backends.llvm.ir.blocks import Blocks, unknown
from adjoint.engine.backends.llvm.ir.machine import host_features, machine
from adjoint.engine.backends.llvm.ir.masked import masked_load, masked_store
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import Code, Operand, V, select, type_text, width

LINE = 64  # bytes of a line of the cache, at least


class CodeWriter:
    """Writes one function.

    Note [loops as written]
        A third of LLVM's time for a kernel goes into loops whose places it knows: how else could
        addresses be had, what is a turn's number good for? Loops of tiles that are unrolled and
        ordered by hand gain nothing by it where an instruction has an index in its address, nor do
        the kernels of loops, whose arrays are all reached by one number. In these and in functions
        that ask for it, a turn's number is hidden by an empty instruction, and loops are left as
        they are.
    """

    def __init__(self, *, as_written: bool = False) -> None:
        self.code = Code(features=host_features())
        self.blocks = Blocks(self.code, as_written=as_written and machine().indexes)
        self.reserved: list[str] = []

    # -- numbers --------------------------------------------------------------------------------

    def whole(self, value: int) -> V:
        """A whole number."""
        return self.code.const(value, "i64")

    def word(self, k: int) -> V:
        """One of the launch's words."""
        at = self.code.let(f"getelementptr i64, ptr %args, i64 {k}")
        return self.code.value(self.code.let(f"load i64, ptr {at}"), "i64", 1)

    def words(self, count: int) -> list[V]:
        """The launch's first words."""
        return [self.word(k) for k in range(count)]

    def share(self, total: V) -> tuple[V, V]:
        """The part of `total` pieces that is this worker's."""
        worker, workers = (self.code.value(n, "i64", 1) for n in ("%worker", "%workers"))
        return (total * worker).quotient(workers), (total * (worker + 1)).quotient(workers)

    def pieces(self, total: V, body: Callable[[V], None]) -> None:
        """Do `body(piece)` for this worker's part of `total` pieces."""
        low, high = self.share(total)
        self.loop(low, high, body)

    def least(self, a: V, b: Operand) -> V:
        """The smaller of two numbers."""
        return select(a < b, a, b)

    def most(self, a: V, b: Operand) -> V:
        """The larger of two numbers."""
        return select(a > b, a, b)

    def split(self, x: V, by: V) -> tuple[V, V]:
        """Quotient and rest."""
        whole = x.quotient(by)
        return whole, x - whole * by

    # -- memory ---------------------------------------------------------------------------------

    def pointer(self, address: V) -> str:
        """An address as a pointer."""
        return self.code.let(f"inttoptr i64 {address.ref} to ptr")

    def address(self, pointer: str) -> V:
        """A pointer as an address."""
        return self.code.value(self.code.let(f"ptrtoint ptr {pointer} to i64"), "i64", 1)

    def reserve(self, kind: str, count: int) -> str:
        """Memory of the function's own, on the stack."""
        name = f"%s{len(self.reserved)}"
        self.reserved.append(f"{name} = alloca [{count} x {type_text(kind, 1)}], align 64")
        return name

    def at(self, base: str, kind: str, index: V) -> str:
        """Where an element lies."""
        return self.code.let(f"getelementptr {type_text(kind, 1)}, ptr {base}, i64 {index.ref}")

    def unknown(self, x: V) -> V:
        """The same whole number, of which LLVM does not know how it was made."""
        return self.code.value(unknown(self.code, x.ref), "i64", 1)

    def load(self, base: str, kind: str, index: V, lanes: int = 1) -> V:
        """Neighbouring elements."""
        where = self.at(base, kind, index)
        text = f"load {type_text(kind, lanes)}, ptr {where}, align {width(kind) // 8}"
        return self.code.value(self.code.let(text), kind, lanes)

    def store(self, value: V, base: str, index: V) -> None:
        """Put a value at neighbouring elements."""
        where = self.at(base, value.kind, index)
        align = width(value.kind) // 8
        self.code.lines.append(f"store {value.type} {value.ref}, ptr {where}, align {align}")

    def lanes_below(self, count: V, lanes: int) -> V:
        """Which lanes are among the first `count`, which may be any number: none, or very many."""
        near = self.least(self.most(count, 0), lanes).convert("i32")
        return self.code.iota("i32", lanes) < self.code.splat(near, lanes)

    def load_some(self, mask: V, kind: str, base: str, index: V) -> V:
        """Neighbouring elements where the mask holds, zeros elsewhere; nothing else is read."""
        return masked_load(mask, self.at(base, kind, index), width(kind) // 8, kind)

    def store_some(self, mask: V, value: V, base: str, index: V) -> None:
        """Put a value at neighbouring elements where the mask holds."""
        masked_store(mask, value, self.at(base, value.kind, index), width(value.kind) // 8)

    def behind(self, base: str, offset: V) -> str:
        """So many bytes behind a pointer."""
        return self.code.let(f"getelementptr i8, ptr {base}, i64 {offset.ref}")

    def prefetch(self, where: str, ahead: int, near: int = 3) -> None:
        """Ask for memory so many bytes ahead; it need not exist. 3 is the nearest cache."""
        self.code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        at = self.behind(where, self.whole(ahead))
        self.code.lines.append(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 {near}, i32 1)")

    def gather(self, base: str, kind: str, places: Sequence[V]) -> V:
        """Elements from anywhere, side by side."""
        return self.join([self.load(base, kind, place) for place in places])

    def join(self, items: Sequence[V]) -> V:
        """Scalars side by side."""
        kind, lanes = items[0].kind, len(items)
        if lanes == 1:
            return items[0]
        vector = type_text(kind, lanes)
        result = "poison"
        for lane, x in enumerate(items):
            result = self.code.let(f"insertelement {vector} {result}, {x.type} {x.ref}, i64 {lane}")
        return self.code.value(result, kind, lanes)

    def lane(self, x: V, lane: int) -> V:
        """One lane of a vector."""
        ref = self.code.let(f"extractelement {x.type} {x.ref}, i64 {lane}")
        return self.code.value(ref, x.kind, 1)

    def spread(self, x: V, lane: int) -> V:
        """One lane of a vector in all of them."""
        mask = ", ".join([f"i32 {lane}"] * x.lanes)
        text = f"shufflevector {x.type} {x.ref}, {x.type} poison, <{x.lanes} x i32> <{mask}>"
        return self.code.value(self.code.let(text), x.kind, x.lanes)

    def pick(self, a: V, b: V, lanes: Sequence[int]) -> V:
        """Lanes of two vectors, the second's counted after the first's."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(lanes)} x i32> <{mask}>"
        return self.code.value(self.code.let(text), a.kind, len(lanes))

    def total(self, x: V) -> V:
        """The sum of a vector's lanes, halves first."""
        while x.lanes > 2:
            half = x.lanes // 2
            x = self.pick(x, x, range(half)) + self.pick(x, x, range(half, x.lanes))
        return self.lane(x, 0) + self.lane(x, 1) if x.lanes == 2 else x

    def totals(self, vectors: Sequence[V]) -> V:
        """The sums of several vectors' lanes, side by side: neighbours are added, then theirs.

        There are as many vectors as lanes.
        """
        many = list(vectors)
        lanes = many[0].lanes
        while len(many) > 1:
            many = [
                self.pick(a, b, range(0, 2 * lanes, 2)) + self.pick(a, b, range(1, 2 * lanes, 2))
                for a, b in zip(many[::2], many[1::2], strict=True)
            ]
        return many[0]

    def transposed(self, rows: Sequence[V]) -> list[V]:
        """The columns of a square of as many vectors as they have lanes."""
        lanes, many, apart = len(rows), list(rows), 1
        while apart < lanes:
            # Squares of `apart` lanes change places across the diagonal of those twice as large.
            lower_lanes = [lane - lane % (2 * apart) + lane % apart for lane in range(lanes)]
            upper = [k + (lanes if lane // apart % 2 else 0) for lane, k in enumerate(lower_lanes)]
            lower = [k + apart for k in upper]
            columns = dict(enumerate(many))
            for i in range(lanes):
                if not i & apart:
                    a, b = many[i], many[i + apart]
                    columns[i], columns[i + apart] = self.pick(a, b, upper), self.pick(a, b, lower)
            many = [columns[i] for i in range(lanes)]
            apart *= 2
        return many

    # -- control --------------------------------------------------------------------------------

    def loop(
        self,
        start: Operand,
        stop: V,
        body: Callable[..., Sequence[V] | None],
        carried: Sequence[V] = (),
        step: int = 1,
    ) -> list[V]:
        """`for i in range(start, stop, step)`; `body(i, *carried)` gives what is carried on."""
        first = start.ref if isinstance(start, V) else str(start)

        def turn(index: str, values: list[V]) -> Sequence[V]:
            return body(self.code.value(index, "i64", 1), *values) or ()

        return self.blocks.loop(first, stop.ref, step, carried, turn)

    def loop_by(self, start: V, stop: V, step: V, body: Callable[[V], None]) -> None:
        """`for i in range(start, stop, step)` with a step that is a word."""
        turns = self.most(stop - start + (step - 1), 0).quotient(step)
        self.loop(0, turns, lambda number: body(start + number * step))

    def repeat(
        self,
        carried: Sequence[V],
        test: Callable[..., V],
        body: Callable[..., Sequence[V]],
    ) -> list[V]:
        """`while test(*carried): carried = body(*carried)`; what is carried in the end."""
        blocks, code = self.blocks, self.code
        ask, inside, after = (blocks.label(stem) for stem in ("ask", "turn", "left"))
        before = code.block
        blocks.go(ask)
        blocks.begin(ask)
        at = len(code.lines)
        code.lines += [""] * len(carried)  # the phis
        values = [V(code, f"%w{ask}_{k}", c.kind, c.lanes) for k, c in enumerate(carried)]
        condition = test(*values)
        blocks.branch(condition.ref, inside, after)
        blocks.begin(inside)
        new = body(*values)
        blocks.go(ask)
        for k, (c, h, n) in enumerate(zip(carried, values, new, strict=True)):
            code.lines[at + k] = (
                f"{h.ref} = phi {h.type} [ {c.ref}, %{before} ], [ {n.ref}, %{code.block} ]"
            )
        blocks.begin(after)
        return values

    def when(self, condition: V, body: Callable[[], object]) -> None:
        """Run `body` if the condition holds."""
        self.blocks.when(condition.ref, body)

    def either(self, condition: V, body: Callable[[], object], other: Callable[[], object]) -> None:
        """Run one of two."""
        self.when(condition, body)
        self.when(~condition, other)

    def choose(
        self, condition: V, yes: Callable[[], Sequence[V]], no: Callable[[], Sequence[V]]
    ) -> list[V]:
        """The values of one of two branches."""
        return self.blocks.choose(condition, yes, no)

    def routine(
        self,
        name: str,
        count: int,
        body: Callable[[CodeWriter, list[V]], None],
        *,
        as_written: bool = False,
    ) -> None:
        """A function of so many numbers, beside this one, that `call` calls.

        Modules hold it once, however many of their functions call it: its text is the same for all.
        """
        inner = CodeWriter(as_written=as_written)
        body(inner, [inner.code.value(f"%n{k}", "i64", 1) for k in range(count)])
        parameters = ", ".join(f"i64 %n{k}" for k in range(count))
        self.code.declarations |= inner.code.declarations
        self.code.declarations.add(inner.defined(f"internal void @{name}({parameters})"))

    def call(self, name: str, numbers: Sequence[V]) -> None:
        """Call a routine."""
        given = ", ".join(f"i64 {x.ref}" for x in numbers)
        self.code.lines.append(f"call void @{name}({given})")

    def defined(self, head: str) -> str:
        """The text of a function."""
        body = "\n".join([*self.reserved, *self.code.lines])
        return f"define {head} {{\nentry:\n{body}\nret void\n}}\n"

    def finish(self, name: str) -> Text:
        """The function, and the declarations it needs."""
        text = self.defined(f"void @{name}(ptr %args, i64 %worker, i64 %workers)")
        return text, set(self.code.declarations)
