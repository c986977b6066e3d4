"""Basic blocks and loops in a function's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.engine.backends.registers.vector import Code, V


def unknown(code: Code, number: str) -> str:
    """The same whole number, of which LLVM does not know how it was made."""
    return code.let(f'call i64 asm "", "=r,0"(i64 {number})')


class Blocks:
    """Writes control flow into a `Code`, which keeps track of the block being written."""

    def __init__(self, code: Code, entry: str = "entry", *, as_written: bool = False) -> None:
        self.code, self.as_written = code, as_written
        code.block = entry
        code.branching = True
        self.labels = 0

    def label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}{self.labels}"

    def begin(self, label: str) -> None:
        """Start a block."""
        self.code.lines.append(f"{label}:")
        self.code.block = label

    def go(self, label: str) -> None:
        self.code.lines.append(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.code.lines.append(f"br i1 {condition}, label %{yes}, label %{no}")

    def loop(
        self,
        start: str,
        stop: str,
        step: int,
        carried: Sequence[V],
        body: Callable[[str, list[V]], Sequence[V]],
    ) -> list[V]:
        """`for i in range(start, stop, step)` over values carried from turn to turn.

        `stop - start` need not be a multiple of `step`, but the body then runs past it. Returns
        the carried values after the last turn. The test is at the end: one branch a turn.
        """
        code = self.code
        inside, after = self.label("loop"), self.label("done")
        before = code.block
        some = code.let(f"icmp slt i64 {start}, {stop}")
        self.branch(some, inside, after)
        self.begin(inside)
        index = f"%i{self.labels}"
        at = len(code.lines)
        code.lines.append("")  # the phi of the index
        phis: list[V] = []
        for c in carried:
            name = f"%c{self.labels}_{len(phis)}"
            code.lines.append("")
            phis.append(V(code, name, c.kind, c.lanes))
        new = list(body(index, phis))
        following = code.let(f"add nsw i64 {index}, {step}")
        if self.as_written:
            following = unknown(code, following)
        more = code.let(f"icmp slt i64 {following}, {stop}")
        last = code.block
        self.branch(more, inside, after)
        code.lines[at] = f"{index} = phi i64 [ {start}, %{before} ], [ {following}, %{last} ]"
        for k, (c, phi, n) in enumerate(zip(carried, phis, new, strict=True), 1):
            code.lines[at + k] = (
                f"{phi.ref} = phi {phi.type} [ {c.ref}, %{before} ], [ {n.ref}, %{last} ]"
            )
        self.begin(after)
        return [
            V(
                code,
                code.let(f"phi {c.type} [ {c.ref}, %{before} ], [ {n.ref}, %{last} ]"),
                c.kind,
                c.lanes,
            )
            for c, n in zip(carried, new, strict=True)
        ]

    def when(self, condition: str, body: Callable[[], object]) -> None:
        """Run `body` if the condition holds."""
        yes, after = self.label("when"), self.label("after")
        self.branch(condition, yes, after)
        self.begin(yes)
        body()
        self.go(after)
        self.begin(after)

    def choose(
        self, condition: V, yes: Callable[[], Sequence[V]], no: Callable[[], Sequence[V]]
    ) -> list[V]:
        """The values of one of two branches."""
        code = self.code
        labels = [self.label(stem) for stem in ("yes", "no", "both")]
        self.branch(condition.ref, labels[0], labels[1])
        branches: list[Sequence[V]] = []
        ends: list[str] = []
        for label, body in zip(labels, (yes, no), strict=False):
            self.begin(label)
            branches.append(body())
            ends.append(code.block)
            self.go(labels[2])
        self.begin(labels[2])
        return [
            code.value(
                code.let(f"phi {a.type} [ {a.ref}, %{ends[0]} ], [ {b.ref}, %{ends[1]} ]"),
                a.kind,
                a.lanes,
            )
            for a, b in zip(*branches, strict=True)
        ]
