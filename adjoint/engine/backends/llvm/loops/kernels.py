"""Kernels of the loop IR as LLVM text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.llvm.ir.machine import host_features, machine
from adjoint.engine.backends.llvm.ir.piece_walks import pieces_text, turns_text
from adjoint.engine.backends.llvm.loops.access import Access
from adjoint.engine.backends.llvm.loops.column_sums import ColumnSums, sums_columns
from adjoint.engine.backends.llvm.loops.nests import Env, LaneScope, LoopNest
from adjoint.engine.backends.llvm.loops.pieces import (
    CHUNK,
    CHUNKS,
    FEW_LANES,
    SIZES,
    lanes_of,
    last_lanes,
    words_of,
)
from adjoint.engine.backends.llvm.loops.signs import never_positive
from adjoint.engine.backends.llvm.loops.turning import copy_rows, square_count
from adjoint.engine.backends.registers.elementwise import round_result, round_to
from adjoint.engine.backends.registers.math.exponential import exp_of_negative
from adjoint.engine.backends.registers.operations import KIND, combine, lower, random_sample
from adjoint.engine.backends.registers.vector import Code, V, select, width
from adjoint.engine.compiler.loops.ir import (
    HOST,
    INDEX,
    LOAD,
    POINT,
    REDUCE,
    SEVERAL,
    SHORT,
    WHOLE,
    Form,
)
from adjoint.engine.core.dtype import named


class LoopEmitter:
    """Writes the function of one form."""

    def __init__(self, form: Form, name: str) -> None:
        self.form = form
        self.name = name
        self.code = Code(features=host_features())
        # Left as they are: Note [loops as written].
        self.blocks = Blocks(self.code, as_written=machine().indexes)
        self.last = last_lanes(form)
        few = {SHORT: self.last or 1, SEVERAL: self.last or FEW_LANES}
        self.lanes = few.get(form.spans) or lanes_of(form)
        self.size: list[str] = []
        self.head: list[str] = []  # goes before everything else
        self.vector = form.outer + form.inner - 1 if form.rows else form.outer - 1
        self.access = Access(form, self.code, self.blocks, self.vector)

    def text(self) -> str:
        """The functions; what else they need is in `self.code.declarations`."""
        length = self.pieces()
        lines = "\n".join([*self.head, *self.code.lines])
        self.code.declarations.add(turns_text() if self.form.in_turns else pieces_text())
        walk = "turns" if self.form.in_turns else "pieces"
        return (
            f"define internal void @{self.name}_pieces(ptr %block, i64 %start, i64 %stop) {{\n"
            f"entry:\n{lines}\nret void\n}}\n"
            f"define void @{self.name}(ptr %args, i64 %worker, i64 %workers) {{\n"
            f"call void @{walk}(ptr %args, i64 %worker, i64 %workers, ptr @{self.name}_pieces, "
            f"i64 {length})\nret void\n}}\n"
        )

    # -- the frame ------------------------------------------------------------------------------

    def fetch(self, index: int) -> str:
        """A word of the instance."""
        let = self.code.let
        return let(f"load i64, ptr {let(f'getelementptr i64, ptr %block, i64 {index}')}")

    def pieces(self) -> int:
        """The loop over pieces of one instance; returns how many words an instance has."""
        form, words = self.form, words_of(self.form)
        if not form.rows and form.outer:
            self.chunk = self.fetch(CHUNK)
            self.chunks = self.fetch(CHUNKS) if form.outer > 1 else ""
        # The outermost size of what is not chunked is never asked for, but as a number of rows.
        first = 0 if form.inner or form.outer < 2 or form.tiled else 1
        dims = form.outer + form.inner
        self.size = [self.fetch(SIZES + d) if d >= first else "" for d in range(dims)]
        base = SIZES + dims
        self.access.word = {w: self.fetch(base + k) for k, w in enumerate(words)}
        digits = self.digits()
        start = self.decode("%start", digits)

        def turn(p: str, now: list[V]) -> list[V]:
            self.piece(dict(zip(digits, [x.ref for x in now] or [p], strict=False)))
            return self.following(now, digits)

        self.blocks.loop("%start", "%stop", 1, start, turn)
        return base + len(words)

    def digits(self) -> dict[int, str]:
        """What tells pieces apart, the quickest to change first: dimensions, and their sizes.

        That of vectors stands for the chunk. Nobody asks how large the last one is.
        """
        form = self.form
        if form.rows or not form.outer:
            return {d: self.size[d] for d in reversed(range(form.outer))}
        lead = form.outer - 1
        before = {d: self.size[d] for d in reversed(range(lead))}
        if not lead:
            return {lead: ""}
        if not form.tiled:
            return {lead: self.chunks} | before
        row = before.pop(lead - 1)  # Note [tiled pieces]
        if form.turned:
            row = square_count(self, lead - 1)
        return {lead - 1: row, lead: self.chunks} | before

    def decode(self, p: str, digits: dict[int, str]) -> list[V]:
        """The digits of a piece's number; nothing where there is one, which is the number."""
        let = self.code.let
        found = []
        if len(digits) < 2:
            return []
        for size in [*digits.values()][:-1]:
            found.append(self.code.value(let(f"urem i64 {p}, {size}"), "i64", 1))
            p = let(f"udiv i64 {p}, {size}")
        return [*found, self.code.value(p, "i64", 1)]

    def following(self, now: list[V], digits: dict[int, str]) -> list[V]:
        """The digits of the next piece, counted: divisions take longer than to copy a short row."""
        let = self.code.let
        after: list[V] = []
        carry = "1"
        for digit, size in zip(now, digits.values(), strict=False):
            more = let(f"add i64 {digit.ref}, {carry}")
            if len(after) + 1 < len(now):
                full = let(f"icmp eq i64 {more}, {size}")
                more = let(f"select i1 {full}, i64 0, i64 {more}")
                carry = let(f"zext i1 {full} to i64")
            after.append(self.code.value(more, "i64", 1))
        return after

    def piece(self, where: dict[int, str]) -> None:
        """One piece: a row, or a chunk of columns of one combination of the other dimensions."""
        form, let = self.form, self.code.let
        chunked = not form.rows and form.outer > 0
        part = where.pop(self.vector) if chunked else ""
        if form.turned:
            start = let(f"mul i64 {part}, {self.chunk}")
            copy_rows(self, where, start, self.end_of_chunk(start))
            return
        self.access.base = {r: self.access.address(r, where) for r in range(len(form.refs))}
        if not chunked:
            self.run({}, 1, {})
            return
        start = let(f"mul i64 {part}, {self.chunk}")
        stop = self.end_of_chunk(start)
        shared = self.shared()
        middle = stop
        if form.spans != WHOLE:
            whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-self.lanes}")
            middle = let(f"add i64 {start}, {whole}")

        if sums_columns(form):
            columns = ColumnSums(self, lambda lanes: LaneScope(shared, lanes))
            self.head += columns.memory()
            columns.strip(start, middle, stop)
            return

        def across(lanes: int) -> Callable[[str, list[V]], list[V]]:
            def body(i: str, _: list[V]) -> list[V]:
                self.run(LaneScope(shared, lanes), lanes, {self.vector: i})
                return []

            return body

        def masked(i: str, _: list[V]) -> list[V]:
            with self.among_last(i, stop):
                return across(self.last)(i, [])

        if self.lanes > 1 and not (self.last and form.spans in (SHORT, SEVERAL)):
            self.blocks.loop(start, middle, self.lanes, (), across(self.lanes))
            start = middle
        if self.last and form.spans != WHOLE:
            self.blocks.loop(start, stop, self.last, (), masked)
        elif self.lanes == 1 or form.spans != WHOLE:
            self.blocks.loop(start, stop, 1, (), across(1))

    @contextmanager
    def among_last(self, i: str, stop: str) -> Iterator[V]:
        """What is written meanwhile is of lanes from i on that there are (Note [last lanes])."""
        let, lanes = self.code.let, self.last
        left = self.code.value(let(f"sub i64 {stop}, {i}"), "i64", 1).convert("i32")
        mask = self.code.iota("i32", lanes) < self.code.splat(left, lanes)
        self.access.mask = mask
        yield mask
        self.access.mask = None

    def end_of_chunk(self, start: str) -> str:
        """Where a chunk of the vector dimension ends."""
        let, size = self.code.let, self.size[self.vector]
        stop = let(f"add i64 {start}, {self.chunk}")
        return let(f"select i1 {let(f'icmp slt i64 {stop}, {size}')}, i64 {stop}, i64 {size}")

    def shared(self) -> Env:
        """Loads that are the same for all columns of a chunk."""
        env: Env = {}
        for k, op in enumerate(self.form.ops):
            if op.kind == LOAD and not op.full and len(op.args) == 1:
                r = op.args[0][1]
                if self.form.refs[r][1][self.vector] == 0:
                    env[k] = self.access.load(r, {}, 1)
        return env

    def uniform(self, k: int) -> bool:
        """Whether a value is the same in all lanes."""
        if self.vector < 0:
            return True
        op = self.form.ops[k]
        if op.kind == HOST or op.kind == REDUCE:
            return op.kind == HOST or self.form.rows
        if op.kind in (LOAD, INDEX) and self.form.refs[op.args[0][1]][1][self.vector]:
            return False
        return all(kind != "v" or self.uniform(x) for kind, x in op.args)

    def picked(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """A load at a place that indices decide."""
        op = self.form.ops[k]
        uniform = all(kind != "v" or self.uniform(x) for kind, x in op.args[1:])
        indices = []
        for kind, x in op.args[1:]:
            if kind != "v":
                indices.append(self.code.const(x, "i64", 1 if uniform else lanes))
            elif uniform and lanes > 1:
                indices.append(self.get(x, {}, 1, where, stage))
            else:
                indices.append(self.get(x, env, lanes, where, stage))
        return self.access.load_picked(k, indices, lanes, where, uniform)

    # -- the body -------------------------------------------------------------------------------

    def run(self, env: Env, lanes: int, where: dict[int, str]) -> None:
        """All loop nests and stores at one outer place; `lanes` is the width of outer values."""
        form = self.form
        stages = 1 + max((op.stage for op in form.ops), default=0)
        for stage in range(stages):
            stored = [
                (v, r) for v, r in form.stores if form.ops[v].full and form.ops[v].stage == stage
            ]
            reductions = [
                k for k, op in enumerate(form.ops) if op.kind == REDUCE and op.stage == stage
            ]
            if stored or reductions:
                for k in self.wanted(stage):  # what is outer is computed before the loops
                    self.get(k, env, lanes, where, stage)
                LoopNest(self, env, lanes, stage, stored, reductions).write(where)
        # All values, then all stores: one may take the memory of another's operand
        # (Note [in place], compiler.memory).
        outer = [(v, r) for v, r in form.stores if not form.ops[v].full]
        values = [self.get(v, env, lanes, where, stages) for v, _ in outer]
        for (_, r), value in zip(outer, values, strict=True):
            self.access.store(r, where, value)

    def turn(
        self,
        env: Env,
        here: dict[int, str],
        width: int,
        stage: int,
        stored: list[tuple[int, int]],
        reductions: list[int],
        totals: list[V],
    ) -> list[V]:
        """What happens at one place of a loop nest; returns the new totals."""
        mask = self.access.mask
        inside = LaneScope(env, width)
        # All values, then all stores: one may be written over a kept value that another needs
        # (Note [kept values], compiler.loops.schedule).
        values = [self.get(v, inside, width, here, stage) for v, _ in stored]
        result = []
        for k, total in zip(reductions, totals, strict=True):
            kind, x = self.form.ops[k].args[0]
            value = (
                self.get(x, inside, width, here, stage)
                if kind == "v"
                else self.code.const(x, total.kind, width)
            )
            new = combine(self.form.ops[k].name, total, value.convert(total.kind))
            result.append(new if mask is None else select(mask, new, total))
        for (_, r), value in zip(stored, values, strict=True):
            self.access.store(r, here, value)
        return result

    def reduced(self, k: int, total: V) -> V:
        """A reduction's result from its total."""
        op = self.form.ops[k]
        return rounded(total.convert(KIND[op.dtype][0]), op.dtype)

    def wanted(self, stage: int) -> list[int]:
        """Outer values that operations of this stage's loops read."""
        form = self.form
        result = []
        for op in form.ops:
            if (op.full or op.kind == REDUCE) and op.stage <= stage:
                for kind, x in op.args:
                    if kind == "v" and not form.ops[x].full and self.ready(x, stage):
                        result.append(x)
        return result

    def ready(self, k: int, stage: int) -> bool:
        op = self.form.ops[k]
        return op.stage < stage if op.kind == REDUCE else op.stage <= stage

    def get(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """The value of an operation here, computed once per environment."""
        known = env.get(k)
        if known is not None:
            return known
        op, code = self.form.ops[k], self.code
        if op.full and op.kind == POINT and op.stage < stage:
            for v, r in self.form.stores:  # written by an earlier loop nest
                if v == k:
                    env[k] = self.access.load(r, where, lanes)
                    return env[k]
        match op.kind:
            case "load" if len(op.args) > 1:
                value = self.picked(k, env, lanes, where, stage)
            case "load":
                value = self.access.load(op.args[0][1], where, lanes)
            case "host":
                kind = KIND[op.dtype][0]
                word = code.value(self.access.word["host", op.args[0][1], -1], "i64", 1)
                value = code.splat(_from_word(word, kind), lanes)
            case "index":
                value = self.access.coordinate(op.args[0][1], where, lanes, KIND[op.dtype][0])
            case _ if op.name == "require":
                value = self.required(k, env, lanes, where, stage)
            case _ if op.name == "scatter":
                value = self.scatter(k, env, lanes, where, stage)
            case _:
                operands: list[Any] = []
                for kind, x in op.args:
                    operands.append(self.get(x, env, lanes, where, stage) if kind == "v" else x)
                if op.name == "random":
                    first = self.first_of_block(op, where, lanes)
                    value = random_sample(code, op, operands, lanes, first)
                elif op.name == "exp" and never_positive(self.form.ops, op.args[0]):
                    x = code.splat(operands[0].convert(KIND[op.compute][0]), lanes)
                    value = rounded(exp_of_negative(x).convert(KIND[op.dtype][0]), op.dtype)
                else:
                    value = lower(code, op, operands, lanes)
                    name = "" if op.params else op.name  # a bound may be among them
                    value = round_result(name, value, operands, named(op.dtype))
                for j, (bad, _) in enumerate(code.faults):
                    self.access.report(bad, k, j)
                code.faults.clear()
        env[k] = value
        return value

    def first_of_block(self, op: Any, where: dict[int, str], lanes: int) -> V | None:
        """The first index of the lanes, where they are neighbours that begin a block of words."""
        r = self.form.ops[op.args[2][1]].args[0][1]
        classes = self.form.refs[r][1]
        if lanes < 4 or self.form.inner or self.form.outer != 1 or classes[0] != 1:
            return None
        return self.access.coordinate(r, where, 1)

    def required(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """x itself, after a report where its condition does not hold."""
        x, condition = (
            self.get(a, env, lanes, where, stage) if tag == "v" else self.code.const(a, "i1", lanes)
            for tag, a in self.form.ops[k].args
        )
        self.access.report(~condition.convert("i1"), k, 0, None if x.is_float else x)
        return x

    def scatter(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """x, or y at the one place of its line that an index names."""
        op, code = self.form.ops[k], self.code
        params = dict(op.params)
        kind = KIND[op.dtype][0]
        given = [
            self.get(a, env, lanes, where, stage) if tag == "v" else a for tag, a in op.args[:2]
        ]
        x, y = (a.convert(kind) if isinstance(a, V) else code.const(a, kind, lanes) for a in given)
        if params["accumulate"]:
            new = x + y if kind != "i1" else x | y
            return rounded(select(self.chosen(k, env, lanes, where, stage), new, x), op.dtype)
        out = select(self.chosen(k, env, lanes, where, stage), y, x)
        return round_result("where", out, [out, *given], named(op.dtype))

    def chosen(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """In which lanes the place is that the index of a scatter names."""
        op, code = self.form.ops[k], self.code
        (tag, index), (_, here) = op.args[2:]
        r = self.form.ops[here].args[0][1]
        neighbours = lanes > 1 and self.vector in where and self.form.refs[r][1][self.vector] == 1
        # One index for all lanes, which are neighbours: how far it is from the first of them is
        # computed in one lane, and fits into lanes as narrow as what is written.
        narrow = neighbours and tag == "v" and self.uniform(index)
        wanted = env.single(index) if narrow and isinstance(env, LaneScope) else None
        if wanted is None and tag == "v":
            wanted = self.get(index, {} if narrow else env, 1 if narrow else lanes, where, stage)
        wanted = (wanted or code.const(index, "i64", lanes)).convert("i64")
        self.access.in_bounds(wanted, self.access.word["extent", k, 0], k, 0, wrap=False)
        if not narrow:
            return wanted.eq(self.get(here, env, lanes, where, stage))
        away = (wanted - self.access.coordinate(r, where, 1)).bitcast("u64")
        small = f"u{max(8, width(KIND[op.dtype][0]))}"
        return code.splat(select(away < lanes, away, lanes).convert(small), lanes).eq(
            code.iota(small, lanes)
        )


def rounded(x: V, dtype: str) -> V:
    """A float32 that stands for a half, rounded to it."""
    return round_to(x, named(dtype))


def _from_word(word: V, kind: str) -> V:
    if kind == "f64":
        return word.bitcast("f64")
    return word.bitcast("f64").convert(kind) if kind == "f32" else word.convert(kind)


def emit(form: Form, name: str) -> tuple[str, set[str]]:
    """The function of a form and the declarations it needs."""
    emitter = LoopEmitter(form, name)
    return emitter.text(), emitter.code.declarations
