"""Nests: the loops of a kernel over its inner dimensions.

Note [sums]
    Rounding errors of a long sum grow with its length. Sums run in blocks of BLOCK turns whose
    totals are added up, over several lanes at a time and along each dimension; where there are more
    than BLOCKS blocks, so many of them are summed apart, too. The error of n terms is that of about
    BLOCK + BLOCKS + n / (BLOCK * BLOCKS * lanes), and so large only where all terms are alike.

Note [settled values]
    Where there are several inner dimensions, some of what a nest needs is the same all along the
    last ones (a channel's weight, of an image's elements). It is computed before their loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from adjoint.engine.backends.registers.operations import KIND, combine, identity
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.compiler.loops.ir import (
    LOAD,
    POINT,
    REDUCE,
    SEVERAL,
    SHORT,
    WHOLE,
    Kernel,
    Op,
    can_fail,
)
from adjoint.engine.graph.sizes.extents import is_undecided

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.loops.kernels import LoopEmitter

BLOCK = 32  # turns of a loop whose sum is taken apart
BLOCKS = 64  # of those, whose totals are summed apart
APART = ("scatter", "random", "require")  # depend on places, or report errors
Env = dict[int, V]
Turn = Callable[[str, list[V]], list[V]]


class LaneScope(Env):
    """Values inside a loop: those from outside are spread over the lanes when asked for."""

    def __init__(self, outside: Env, lanes: int) -> None:
        super().__init__()
        self.outside = outside
        self.lanes = lanes

    def get(self, k: int, default: Any = None) -> Any:
        """A value, made here or outside."""
        value = super().get(k)
        if value is None:
            value = self.outside.get(k)
            if value is None:
                return default
            value = self[k] = value.code.splat(value, self.lanes)
        return value

    def single(self, k: int) -> V | None:
        """A value that was made outside in one lane, as it is there."""
        outside = self.outside
        value = outside.single(k) if isinstance(outside, LaneScope) else outside.get(k)
        return value if value is not None and value.lanes == 1 else None


class LoopNest:
    """Writes one loop nest over the inner dimensions at one outer place."""

    def __init__(
        self,
        emitter: LoopEmitter,
        env: Env,
        lanes: int,
        stage: int,
        stored: list[tuple[int, int]],
        reductions: list[int],
    ) -> None:
        self.emitter, self.env, self.lanes = emitter, env, lanes
        self.form, self.code, self.blocks = emitter.form, emitter.code, emitter.blocks
        self.stage, self.stored, self.reductions = stage, stored, reductions
        self.ops = [self.form.ops[k] for k in reductions]
        self.split = self.form.rows and emitter.lanes > 1  # lanes run along an inner dimension
        self.blocked = has_sums(self.ops)

    def write(self, where: dict[int, str]) -> None:
        """The loops, and after them what the reductions amount to."""
        ops, form = self.ops, self.form
        totals = self.level(form.outer, where, self.start())
        for j, (k, op) in enumerate(zip(self.reductions, ops, strict=True)):
            total = totals[j]
            if self.split:
                rest = fold(op.name, total)  # of the last lanes
                total = combine(op.name, fold(op.name, totals[len(ops) + j]), rest)
            self.env[k] = self.emitter.reduced(k, total)

    def start(self) -> list[V]:
        """What reductions begin with; where lanes are split, for the last ones and for vectors."""
        widths = [self.lanes]
        if self.split:
            widths = [self.emitter.last or self.lanes, self.emitter.lanes]
        return [
            identity(self.code, op.name, KIND[op.compute][0], width)
            for width in widths
            for op in self.ops
        ]

    def level(self, d: int, here: dict[int, str], totals: list[V]) -> list[V]:
        """The loop over a dimension and those inside it; returns the new totals."""
        if d == self.form.outer + self.form.inner:
            return self.body(here, self.lanes, totals)
        around = self.env
        if d > self.form.outer:
            self.env = self.settled(d, here)

        def turn(i: str, t: list[V]) -> list[V]:
            return self.level(d + 1, {**here, d: i}, t)

        if self.split and d == self.emitter.vector:
            totals = self.across(d, here, totals)
        else:
            totals = self.summed("0", self.emitter.size[d], 1, totals, turn)
        self.env = around
        return totals

    def settled(self, d: int, here: dict[int, str]) -> Env:
        """The values around, and those that stay as they are along dimension d and those inside."""
        env: Env = LaneScope(self.env, self.lanes)
        ops, stay = self.form.ops, self.staying(d)
        wanted = [v for v, _ in self.stored]
        wanted += [x for op in self.ops for kind, x in op.args if kind == "v"]
        seen: set[int] = set()
        while wanted:
            k = wanted.pop()
            if k in seen or not ops[k].full:
                continue
            seen.add(k)
            if k in stay:
                self.emitter.get(k, env, self.lanes, here, self.stage)
            else:
                wanted += [x for kind, x in ops[k].args if kind == "v"]
        return env

    def staying(self, d: int) -> set[int]:
        """Operations that give the same value all along dimension d and those inside it.

        Of those that are neither written there nor can fail: each is done once, or not at all.
        """
        form = self.form
        written = {v for v, _ in form.stores if form.ops[v].full}
        stay: set[int] = set()
        for k, op in enumerate(form.ops):
            if not op.full:
                same = True
            elif op.kind == LOAD:
                same = len(op.args) == 1 and not any(form.refs[op.args[0][1]][1][d:])
            else:
                same = op.kind == POINT and op.name not in APART
                same = same and not can_fail(op.name, op.compute)
                same = same and all(x in stay for kind, x in op.args if kind == "v")
            if same and k not in written:
                stay.add(k)
        return stay

    def across(self, d: int, here: dict[int, str], totals: list[V]) -> list[V]:
        """The loop along the vectors, and that over the elements left."""
        n, size, lanes = len(self.reductions), self.emitter.size[d], self.emitter.lanes
        exact, last = self.form.spans == WHOLE, self.emitter.last
        if last and self.form.spans in (SHORT, SEVERAL):
            return self.masked(d, "0", here, totals[:n]) + totals[n:]
        whole = size if exact else self.code.let(f"and i64 {size}, {-lanes}")
        wide = self.summed(
            "0", whole, lanes, totals[n:], lambda i, t: self.body({**here, d: i}, lanes, t)
        )
        if exact:
            return totals[:n] + wide
        if last:
            return self.masked(d, whole, here, totals[:n]) + wide
        one = self.blocks.loop(
            whole, size, 1, totals[:n], lambda i, t: self.body({**here, d: i}, 1, t)
        )
        return one + wide

    def masked(self, d: int, start: str, here: dict[int, str], totals: list[V]) -> list[V]:
        """The loop over the elements left, by vectors whose lanes may be too many."""
        emitter, size = self.emitter, self.emitter.size[d]

        def turn(i: str, t: list[V]) -> list[V]:
            with emitter.among_last(i, size):
                return self.body({**here, d: i}, emitter.last, t)

        return self.blocks.loop(start, size, emitter.last, totals, turn)

    def body(self, here: dict[int, str], width: int, totals: list[V]) -> list[V]:
        """What happens at one place."""
        return self.emitter.turn(
            self.env, here, width, self.stage, self.stored, self.reductions, totals
        )

    def summed(self, start: str, stop: str, step: int, totals: list[V], turn: Turn) -> list[V]:
        """A loop in blocks that are summed apart, where there are sums (Note [sums])."""
        if not self.blocked:
            return self.blocks.loop(start, stop, step, totals, turn)
        turn, step = self.apart(stop, step, BLOCK, turn), step * BLOCK
        if self.form.long:
            turn, step = self.apart(stop, step, BLOCKS, turn), step * BLOCKS
        return self.blocks.loop(start, stop, step, totals, turn)

    def apart(self, stop: str, step: int, count: int, turn: Turn) -> Turn:
        """One turn instead of so many of another, whose sums it takes by themselves."""
        code, ops = self.code, self.ops

        def block(i: str, sums: list[V]) -> list[V]:
            end = code.let(f"add i64 {i}, {step * count}")
            short = code.let(f"icmp slt i64 {end}, {stop}")
            end = code.let(f"select i1 {short}, i64 {end}, i64 {stop}")
            names = [op.name for op in ops] * (len(sums) // len(ops))  # for single ones, vectors
            zero = [
                identity(code, name, t.kind, t.lanes) for name, t in zip(names, sums, strict=True)
            ]
            parts = self.blocks.loop(i, end, step, zero, turn)
            return [combine(name, t, p) for name, t, p in zip(names, sums, parts, strict=True)]

        return block


def has_sums(ops: Iterable[Op]) -> bool:
    """Whether operations have a sum among them that rounds."""
    return any(
        op.kind == REDUCE and op.name == "sum" and KIND[op.compute][0][0] == "f" for op in ops
    )


def has_long_sums(kernels: list[Kernel], lanes: int) -> bool:
    """Whether sums are so long, or may be, that blocks of blocks are summed apart (Note [sums])."""
    for kernel in kernels:
        steps = [1] * (len(kernel.inner) - kernel.form.rows) + [lanes] * kernel.form.rows
        for size, step in zip(kernel.inner, steps, strict=True):
            if is_undecided(size) or size > step * BLOCK * BLOCKS:
                return has_sums(kernel.form.ops)
    return False


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
