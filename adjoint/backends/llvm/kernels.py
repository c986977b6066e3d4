"""Kernels of the loop IR as LLVM text.

Note [kernel words]
    A kernel is called as kernel(args, worker, workers). `args` points to 64-bit words: the number
    of instances, the number of pieces of all instances together, then a block per instance:
        first piece | pieces | chunk | chunks | outer sizes | inner sizes
        | for each reference its address and the strides that are neither 0 nor, along the vector
          dimension, 1, and for dimensions picked by values their strides and sizes
        | where indices are checked, the address of the status and a code per check
        | host numbers
    Work is dealt out in pieces; worker w of n does the pieces from total * w // n to
    total * (w + 1) // n, so which worker does a piece never changes what it computes.

Note [sums]
    Rounding errors of a long sum grow with its length. Sums run in blocks of BLOCK turns whose
    totals are added up, over several lanes at a time: the error of n terms is that of about
    BLOCK + n / (BLOCK * lanes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.backends.llvm.blocks import Blocks
from adjoint.backends.llvm.columns import Columns, sums_columns
from adjoint.backends.llvm.elementwise import from_memory, round_to, to_memory
from adjoint.backends.llvm.operations import KIND, combine, identity, lower, random_sample
from adjoint.backends.llvm.vector import Code, V, any_of, host_features, select, type_text
from adjoint.backends.loops import HOST, INDEX, LOAD, POINT, REDUCE, SHORT, WHOLE, Form
from adjoint.core.dtype import named

FIRST, PIECES, CHUNK, CHUNKS, SIZES = range(5)
BLOCK = 64  # turns of a loop whose sum is taken apart
Env = dict[int, V]
Turn = Callable[[str, list[V]], list[V]]


class Scope(Env):
    """Values inside a loop: those from outside are spread over the lanes when asked for."""

    def __init__(self, outside: Env, lanes: int) -> None:
        super().__init__()
        self.outside = outside
        self.lanes = lanes

    def get(self, k: int, default: Any = None) -> Any:
        """A value, made here or outside."""
        found = super().get(k)
        if found is None:
            found = self.outside.get(k)
            if found is None:
                return default
            found = self[k] = found.code.splat(found, self.lanes)
        return found


def words_of(form: Form) -> list[tuple[str, int, int]]:
    """The words of an instance after its sizes: ("address", ref, -1), ("stride", ref, dim), ..."""
    words: list[tuple[str, int, int]] = []
    picked = {op.args[0][1]: len(op.args) - 1 for op in form.ops if op.kind == LOAD}
    for r, (_, classes) in enumerate(form.refs):
        words.append(("address", r, -1))
        words += [("stride", r, d) for d, c in enumerate(classes) if c == 2]
        for j in range(picked.get(r, 0)):
            words += [("pick", r, j), ("limit", r, j)]
    words += [("extent", k, 0) for k, op in enumerate(form.ops) if op.name == "scatter"]
    checks = form.checks()
    if checks:
        words.append(("status", 0, -1))
        words += [("fault", k, j) for k, j in checks]
    words += [("host", h, -1) for h in range(len(form.hosts))]
    return words


def lanes_of(form: Form) -> int:
    """How many elements at a time: a few registers' worth, few where elements are scattered."""
    last = form.outer + form.inner - 1 if form.rows else form.outer - 1
    if last < 0:
        return 1
    if any(classes[last] == 2 and name != "index" for name, classes in form.refs):
        return 4
    wide = ("float64", "int64")
    # What reduces columns reads a little of every row: take much of it at a time.
    if form.inner and not form.rows and len(form.ops) <= 4 and not sums_columns(form):
        return 16 if any(op.dtype in wide for op in form.ops) else 32
    return 8 if any(op.dtype in wide or op.compute in wide for op in form.ops) else 16


