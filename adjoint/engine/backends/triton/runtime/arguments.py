"""Words as arguments: kernels that are launched one by one rather than replayed.

Note [arguments]
    Kernels read their words from memory (Note [kernel table]), which a graph of launches needs. A
    launch of a single kernel is told its words best by its arguments: there is nothing to copy to
    the device before it, and nothing to wait for. So a kernel's text is rewritten, as a tree:
    every load of a word becomes an argument. A kernel that reads words in another way (one of many
    finds its own by its number) stays as it is.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from adjoint.engine.backends.triton.launch_words import Written

MOST = 256  # arguments; CUDA takes 4 KiB of them
_TABLE = "words.to(tl.pointer_type(tl.int64))"


def with_arguments(written: Written, count: int) -> Written | None:
    """The kernel with `count` words as arguments w0, w1, ...; None where it has to load them."""
    ways = [written, *written.others]
    sources = [spread(way.source, count) if count <= MOST else None for way in ways]
    if None in sources:
        return None
    first, *others = [
        replace(way, source=source, others=())
        for way, source in zip(ways, sources, strict=True)
        if source is not None
    ]
    return first.beside(others)


@lru_cache(maxsize=1024)
def spread(source: str, count: int) -> str | None:
    """A kernel's text with its words as arguments."""
    tree = ast.parse(source)
    function = tree.body[-1]
    if not isinstance(function, ast.FunctionDef) or [a.arg for a in function.args.args] != [
        "words"
    ]:
        return None
    first = function.body[0]
    if not isinstance(first, ast.Assign) or ast.unparse(first) not in (
        f"w = {_TABLE}",
        f"w = {_TABLE} + 0",
    ):
        return None
    change = _Spreading()
    function.body = [change.visit(line) for line in function.body[1:]]
    if any(isinstance(x, ast.Name) and x.id in ("w", "words") for x in ast.walk(tree)):
        return None
    function.args.args = [ast.arg(f"w{k}") for k in range(count)]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Spreading(ast.NodeTransformer):
    """Loads of words, by what they are as arguments."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if len(node.args) == 1 and not node.keywords and ast.unparse(node.func) == "tl.load":
            at = node.args[0]
            number = _word(at)
            if number is not None:
                return ast.parse(f"w{number}.to(tl.int64)", mode="eval").body
            if (
                isinstance(at, ast.Call)
                and isinstance(at.func, ast.Attribute)
                and at.func.attr == "to"
                and ast.unparse(at.args[0]) == "tl.pointer_type(tl.float64)"
            ):
                number = _word(at.func.value)
                if number is not None:
                    text = f"w{number}.to(tl.int64).to(tl.float64, bitcast=True)"
                    return ast.parse(text, mode="eval").body
        return self.generic_visit(node)


def _word(at: ast.expr) -> int | None:
    """Which word an address is that of: `w + 3`, or `w`."""
    if isinstance(at, ast.Name) and at.id == "w":
        return 0
    if (
        isinstance(at, ast.BinOp)
        and isinstance(at.op, ast.Add)
        and isinstance(at.left, ast.Name)
        and at.left.id == "w"
        and isinstance(at.right, ast.Constant)
        and isinstance(at.right.value, int)
    ):
        return at.right.value
    return None
