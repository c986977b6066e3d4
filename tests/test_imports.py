"""The shape of the package, read from its source: no cycles, and an engine that stands alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "adjoint").rglob("*.py")
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that code imports, also late; not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else node.module
        yield from imported(node)


IMPORTS = {name: sorted({*imported(ast.parse(path.read_text()))}) for name, path in FILES.items()}


def cycles(graph: dict[str, list[str]]) -> list[list[str]]:
    """Sets of modules that all reach each other (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in number:
            visit(name)
    return found


def test_the_finder_finds() -> None:
    assert cycles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [["b", "c"]]


def test_no_module_imports_itself_in_a_circle() -> None:
    assert cycles(IMPORTS) == []


def test_the_engine_imports_nothing_outside_itself() -> None:
    outside = {
        (name, other)
        for name, others in IMPORTS.items()
        if name.startswith("adjoint.engine")
        for other in others
        if not other.startswith("adjoint.engine")
    }
    assert not outside


@pytest.mark.parametrize("backend", ["llvm", "triton"])
def test_the_compiler_names_no_backend(backend: str) -> None:
    """Nor its text: a string could import it late."""
    named = [
        name
        for name, path in FILES.items()
        if name.startswith("adjoint.engine.compiler")
        and f"adjoint.engine.backends.{backend}" in path.read_text()
    ]
    assert not named


def test_files_and_folders_stay_small() -> None:
    """Catalogues of like things (a layer, an optimizer, a distribution to a file) may be longer."""
    catalogues = {".", "nn/modules", "optim", "distributions"}  # ".": PyTorch's paths
    folders: dict[str, int] = {}
    for path in FILES.values():
        folder = path.parent.relative_to(ROOT / "adjoint").as_posix()
        folders[folder] = folders.get(folder, 0) + 1
    assert {k: n for k, n in folders.items() if n > 24 and k not in catalogues} == {}
    long = {name: n for name, p in FILES.items() if (n := p.read_text().count("\n")) > 650}
    assert long == {}