@cache
def pieces_text() -> str:
    """What kernels share: a worker's part of all pieces, instance by instance."""
    code = Code()
    let, blocks = code.let, Blocks(code)

    def fetch(block: str, index: int) -> str:
        return let(f"load i64, ptr {let(f'getelementptr i64, ptr {block}, i64 {index}')}")

    def clamp(x: str, most: str) -> str:
        x = let(f"select i1 {let(f'icmp slt i64 {x}, 0')}, i64 0, i64 {x}")
        return let(f"select i1 {let(f'icmp slt i64 {x}, {most}')}, i64 {x}, i64 {most}")

    count, total = fetch("%args", 0), fetch("%args", 1)
    low = let(f"udiv i64 {let(f'mul i64 {total}, %worker')}, %workers")
    following = let("add i64 %worker, 1")
    high = let(f"udiv i64 {let(f'mul i64 {total}, {following}')}, %workers")

    def instance(j: str, _: list[V]) -> list[V]:
        at = let(f"add i64 {let(f'mul i64 {j}, %length')}, 2")
        block = let(f"getelementptr i64, ptr %args, i64 {at}")
        first, pieces = fetch(block, FIRST), fetch(block, PIECES)
        start = clamp(let(f"sub i64 {low}, {first}"), pieces)
        stop = clamp(let(f"sub i64 {high}, {first}"), pieces)
        call = f"call void %kernel(ptr {block}, i64 {start}, i64 {stop})"
        blocks.when(let(f"icmp slt i64 {start}, {stop}"), lambda: code.lines.append(call))
        return []

    blocks.loop("0", count, 1, (), instance)
    body = "\n".join(code.lines)
    return (
        "define internal void @pieces(ptr %args, i64 %worker, i64 %workers, ptr %kernel, "
        f"i64 %length) noinline {{\nentry:\n{body}\nret void\n}}\n"
    )


