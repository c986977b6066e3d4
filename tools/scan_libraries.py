"""Which names of torch and torchvision do installed libraries use that Adjoint does not have?

    python tools/scan_libraries.py SITE_PACKAGES [LIBRARY ...]

Reads the libraries' sources without running them: imports and attributes, aliases resolved. Prints
each missing name with the libraries that use it, those that most use first. A name inside `try`, or
in a library's tests, counts like any other; what it is needed for is for the reader to judge.
"""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from adjoint.cli import torch_alias


class Uses:
    """The dotted names below torch that a file uses."""

    def __init__(self, tree: ast.AST) -> None:
        self.aliases: dict[str, str] = {}
        self.found: set[str] = set()
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import):
                self.take_import(node)
            elif isinstance(node, ast.ImportFrom):
                self.take_from(node)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                self.take_attribute(node)

    def take_import(self, node: ast.Import) -> None:
        """`import torch.nn as nn`."""
        for alias in node.names:
            if alias.name.split(".")[0] in torch_alias.PACKAGES:
                self.found.add(alias.name)
                bound = alias.asname or alias.name.split(".")[0]
                self.aliases[bound] = alias.name if alias.asname else bound

    def take_from(self, node: ast.ImportFrom) -> None:
        """`from torch.nn import functional as F`."""
        if node.level or (node.module or "").split(".")[0] not in torch_alias.PACKAGES:
            return
        for alias in node.names:
            path = f"{node.module}.{alias.name}" if alias.name != "*" else str(node.module)
            self.found.add(path)
            self.aliases[alias.asname or alias.name] = path

    def take_attribute(self, node: ast.Attribute) -> None:
        """`F.relu`."""
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.aliases:
            self.found.add(".".join([self.aliases[inner.id], *reversed(parts)]))


def uses(file: Path) -> set[str]:
    """The names a file uses, each by its full path."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if "torch" not in text:
        return set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Uses(ast.parse(text)).found
    except (SyntaxError, RecursionError):
        return set()


def libraries(folder: Path, wanted: list[str]) -> Iterator[tuple[str, list[Path]]]:
    """Installed packages and their files."""
    skipped = {"torch", "torchvision", "functorch", "torchgen", "triton", "adjoint"}
    for entry in sorted(folder.iterdir()):
        name = entry.stem if entry.is_file() else entry.name
        if name in skipped or (wanted and name not in wanted):
            continue
        if entry.is_dir() and entry.suffix == "":
            yield name, sorted(entry.rglob("*.py"))
        elif entry.suffix == ".py":
            yield name, [entry]


def missing_part(path: str) -> str | None:
    """The shortest beginning of a path that Adjoint does not have, or None.

    Attributes of values (`torch.float32.itemsize`) count as there: only modules and classes decide.
    """
    parts = path.split(".")
    owner: Any = import_module(parts[0])
    for end in range(2, len(parts) + 1):
        here = ".".join(parts[:end])
        try:
            owner = getattr(owner, parts[end - 1])
            continue
        except (AttributeError, NotImplementedError):
            pass
        try:
            owner = import_module(here)
        except ImportError:
            decides = isinstance(owner, (type(sys), type))
            return here if decides else None
    return None


def main() -> int:
    """Scan, and print what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("library", nargs="*")
    parser.add_argument("--least", type=int, default=1, help="of how many libraries, at least")
    given = parser.parse_args()
    torch_alias.install()
    users: dict[str, set[str]] = defaultdict(set)
    for name, files in libraries(given.folder, given.library):
        for file in files:
            for path in uses(file):
                users[path].add(name)
    missing: dict[str, set[str]] = defaultdict(set)
    for path, names in users.items():
        part = missing_part(path)
        if part is not None:
            missing[part] |= names
    rows = sorted(missing.items(), key=lambda row: (-len(row[1]), row[0]))
    for path, names in rows:
        if len(names) >= given.least:
            print(f"{len(names):3d} {path:60s} {' '.join(sorted(names))}")
    print(f"{len(rows)} of {len(users)} names are missing", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
