"""The kernel that adds rows at indices, in the order of the indices.

Workers take parts of PART columns each and go through all indices, so that repeated indices add up
in one order whatever the number of workers.
"""

from __future__ import annotations

from adjoint.backends.llvm.blocks import Blocks
from adjoint.backends.llvm.vector import Code, V, type_text

ELEMENTS = {"float32": "f32", "float64": "f64"}
PART = 64  # columns
LANES = 8
OUT, VALUES, INDEX, COUNT, LENGTH, SIZE, WRAP, STATUS, FAULT, PARTS, WORDS = range(11)


def rows_text(name: str, kind: str) -> str:
    """The kernel for elements of a kind; its words are named at the top of this file."""
    code = Code()
    let, blocks = code.let, Blocks(code)
    w = [
        let(f"load i64, ptr {let(f'getelementptr i64, ptr %args, i64 {k}')}") for k in range(WORDS)
    ]
    low = let(f"udiv i64 {let(f'mul i64 {w[PARTS]}, %worker')}, %workers")
    following = let("add i64 %worker, 1")
    high = let(f"udiv i64 {let(f'mul i64 {w[PARTS]}, {following}')}, %workers")
    start = let(f"mul i64 {low}, {PART}")
    stop = let(f"mul i64 {high}, {PART}")
    stop = let(f"select i1 {let(f'icmp slt i64 {stop}, {w[LENGTH]}')}, i64 {stop}, i64 {w[LENGTH]}")
    whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-LANES}")
    middle = let(f"add i64 {start}, {whole}")
    out, values, index = (let(f"inttoptr i64 {w[k]} to ptr") for k in (OUT, VALUES, INDEX))
    wraps = let(f"icmp ne i64 {w[WRAP]}, 0")
    element = type_text(kind, 1)

    def row(n: str, _: list[V]) -> list[V]:
        at = let(f"load i64, ptr {let(f'getelementptr i64, ptr {index}, i64 {n}')}")
        negative = let(f"icmp slt i64 {at}, 0")
        turn = let(f"select i1 {let(f'and i1 {negative}, {wraps}')}, i64 {w[SIZE]}, i64 0")
        at = let(f"add i64 {at}, {turn}")
        good = let(f"icmp ult i64 {at}, {w[SIZE]}")
        bad = let(f"xor i1 {good}, true")

        def report() -> None:
            status = let(f"inttoptr i64 {w[STATUS]} to ptr")
            code.lines.append(f"store atomic i64 {w[FAULT]}, ptr {status} monotonic, align 8")

        def add() -> None:
            to = let(f"getelementptr {element}, ptr {out}, i64 {let(f'mul i64 {at}, {w[LENGTH]}')}")
            of = let(
                f"getelementptr {element}, ptr {values}, i64 {let(f'mul i64 {n}, {w[LENGTH]}')}"
            )

            def columns(lanes: int, i: str) -> list[V]:
                wide = type_text(kind, lanes)
                a, b = (let(f"getelementptr {element}, ptr {p}, i64 {i}") for p in (to, of))
                x, y = (let(f"load {wide}, ptr {p}, align 4") for p in (a, b))
                code.lines.append(f"store {wide} {let(f'fadd {wide} {x}, {y}')}, ptr {a}, align 4")
                return []

            blocks.loop(start, middle, LANES, (), lambda i, _: columns(LANES, i))
            blocks.loop(middle, stop, 1, (), lambda i, _: columns(1, i))

        blocks.when(bad, report)
        blocks.when(good, add)
        return []

    blocks.loop("0", w[COUNT], 1, (), row)
    body = "\n".join(code.lines)
    return (
        f"define void @{name}(ptr %args, i64 %worker, i64 %workers) {{\n"
        f"entry:\n{body}\nret void\n}}\n"
    )