class Emitter:
    """Writes the function of one form."""

    def __init__(self, form: Form, name: str) -> None:
        self.form = form
        self.name = name
        self.code = Code(features=host_features())
        self.blocks = Blocks(self.code)
        self.lanes = 1 if form.spans == SHORT else lanes_of(form)
        self.word: dict[tuple[str, int, int], str] = {}
        self.size: list[str] = []
        self.base: dict[int, str] = {}
        self.head: list[str] = []  # goes before everything else
        self.vector = form.outer + form.inner - 1 if form.rows else form.outer - 1

    def text(self) -> str:
        """The functions; what else they need is in `self.code.declarations`."""
        length = self.pieces()
        lines = "\n".join([*self.head, *self.code.lines])
        self.code.declarations.add(pieces_text())
        return (
            f"define internal void @{self.name}_pieces(ptr %block, i64 %start, i64 %stop) {{\n"
            f"entry:\n{lines}\nret void\n}}\n"
            f"define void @{self.name}(ptr %args, i64 %worker, i64 %workers) {{\n"
            f"call void @pieces(ptr %args, i64 %worker, i64 %workers, ptr @{self.name}_pieces, "
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
        # The outermost size of what is not chunked is never asked for.
        first = 0 if form.inner or form.outer < 2 else 1
        dims = form.outer + form.inner
        self.size = [self.fetch(SIZES + d) if d >= first else "" for d in range(dims)]
        base = SIZES + dims
        self.word = {w: self.fetch(base + k) for k, w in enumerate(words)}
        self.blocks.loop("%start", "%stop", 1, (), lambda p, _: self.piece(p))
        return base + len(words)

    def piece(self, p: str) -> list[V]:
        """One piece: a row, or a chunk of columns of one combination of the other dimensions."""
        form, let = self.form, self.code.let
        lead = form.outer if form.rows or form.outer == 0 else form.outer - 1
        chunked = not form.rows and form.outer > 0
        if chunked and lead:
            part = let(f"urem i64 {p}, {self.chunks}")
            p = let(f"udiv i64 {p}, {self.chunks}")
        elif chunked:
            part = p
        where = self.decode(p, lead)
        self.base = {r: self.address(r, where) for r in range(len(form.refs))}
        if not chunked:
            self.run({}, 1, {})
            return []
        start = let(f"mul i64 {part}, {self.chunk}")
        stop = let(f"add i64 {start}, {self.chunk}")
        size = self.size[self.vector]
        stop = let(f"select i1 {let(f'icmp slt i64 {stop}, {size}')}, i64 {stop}, i64 {size}")
        shared = self.shared()
        middle = stop
        if form.spans != WHOLE:
            whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-self.lanes}")
            middle = let(f"add i64 {start}, {whole}")

        if sums_columns(form):
            columns = Columns(self, lambda lanes: Scope(shared, lanes))
            self.head += columns.memory()
            columns.strip(start, middle, stop)
            return []

        def across(lanes: int) -> Callable[[str, list[V]], list[V]]:
            def body(i: str, _: list[V]) -> list[V]:
                self.run(Scope(shared, lanes), lanes, {self.vector: i})
                return []

            return body

        if self.lanes > 1:
            self.blocks.loop(start, middle, self.lanes, (), across(self.lanes))
            start = middle
        if self.lanes == 1 or form.spans != WHOLE:
            self.blocks.loop(start, stop, 1, (), across(1))
        return []

    def decode(self, p: str, lead: int) -> dict[int, str]:
        """The indices of the leading dimensions from the number of their combination."""
        let = self.code.let
        where: dict[int, str] = {}
        for d in reversed(range(lead)):
            if d == 0:
                where[d] = p
            else:
                where[d] = let(f"urem i64 {p}, {self.size[d]}")
                p = let(f"udiv i64 {p}, {self.size[d]}")
        return where

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

    def shared(self) -> Env:
        """Loads that are the same for all columns of a chunk."""
        env: Env = {}
        for k, op in enumerate(self.form.ops):
            if op.kind == LOAD and not op.full and len(op.args) == 1:
                r = op.args[0][1]
                if self.form.refs[r][1][self.vector] == 0:
                    env[k] = self.load(r, {}, 1)
        return env

    # -- loads and stores -----------------------------------------------------------------------

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
        name, classes = self.form.refs[r]
        kind = KIND[name][1]
        across = classes[self.vector] if self.vector >= 0 and self.vector in where else 0
        at = self.pointer(r, where)
        align = self.alignment(name)
        code = self.code
        if lanes == 1 or across == 0:
            one = code.value(
                code.let(f"load {type_text(kind, 1)}, ptr {at}, align {align}"), kind, 1
            )
            return code.splat(widen(one, name), lanes)
        if across == 1:
            wide = type_text(kind, lanes)
            found = code.value(code.let(f"load {wide}, ptr {at}, align {align}"), kind, lanes)
            return widen(found, name)
        wide = type_text(kind, lanes)
        ref = "poison"
        element = type_text(kind, 1)
        for k in range(lanes):
            step = code.let(f"mul i64 {self.word['stride', r, self.vector]}, {k}")
            here = code.let(f"getelementptr {element}, ptr {at}, i64 {step}")
            one_ref = code.let(f"load {element}, ptr {here}, align {align}")
            ref = code.let(f"insertelement {wide} {ref}, {element} {one_ref}, i64 {k}")
        return widen(code.value(ref, kind, lanes), name)

    def load_picked(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """A load at a place that indices decide."""
        op, code = self.form.ops[k], self.code
        r = op.args[0][1]
        name, classes = self.form.refs[r]
        uniform = all(kind != "v" or self.uniform(x) for kind, x in op.args[1:])
        width = 1 if uniform else lanes
        shift: V | None = None
        for j, (kind, x) in enumerate(op.args[1:]):
            if kind != "v":
                index = code.const(x, "i64", width)
            elif uniform and lanes > 1:
                index = self.get(x, {}, 1, where, stage)
            else:
                index = self.get(x, env, lanes, where, stage)
            index = self.in_bounds(
                index.convert("i64"), self.word["limit", r, j], k, j, bool(op.params)
            )
            step = code.splat(code.value(self.word["pick", r, j], "i64", 1), width)
            shift = index * step if shift is None else shift + index * step
        assert shift is not None
        element = type_text(KIND[name][1], 1)
        if uniform:
            base = self.base[r]
            self.base[r] = code.let(f"getelementptr {element}, ptr {base}, i64 {shift.ref}")
            value = self.load(r, where, lanes)
            self.base[r] = base
            return value
        kind, align = KIND[name][1], self.alignment(name)
        at = self.pointer(r, where)
        ref, wide = "poison", type_text(kind, lanes)
        across = classes[self.vector] if self.vector >= 0 and self.vector in where else 0
        if across:
            stride = "1" if across == 1 else self.word["stride", r, self.vector]
            shift = shift + code.iota("i64", lanes) * code.splat(
                code.value(stride, "i64", 1), lanes
            )
        if lanes == 1:
            here = code.let(f"getelementptr {element}, ptr {at}, i64 {shift.ref}")
            ref = code.let(f"load {element}, ptr {here}, align {align}")
            return widen(code.value(ref, kind, 1), name)
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
        if wrap:
            index = select(index < 0, index + size, index)
        bad = index.bitcast("u64") >= size.bitcast("u64")
        self.report(bad, k, j)
        return select(bad, 0, index)

    def report(self, bad: V, k: int, j: int) -> None:
        """Note [faults]: a kernel that finds an error in a lane says so in the status, and goes on.

        The driver stops at the next barrier; memory it wrote meanwhile is the program's own.
        """
        code, let = self.code, self.code.let

        def store() -> None:
            at = let(f"inttoptr i64 {self.word['status', 0, -1]} to ptr")
            code.lines.append(
                f"store atomic i64 {self.word['fault', k, j]}, ptr {at} monotonic, align 8"
            )

        self.blocks.when(any_of(bad).ref, store)

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

    @staticmethod
    def alignment(dtype: str) -> int:
        return {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "u16": 2, "i16": 2}.get(KIND[dtype][1], 1)

    def store(self, r: int, where: dict[int, str], value: V) -> None:
        name, classes = self.form.refs[r]
        kind = KIND[name][1]
        value = narrow(value, name)
        at = self.pointer(r, where)
        align = self.alignment(name)
        lines, let = self.code.lines, self.code.let
        if value.lanes == 1 or classes[self.vector] == 1:
            lines.append(f"store {value.type} {value.ref}, ptr {at}, align {align}")
            return
        if classes[self.vector] == 0:  # only where there are no elements: the loop never runs
            return
        element = type_text(kind, 1)
        for k in range(value.lanes):
            step = let(f"mul i64 {self.word['stride', r, self.vector]}, {k}")
            here = let(f"getelementptr {element}, ptr {at}, i64 {step}")
            one = let(f"extractelement {value.type} {value.ref}, i64 {k}")
            lines.append(f"store {element} {one}, ptr {here}, align {align}")

    def coordinate(self, r: int, where: dict[int, str], lanes: int) -> V:
        """The value of a reference without a buffer."""
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
                step = code.splat(code.value(stride, "i64", 1), lanes)
                across = code.iota("i64", lanes) * step
        value = code.splat(code.value(at, "i64", 1), lanes)
        return value if across is None else value + across

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
                self.nest(env, lanes, where, stage, stored, reductions)
        for v, r in form.stores:
            if not form.ops[v].full:
                self.store(r, where, self.get(v, env, lanes, where, stages))

    def nest(
        self,
        env: Env,
        lanes: int,
        where: dict[int, str],
        stage: int,
        stored: list[tuple[int, int]],
        reductions: list[int],
    ) -> None:
        """One loop nest over the inner dimensions."""
        form, code = self.form, self.code
        for k in self.wanted(stage):  # what is outer is computed before the loops
            self.get(k, env, lanes, where, stage)
        ops = [form.ops[k] for k in reductions]
        kinds = [KIND[op.compute][0] for op in ops]
        split = form.rows and self.lanes > 1
        start = [identity(code, op.name, kind, lanes) for op, kind in zip(ops, kinds, strict=True)]
        if split:
            start += [
                identity(code, op.name, kind, self.lanes)
                for op, kind in zip(ops, kinds, strict=True)
            ]

        def body(here: dict[int, str], width: int, totals: list[V]) -> list[V]:
            return self.turn(env, here, width, stage, stored, reductions, totals)

        def run(start: str, stop: str, step: int, totals: list[V], turn: Turn, by: bool) -> list[V]:
            """A loop; with `by`, in blocks that are summed apart (Note [sums])."""
            if not by or not any(op.name == "sum" and KIND[op.compute][0][0] == "f" for op in ops):
                return self.blocks.loop(start, stop, step, totals, turn)

            def block(i: str, sums: list[V]) -> list[V]:
                end = code.let(f"add i64 {i}, {step * BLOCK}")
                short = code.let(f"icmp slt i64 {end}, {stop}")
                end = code.let(f"select i1 {short}, i64 {end}, i64 {stop}")
                zero = [
                    identity(code, o.name, t.kind, t.lanes) for o, t in zip(ops, sums, strict=True)
                ]
                parts = self.blocks.loop(i, end, step, zero, turn)
                return [combine(o.name, t, p) for o, t, p in zip(ops, sums, parts, strict=True)]

            return self.blocks.loop(start, stop, step * BLOCK, totals, block)

        def level(d: int, here: dict[int, str], totals: list[V]) -> list[V]:
            if d == form.outer + form.inner:
                return body(here, lanes, totals)
            size = self.size[d]
            if split and d == self.vector:
                n = len(reductions)
                exact = form.spans == WHOLE
                whole = size if exact else code.let(f"and i64 {size}, {-self.lanes}")
                wide = run(
                    "0", whole, self.lanes, totals[n:],
                    lambda i, t: body({**here, d: i}, self.lanes, t), True,
                )  # fmt: skip
                one = (
                    totals[:n]
                    if exact
                    else self.blocks.loop(
                        whole, size, 1, totals[:n], lambda i, t: body({**here, d: i}, 1, t)
                    )
                )
                return one + wide
            return run(
                "0", size, 1, totals, lambda i, t: level(d + 1, {**here, d: i}, t),
                not split and d == form.outer,
            )  # fmt: skip

        totals = level(form.outer, where, start)
        for j, (k, op) in enumerate(zip(reductions, ops, strict=True)):
            total = totals[j]
            if split:
                total = combine(op.name, fold(op.name, totals[len(ops) + j]), total)
            env[k] = self.reduced(k, total)

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
        inside = Scope(env, width)
        for v, r in stored:
            self.store(r, here, self.get(v, inside, width, here, stage))
        result = []
        for k, total in zip(reductions, totals, strict=True):
            kind, x = self.form.ops[k].args[0]
            value = (
                self.get(x, inside, width, here, stage)
                if kind == "v"
                else self.code.const(x, total.kind, width)
            )
            result.append(combine(self.form.ops[k].name, total, value.convert(total.kind)))
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
        found = env.get(k)
        if found is not None:
            return found
        op, code = self.form.ops[k], self.code
        if op.full and op.kind == POINT and op.stage < stage:
            for v, r in self.form.stores:  # written by an earlier loop nest
                if v == k:
                    env[k] = self.load(r, where, lanes)
                    return env[k]
        match op.kind:
            case "load" if len(op.args) > 1:
                value = self.load_picked(k, env, lanes, where, stage)
            case "load":
                value = self.load(op.args[0][1], where, lanes)
            case "host":
                kind = KIND[op.dtype][0]
                word = code.value(self.word["host", op.args[0][1], -1], "i64", 1)
                value = code.splat(_from_word(word, kind), lanes)
            case "index":
                value = self.coordinate(op.args[0][1], where, lanes)
            case _ if op.name == "scatter":
                value = self.scatter(k, env, lanes, where, stage)
            case _:
                operands: list[Any] = []
                for kind, x in op.args:
                    operands.append(self.get(x, env, lanes, where, stage) if kind == "v" else x)
                if op.name == "random":
                    first = self.first_of_block(op, where, lanes)
                    value = random_sample(code, op, operands, lanes, first)
                else:
                    value = rounded(lower(code, op, operands, lanes), op.dtype)
                for j, (bad, _) in enumerate(code.faults):
                    self.report(bad, k, j)
                code.faults.clear()
        env[k] = value
        return value

    def first_of_block(self, op: Any, where: dict[int, str], lanes: int) -> V | None:
        """The first index of the lanes, where they are neighbours that begin a block of words."""
        r = self.form.ops[op.args[2][1]].args[0][1]
        classes = self.form.refs[r][1]
        if lanes < 4 or self.form.inner or self.form.outer != 1 or classes[0] != 1:
            return None
        return self.coordinate(r, where, 1)

    def scatter(self, k: int, env: Env, lanes: int, where: dict[int, str], stage: int) -> V:
        """x, or y at the one place of its line that an index names."""
        op, code = self.form.ops[k], self.code
        params = dict(op.params)
        kind = KIND[op.dtype][0]
        x, y, index, here = (
            self.get(a, env, lanes, where, stage) if tag == "v" else code.const(a, kind, lanes)
            for tag, a in op.args
        )
        index = index.convert("i64")
        self.in_bounds(index, self.word["extent", k, 0], k, 0, wrap=False)
        new = y.convert(kind)
        if params["accumulate"]:
            new = x + new if kind != "i1" else x | new
        return rounded(select(index.eq(here), new, x.convert(kind)), op.dtype)


def _from_word(word: V, kind: str) -> V:
    if kind == "f64":
        return word.bitcast("f64")
    return word.bitcast("f64").convert(kind) if kind == "f32" else word.convert(kind)


def widen(x: V, dtype: str) -> V:
    """What was loaded, as its kind in registers."""
    return from_memory(x, named(dtype))


def narrow(x: V, dtype: str) -> V:
    """A value as it is stored."""
    return to_memory(x, named(dtype))


def rounded(x: V, dtype: str) -> V:
    """A float32 that stands for a half, rounded to it."""
    return round_to(x, named(dtype))


def fold(name: str, x: V) -> V:
    """All lanes of a vector combined."""
    while x.lanes > 1:
        half = x.lanes // 2
        low, high = (
            V(
                x.code,
                x.code.let(
                    f"shufflevector {x.type} {x.ref}, {x.type} poison, <{half} x i32> "
                    f"<{', '.join(f'i32 {i}' for i in range(first, first + half))}>"
                )
                if half > 1
                else x.code.let(f"extractelement {x.type} {x.ref}, i64 {first}"),
                x.kind,
                half,
            )
            for first in (0, half)
        )
        x = combine(name, low, high)
    return x


def emit(form: Form, name: str) -> tuple[str, set[str]]:
    """The function of a form and the declarations it needs."""
    emitter = Emitter(form, name)
    return emitter.text(), emitter.code.declarations


__all__ = ["HOST", "INDEX", "emit", "words_of"]
