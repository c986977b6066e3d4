"""How a worker comes to its pieces of a launch: functions that all kernels of loops call.

A process has them once. A module that brought them along would take LLVM a tenth longer;
what leaves the process (exported programs) has their definitions in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.registers.vector import Code, V

FIRST, PIECES = range(2)  # the first words of an instance (Note [kernel words])


@cache
def pieces_text() -> str:
    """A worker's part of all pieces, instance by instance."""
    code = Code()
    let, blocks = code.let, Blocks(code)

    def clamp(x: str, most: str) -> str:
        x = let(f"select i1 {let(f'icmp slt i64 {x}, 0')}, i64 0, i64 {x}")
        return let(f"select i1 {let(f'icmp slt i64 {x}, {most}')}, i64 {x}, i64 {most}")

    count, total = _fetched(code, "%args", 0), _fetched(code, "%args", 1)
    low, high = _share(code, total)

    def instance(j: str, _: list[V]) -> list[V]:
        block = _instance_of(code, j)
        first, pieces = _fetched(code, block, FIRST), _fetched(code, block, PIECES)
        start = clamp(let(f"sub i64 {low}, {first}"), pieces)
        stop = clamp(let(f"sub i64 {high}, {first}"), pieces)
        call = f"call void %kernel(ptr {block}, i64 {start}, i64 {stop})"
        blocks.when(let(f"icmp slt i64 {start}, {stop}"), lambda: code.lines.append(call))
        return []

    blocks.loop("0", count, 1, (), instance)
    return _definition("pieces", code)


@cache
def turns_text() -> str:
    """The same of instances with as many pieces each, piece by piece (Note [pieces in turns])."""
    code = Code()
    let, blocks = code.let, Blocks(code)
    count = _fetched(code, "%args", 0)
    low, high = _share(code, _fetched(code, _instance_of(code, "0"), PIECES))

    def piece(p: str, _: list[V]) -> list[V]:
        after = let(f"add i64 {p}, 1")

        def instance(j: str, _: list[V]) -> list[V]:
            block = _instance_of(code, j)
            code.lines.append(f"call void %kernel(ptr {block}, i64 {p}, i64 {after})")
            return []

        blocks.loop("0", count, 1, (), instance)
        return []

    blocks.loop(low, high, 1, (), piece)
    return _definition("turns", code)


def _fetched(code: Code, block: str, index: int) -> str:
    """A word of a block."""
    return code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr {block}, i64 {index}')}")


def _instance_of(code: Code, j: str) -> str:
    """The block of an instance."""
    at = code.let(f"add i64 {code.let(f'mul i64 {j}, %length')}, 2")
    return code.let(f"getelementptr i64, ptr %args, i64 {at}")


def _share(code: Code, total: str) -> tuple[str, str]:
    """Where this worker's part of so many pieces begins and ends."""
    let = code.let
    following = let("add i64 %worker, 1")
    low = let(f"udiv i64 {let(f'mul i64 {total}, %worker')}, %workers")
    return low, let(f"udiv i64 {let(f'mul i64 {total}, {following}')}, %workers")


_HEAD = "void @{name}(ptr %args, i64 %worker, i64 %workers, ptr %kernel, i64 %length)"
_INTERNAL = "define internal "


def _definition(name: str, code: Code) -> str:
    """The function that calls a kernel on its pieces."""
    body = "\n".join(code.lines)
    return f"{_INTERNAL}{_HEAD.format(name=name)} noinline {{\nentry:\n{body}\nret void\n}}\n"


@cache
def declarations() -> Mapping[str, str]:
    """By the definition of each of these functions, the line that stands for one elsewhere."""
    texts = {"pieces": pieces_text(), "turns": turns_text()}
    return {text: f"declare {_HEAD.format(name=name)}" for name, text in texts.items()}


def module_text() -> str:
    """The functions as a module that others see."""
    return "".join(text.replace(_INTERNAL, "define ", 1) for text in declarations())
