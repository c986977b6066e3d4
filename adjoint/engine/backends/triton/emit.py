"""Kernels of the loop IR as Triton text.

Note [kernel table]
    A kernel has one argument, the address of its words: addresses of what it reads and writes, the
    host's numbers, the codes of faults. They lie in the device's memory, so that a captured graph
    of launches need not change when they do. Sizes and strides are part of the text; where kernels
    of one form and several sizes are launched together they are words too, and each program finds
    those of its kernel by its second number. In eager mode, where shapes are not known beforehand,
    the size of the first dimension is a word or, if whole tiles fit, not asked for at all.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.registers.vector import V, select
from adjoint.engine.backends.triton.code import TYPES, TritonCode, memory_type
from adjoint.engine.backends.triton.functions import as_value, lower, sample
from adjoint.engine.backends.triton.loose import ONE_PLUS_TANH, loose_parts
from adjoint.engine.backends.triton.reducing import (
    alike,
    combined,
    identity,
    identity_text,
    reduce_together,
    reduced,
    total_kind,
)
from adjoint.engine.backends.triton.schedule import ONE_ROW, fills_loops
from adjoint.engine.backends.triton.tile_sizes import TileSizes
from adjoint.engine.compiler.loops.ir import (
    COLUMN,
    HOST,
    INDEX,
    LOAD,
    POINT,
    REDUCE,
    Form,
    Kernel,
)
from adjoint.engine.compiler.package.status import CODE_BITS, LEAST
from adjoint.engine.core.dtype import named

Env = dict[int, V]
STAGES, SHORT_STAGES = 3, 4  # rows of a part that are loaded ahead; those of one row's tiles
LONG = 8  # steps of a loop down columns that are many
AHEAD, HEAVY_AHEAD = 4, 2  # of many, those that are under way together; where registers are full


class TileEmitter(TileSizes):
    """Writes the kernel of one form, for the sizes of a launch."""

    def __init__(
        self,
        form: Form,
        kernels: list[Kernel],
        aligned: list[bool],
        guarded: bool,
        sized: bool = True,
    ):
        super().__init__(form, kernels, sized)
        self.aligned = aligned  # by reference: whether its address is a multiple of 16
        self.guarded = guarded  # writes nothing after a fault
        self.code = TritonCode()
        self.steps: dict[str, str] = {}  # functions beside the kernel: steps of reductions
        self.pointers: dict[int, str] = {}
        self.coordinates: dict[int, str] = {}
        self.lost: dict[int, set[str]] = {}
        self.masks = {"x": "", "r": ""}
        self.status = ""
        self.loose = loose_parts(form)

    # -- the frame ------------------------------------------------------------------------------

    def text(self, name: str) -> str:
        """The kernel's source."""
        self.head: list[str] = []
        code = self.code
        step = " + WORDS * tl.program_id(1)" if self.many else ""
        top = [
            "@triton.jit",
            f"def {name}(words):",
            f"    w = words.to(tl.pointer_type(tl.int64)){step}",
        ]
        if self.guarded or self.form.checks():
            self.status = "status"
            top += [
                f"    status = {self.word('status')}.to(tl.pointer_type(tl.int64))",
                "    told = tl.load(status)",
            ]
        if self.guarded:
            top.append("    if told != 0:\n        return")
        self.pointer_lines()
        cut = self.is_cut()
        total = self.total("x") if cut or not self.open else ""
        block = "tl.program_id(0)"
        if self.many:
            blocks = self.settle_total(total)
            code.put(f"for block in range(tl.program_id(0), {blocks}, tl.num_programs(0)):")
            code.margin += "    "
            block = "block"
        start = f"(tl.full((), 0, {self.index}) + {block})"
        if self.form.columns:
            self.part(start)
        elif self.tiles.line:
            self.line(start)
        else:
            x = f"{start} * {self.tiles.x} + tl.arange(0, {self.tiles.x})"
            code.put(f"x = ({x}){'' if self.flat else '[:, None]'}")
            self.coordinates |= self.decode("x", "x", range(self.form.outer))
            if cut:
                code.put(f"xm = x < {total if self.fixed else 'nx'}")
                self.masks["x"] = "xm"
            self.body()
        text = "".join(self.steps.values())
        text += "\n".join([*top, *self.head, *code.lines]) + "\n"
        return text.replace("WORDS", str(max(len(self.words.at), 1)))

    def is_cut(self) -> bool:
        """Whether tiles reach beyond the end of the outer combinations."""
        return not self.fixed or prod(self.example.outer) % self.tiles.x != 0

    def blocks(self, kernel: Kernel) -> int:
        """The number of tiles of a kernel, or of its parts."""
        if self.form.columns:
            return prod(kernel.outer[: -self.form.columns])
        if self.tiles.line:
            return prod(kernel.outer[:-1]) * -(-self.tiles.line // self.tiles.x)
        return -(-prod(kernel.outer) // self.tiles.x)

    def line(self, start: str) -> None:
        """A tile that is a piece of one line: all but its last coordinate are numbers."""
        code, x, length = self.code, self.tiles.x, self.tiles.line
        pieces, last = -(-length // x), self.form.outer - 1
        code.put(f"line = {start} // {pieces}")
        code.put(f"x = {start} % {pieces} * {x} + tl.arange(0, {x})")
        self.coordinates |= self.decode("line", "x", range(last))
        self.coordinates[last] = "x"
        if length % x:
            code.put(f"xm = x < {length}")
            self.masks["x"] = "xm"
        self.body()

    def part(self, start: str) -> None:
        """All rows of a part, and then its sums (Note [column sums])."""
        form, code, tiles = self.form, self.code, self.tiles
        parts = form.outer - form.columns
        rows = self.combinations(range(parts, form.outer))
        sums = [(v, r) for v, r in form.stores if form.ops[v].kind == COLUMN]
        code.put(f"part = {start}")
        self.enter_inner(f"tl.arange(0, {tiles.r})[None, :]")
        for v in dict.fromkeys(v for v, _ in sums):
            code.put(f"acc{v} = tl.full((1, {tiles.r}), 0, tl.float32)")
        inner = dict(self.coordinates)
        known: Env = {}
        for k, op in enumerate(form.ops):
            if op.kind in (LOAD, HOST) and len(op.args) == 1 and "x" not in self.varies(k):
                self.get(k, known, known, 0)
        ahead = SHORT_STAGES if (tiles.x, tiles.r) == (1, ONE_ROW) else STAGES
        code.put(f"for step in tl.range(0, {rows}, {tiles.x}, num_stages={ahead}):")
        margin, code.margin = code.margin, code.margin + "    "
        code.put(f"i = (step + tl.arange(0, {tiles.x}))[:, None]")
        code.put(f"x = part * ({rows}) + i")
        self.coordinates |= self.decode("x", "x", range(form.outer))
        if not self.fixed or self.count(range(parts, form.outer)) % tiles.x:
            code.put(f"xm = i < {rows}")
            self.masks["x"] = "xm"
        self.body(known)
        code.margin = margin
        self.masks["x"] = ""
        self.coordinates = inner | self.decode("part", "p", range(parts))
        for v, r in sums:
            self.store(r, code.value(f"acc{v}", "f32", 1), full=True, rows=1)

    def settle_total(self, total: str) -> str:
        """The number of tiles of a kernel among many, or of its parts."""
        if self.form.columns:
            parts = self.form.outer - self.form.columns
            return self.combinations(range(parts))
        if self.fixed:
            return str(-(-self.count(range(self.form.outer)) // self.tiles.x))
        whole = all(prod(k.outer) % 16 == 0 for k in self.kernels)
        self.head.append(f"    nx = {f'tl.multiple_of({total}, 16)' if whole else total}")
        return f"(nx + {self.tiles.x - 1}) // {self.tiles.x}"

    def pointer_lines(self) -> None:
        """The addresses of all references."""
        for r, ref in enumerate(self.example.refs):
            if ref.buffer is None:
                continue
            kind = memory_type(ref.dtype.name)
            at = f"{self.word('address', r)}.to(tl.pointer_type({kind}))"
            if self.aligned[r]:  # said of the pointer: a number's multiples are forgotten
                at = f"tl.multiple_of({at}, 16)"
            self.head.append(f"    a{r} = {at}")
            self.pointers[r] = f"a{r}"

    def decode(self, total: str, name: str, dims: range) -> dict[int, str]:
        """Indices along dimensions from the number of their combination."""
        code, where = self.code, {}
        rest = total
        for d in reversed(dims):
            if d == dims[0]:
                where[d] = rest
                continue
            n = self.size(d)
            where[d] = f"{name}{d}"
            code.put(f"{name}{d} = {rest} % {n}")
            code.put(f"{name}r{d} = {rest} // {n}")
            rest = f"{name}r{d}"
        return where

    # -- the body -------------------------------------------------------------------------------

    def body(self, known: Env | None = None) -> None:
        """All stages and stores of a tile; `known` are values that are the same for all tiles."""
        form, env = self.form, dict(known or {})
        stages = 1 + max((op.stage for op in form.ops), default=0)
        if self.tiles.whole:
            if form.inner and not form.columns:
                self.enter_inner(f"tl.arange(0, {self.tiles.r})[None, :]")
            stores = [(v, r) for v, r in form.stores if form.ops[v].kind != COLUMN]
            values = {v: self.get(v, env, env, stages) for v, _ in stores}
            for v in dict.fromkeys(v for v, _ in form.stores if form.ops[v].kind == COLUMN):
                self.add_column(v, env, stages)
            self.separate()
            for v, r in stores:
                self.store(r, values[v], form.ops[v].full)
            return
        for stage in range(stages):
            self.stage(stage, env)
        outer = [(v, r) for v, r in form.stores if not form.ops[v].full]
        values = {v: self.get(v, env, env, stages) for v, _ in outer}
        for v, r in outer:
            self.store(r, values[v], full=False)

    def add_column(self, k: int, env: Env, stages: int) -> None:
        """Add a tile's rows to a sum of columns; what is beyond the end has no part in it."""
        tag, x = self.form.ops[k].args[0]
        value = self.get(x, env, env, stages) if tag == "v" else self.code.const(x, "f32")
        wide = f"tl.broadcast_to({value.convert('f32').ref}, ({self.tiles.x}, {self.tiles.r}))"
        if self.masks["x"]:
            wide = f"tl.where({self.masks['x']}, {wide}, 0.0)"
        self.code.put(f"acc{k} += tl.sum({wide}, 0, keep_dims=True)")

    def separate(self) -> None:
        """Have all loads of a tile done before its first store.

        A result may take an operand's memory (Note [in place], compiler.memory). Threads load and
        store the same elements unless element sizes differ.
        """
        sizes = {r.dtype.itemsize for r in self.example.refs if r.buffer is not None}
        if len(sizes) > 1 and self.flat:
            self.code.put("tl.debug_barrier()")

    def stage(self, stage: int, env: Env) -> None:
        """One loop over the inner combinations."""
        form, code = self.form, self.code
        stored = [(v, r) for v, r in form.stores if form.ops[v].full and form.ops[v].stage == stage]
        reductions = [k for k, op in enumerate(form.ops) if op.kind == REDUCE and op.stage == stage]
        if not stored and not reductions:
            return
        for k in self.wanted(stage):
            self.get(k, env, env, stage)
        shape = f"({self.tiles.x}, {self.tiles.r})"
        for k in reductions:
            kind = total_kind(form.ops[k].compute)
            start = identity(form.ops[k].name, form.ops[k].compute, kind)
            code.put(f"acc{k} = tl.full({shape}, {start}, {TYPES[kind]})")
        if stage and any(self.is_kept(k, stage) for k in range(len(form.ops))):
            code.put("tl.debug_barrier()")  # what other threads wrote is read
        code.put(f"for base{stage} in {self.walk()}:")
        margin, code.margin = code.margin, code.margin + "    "
        self.enter_inner(f"base{stage} + tl.arange(0, {self.tiles.r})[None, :]")
        inside: Env = {}
        for k in reductions:
            value = self.reduced_value(k, env, inside, stage)
            total = code.value(f"acc{k}", value.kind, 1)
            code.put(f"acc{k} = {combined(self.form.ops[k], total, value).ref}")
        values = {v: self.get(v, env, inside, stage) for v, _ in stored}
        for v, r in stored:
            self.store(r, values[v], full=True)
        code.margin = margin
        for k in reductions:
            env[k] = reduced(self, k, f"acc{k}")

    def walk(self) -> str:
        """The steps of a loop along the inner combinations; down long columns, loads go ahead."""
        steps = f"0, {self.total('r')}, {self.tiles.r}"
        long = prod(self.example.inner) >= LONG * self.tiles.r
        if not long or self.form.rows:
            return f"range({steps})"
        ahead = HEAVY_AHEAD if fills_loops(self.form) else AHEAD
        return f"tl.range({steps}, num_stages={ahead})"

    def enter_inner(self, text: str) -> None:
        """The inner combinations of a tile."""
        code = self.code
        first = self.form.outer
        code.put(f"r = {text}")
        self.coordinates |= self.decode("r", "r", range(first, first + self.form.inner))
        total = self.total("r")
        self.masks["r"] = ""
        if not self.fixed or self.count(range(first, first + self.form.inner)) % self.tiles.r:
            code.put(f"rm = r < {total}")
            self.masks["r"] = "rm"

    def is_kept(self, k: int, stage: int) -> bool:
        """Whether a value was written by an earlier stage, where a later one reads it."""
        op = self.form.ops[k]
        if not (op.full and op.kind == POINT and op.stage < stage):
            return False
        return any(v == k for v, _ in self.form.stores)

    def wanted(self, stage: int) -> list[int]:
        """Outer values that operations of this stage's loop read."""
        ops = self.form.ops
        outer: list[int] = []
        for op in ops:
            if (op.full or op.kind == REDUCE) and op.stage <= stage:
                for kind, x in op.args:
                    if kind == "v" and not ops[x].full:
                        late = ops[x].stage >= stage if ops[x].kind == REDUCE else False
                        if not late and ops[x].stage <= stage:
                            outer.append(x)
        return outer

    # -- reductions -----------------------------------------------------------------------------

    def reduced_value(self, k: int, env: Env, inside: Env, stage: int) -> V:
        """What a reduction takes of a tile, with what is beyond the end made harmless."""
        op, code = self.form.ops[k], self.code
        kind = total_kind(op.compute)
        tag, x = op.args[0]
        value = self.get(x, env, inside, stage) if tag == "v" else code.const(x, kind)
        value = value.convert(KIND[op.compute][0]).convert(kind)
        shape = f"({self.tiles.x}, {self.tiles.r})"
        value = code.named(f"tl.broadcast_to({value.ref}, {shape})", kind)
        if self.masks["r"]:
            start = code.value(identity_text(op.name, op.compute, kind), kind, 1)
            value = select(code.value(self.masks["r"], "i1", 1), value, start)
        return value

    def only_element(self, k: int, env: Env, inside: Env, stage: int) -> V:
        """A reduction of one element."""
        op = self.form.ops[k]
        tag, x = op.args[0]
        value = self.get(x, env, inside, stage) if tag == "v" else x
        value = as_value(self.code, value, KIND[op.compute][0])
        return self.rounded(value.convert(KIND[op.dtype][0]), op.dtype)

    # -- values ---------------------------------------------------------------------------------

    def get(self, k: int, env: Env, inside: Env, stage: int) -> V:
        """The value of an operation, computed once per loop."""
        op = self.form.ops[k]
        place = inside if op.full else env
        value = place.get(k)
        if value is not None:
            return value
        if not self.tiles.whole and self.is_kept(k, stage):
            r = next(r for v, r in self.form.stores if v == k)
            place[k] = self.load(r, self.offset(r), self.lanes(r))
            return place[k]
        place[k] = self.compute(k, env, inside, stage)
        return place[k]

    def compute(self, k: int, env: Env, inside: Env, stage: int) -> V:
        op, code = self.form.ops[k], self.code
        match op.kind:
            case "reduce":
                if self.flat:  # over dimensions of one element
                    return self.only_element(k, env, inside, stage)
                reduce_together(self, alike(self.form, k, env), env, inside, stage)
                return env[k]
            case "load" if len(op.args) > 1:
                return self.picked(k, env, inside, stage)
            case "load":
                r = op.args[0][1]
                return self.load(r, self.offset(r), self.lanes(r))
            case "host":
                return self.host(op.args[0][1], KIND[op.dtype][0])
            case "index":
                r = op.args[0][1]
                start = self.word("offset", r)
                if self.fixed:
                    start = f"tl.full((), {self.example.refs[r].offset}, tl.int64)"
                return code.named(f"{start} + {self.offset(r)}", "i64")
        if k in self.loose.one_plus:
            u = self.get(self.loose.one_plus[k], env, inside, stage)
            return code.named(ONE_PLUS_TANH.format(u.ref), "f32")
        operands = [self.get(x, env, inside, stage) if t == "v" else x for t, x in op.args]
        if k in self.loose.near_one:
            return code.named(f"{ONE_PLUS_TANH.format(operands[0].ref)} - 1.0", "f32")
        if op.name == "require":
            return self.required(k, operands)
        if op.name == "scatter":
            return self.scatter(k, operands)
        if op.name == "random":
            return sample(code, op, operands)
        value = self.rounded(lower(code, op, operands, k in self.loose.values), op.dtype)
        for j, (bad, _) in enumerate(code.faults):
            self.report(k, j, bad, None, self.varies(k))
        code.faults.clear()
        return value

    def rounded(self, x: V, dtype: str) -> V:
        return self.code.rounded(x, dtype) if named(dtype).is_half else x

    def host(self, h: int, kind: str) -> V:
        """A number of the host's."""
        at = f"w + {self.words.of('host', h)}"
        if self.form.hosts[h] == "float64":
            value = self.code.named(f"tl.load(({at}).to(tl.pointer_type(tl.float64)))", "f64")
        else:
            value = self.code.named(f"tl.load({at})", "i64")
        return value.convert(kind)

    def required(self, k: int, operands: list[Any]) -> V:
        """x itself, after a report where its condition does not hold."""
        op, code = self.form.ops[k], self.code
        x = as_value(code, operands[0], KIND[op.dtype][0])
        holds = as_value(code, operands[1], "i1")
        self.report(k, 0, ~holds, None if x.is_float else x, self.varies(k))
        return x

    def scatter(self, k: int, operands: list[Any]) -> V:
        """x, or y at the one place of its line that an index names."""
        op, code = self.form.ops[k], self.code
        kind = KIND[op.dtype][0]
        x, y = (as_value(code, v, kind) for v in operands[:2])
        index, here = (as_value(code, v, "i64") for v in operands[2:])
        which = self.extents[k]
        if self.fixed:
            size = str(self.example.extents[which])
        else:
            size = self.settled(f"e{which}", "extent", which)
        tag, x_index = op.args[2]
        lanes = self.varies(x_index) if tag == "v" else set()
        index = self.in_bounds(k, 0, index, size, False, lanes)
        if self.index == "tl.int32":  # an index in bounds is one of few: compared as such
            index, here = index.convert("i32"), here.convert("i32")
        if dict(op.params)["accumulate"]:
            y = x + y if kind != "i1" else x | y
        return self.rounded(select(index.eq(here), y, x), op.dtype)

    # -- memory ---------------------------------------------------------------------------------

    def lanes(self, r: int) -> set[str]:
        """Which of x and r a reference varies along."""
        axes = set()
        for d, c in enumerate(self.form.refs[r][1]):
            if c and not (self.tiles.line and d < self.form.outer - 1):
                axes.add("x" if d < self.form.outer else "r")
        return axes

    def varies(self, k: int) -> set[str]:
        """Which of x and r a value varies along."""
        if k not in self.lost:
            op = self.form.ops[k]
            if op.kind == REDUCE:
                self.lost[k] = {"x"}
            else:
                axes = self.lanes(op.args[0][1]) if op.kind in (LOAD, INDEX) else set()
                for tag, x in op.args:
                    axes |= self.varies(x) if tag == "v" else set()
                self.lost[k] = set() if op.kind == HOST else axes
        return self.lost[k]

    def mask(self, lanes: set[str]) -> str:
        return " & ".join(self.masks[a] for a in sorted(lanes) if self.masks[a])

    def offset(self, r: int) -> str:
        """Where a reference is at this tile's combinations, from its address."""
        terms = []
        for d in range(self.form.outer + self.form.inner):
            stride = self.stride(r, d)
            if stride:
                at = self.coordinates[d]
                terms.append(at if stride == "1" else f"{at} * {stride}")
        return "(" + " + ".join(terms) + ")" if terms else "0"

    def load(self, r: int, offset: str, lanes: set[str]) -> V:
        """The elements of a reference, in registers."""
        dtype = self.form.refs[r][0]
        mask = self.mask(lanes)
        more = f", mask={mask}, other=0" if mask else ""
        text = f"tl.load({self.pointers[r]} + {offset}{more})"
        if dtype == "bool":
            return self.code.named(f"({text} != 0)", "i1")
        if named(dtype).is_half:
            return self.code.named(f"{text}.to(tl.float32)", "f32")
        return self.code.named(text, KIND[dtype][0])

    def picked(self, k: int, env: Env, inside: Env, stage: int) -> V:
        """A load at a place that indices decide."""
        op = self.form.ops[k]
        r = op.args[0][1]
        at = [self.offset(r)]
        for j, (tag, x) in enumerate(op.args[1:]):
            index = self.get(x, env, inside, stage) if tag == "v" else self.code.const(x, "i64")
            stride, size = self.pick(r, j)
            safe = self.in_bounds(k, j, index.convert("i64"), size, bool(op.params), self.varies(k))
            at.append(f"{safe.ref}.to({self.index}) * {stride}")
        return self.load(r, f"({' + '.join(at)})", self.varies(k))

    def in_bounds(self, k: int, j: int, index: V, size: str, wrap: bool, lanes: set[str]) -> V:
        """An index, which varies along lanes, made safe; one out of bounds is reported."""
        limit = self.code.value(f"tl.full((), {size}, tl.int64)", "i64", 1)
        if not self.fixed:
            limit = self.code.named(f"{size}.to(tl.int64)", "i64")
        given = index
        if wrap:
            index = select(index < 0, index + limit, index)
        bad = (index < 0) | (index >= limit)
        self.report(k, j, bad, given, lanes)
        return select(bad, index.like(0), index)

    def report(self, k: int, j: int, bad: V, at: V | None, lanes: set[str]) -> None:
        """Tell of a fault in the status, unless one was told before this kernel began.

        What is bad varies along `lanes`: one number for a whole tile is stored once.
        """
        code = self.code
        fault = self.word("fault", k, j)
        word = fault
        if at is not None:
            wide = at.convert("i64")
            shown = wide << CODE_BITS
            fits = (shown >> CODE_BITS).eq(wide)
            word = f"{select(fits, shown, shown.like(LEAST)).ref} | {fault}"
        mask = " & ".join(m for m in (self.mask(lanes), bad.ref, "(told == 0)") if m)
        code.put(f"bad = ({mask}).to(tl.int32) != 0")
        code.put("tl.store(status + bad.to(tl.int32) * 0, (bad.to(tl.int64) * 0) | "
                 f"({word}), mask=bad)")  # fmt: skip

    def store(self, r: int, value: V, full: bool, rows: int = 0) -> None:
        """Write a value to where a reference is."""
        t, dtype = self.tiles, self.form.refs[r][0]
        shape = f"({t.x},)" if self.flat else f"({rows or t.x}, {t.r if full else 1})"
        stored = value.convert(KIND[dtype][0]).ref
        if dtype == "bool":
            stored = f"{stored}.to(tl.uint8)"
        elif named(dtype).is_half:
            stored = f"{stored}.to(tl.{dtype})"
        offset = self.offset(r)
        at = f"tl.full((), 0, {self.index})" if offset == "0" else offset
        mask = self.mask({"x", "r"} if full else {"x"})
        more = f", mask=tl.broadcast_to({mask}, {shape})" if mask else ""
        self.code.put(
            f"tl.store({self.pointers[r]} + tl.broadcast_to({at}, {shape}), "
            f"tl.broadcast_to({stored}, {shape}){more})"
        )
