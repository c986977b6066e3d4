"""The shape of the package, read from its source: no cycles, and an engine that stands alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from adjoint.engine.core.state.code_digest import DECIDING
from adjoint.engine.core.state.loading import collecting_later

ROOT = Path(__file__).parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "adjoint").rglob("*.py")
}
# The fields of a statement that hold statements: imports stand in no other place.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Modules of the package that code imports, also late; not those for type checkers alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and (module := origin(node, package)) in FILES:
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in FILES else module
        for block in BLOCKS:
            waiting += getattr(node, block, ())


def origin(node: ast.ImportFrom, package: str) -> str:
    """The module that names are imported from; `from ..x` is seen from a package."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) + 1 - node.level]
    return ".".join([*above, node.module] if node.module else above)


def package_of(name: str) -> str:
    return name if FILES[name].stem == "__init__" else name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked of a module's text. Its tree is let go: all of them at once are a million
    objects, which take longer to keep than to read, and so does to look for garbage in one."""

    imports: list[str]
    classes: list[str]


def source(name: str) -> Source:
    tree = ast.parse(FILES[name].read_bytes())
    return Source(
        sorted({*imported(tree, package_of(name))} - {name}),
        [node.name for node in tree.body if isinstance(node, ast.ClassDef)],
    )


@cache
def sources() -> dict[str, Source]:
    with collecting_later():
        return {name: source(name) for name in FILES}


def imports() -> dict[str, list[str]]:
    """Of each module, the others that it imports."""
    return {name: module.imports for name, module in sources().items()}


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


@pytest.mark.parametrize(
    ("text", "package", "found"),
    [
        ("from .record import Record", "adjoint.engine.core.operations", "record"),
        ("from . import record", "adjoint.engine.core.operations", "record"),
        ("from ..operations import record", "adjoint.engine.core.state", "record"),
        (
            "def f():\n    from ..operations.record import Record",
            "adjoint.engine.core.state",
            "record",
        ),
    ],
)
def test_relative_imports_are_seen(text: str, package: str, found: str) -> None:
    assert [*imported(ast.parse(text), package)] == [f"adjoint.engine.core.operations.{found}"]


def test_no_module_imports_itself_in_a_circle() -> None:
    assert cycles(imports()) == []


def test_the_engine_imports_nothing_outside_itself() -> None:
    outside = {
        (name, other)
        for name, others in imports().items()
        if name.startswith("adjoint.engine")
        for other in others
        if not other.startswith("adjoint.engine")
    }
    assert not outside


def test_whatever_decides_a_program_is_part_of_its_name() -> None:
    """What the code imports that names what is kept on disk; of files, `assembly` imports all."""
    names = {part.removesuffix(".py") for part in DECIDING}
    folders = tuple(f"adjoint.engine.{p}." for p in DECIDING if not p.endswith(".py"))
    missing = {
        (name, other)
        for name, others in imports().items()
        if f"{name}.".startswith(folders)
        for other in others
        if (other.split(".") + [""] * 2)[2] not in names
    }
    assert not missing


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
    assert {k: n for k, n in folders.items() if n > 20 and k.startswith("engine")} == {}
    long = {name: n for name, p in FILES.items() if (n := p.read_text().count("\n")) > 650}
    assert long == {}


# Names that PyTorch or its libraries give to several classes, and of ours a network in two forms.
SHARED_NAMES = frozenset(
    """AuxRequest BasicBlock Batcher Bottleneck CIFAR10 CIFAR100 CenterCrop Compose Concater ConvertImageDtype ElasticTransform Event
    FashionMNIST GradScaler Graph Identity ImageFolder InceptionAux InvertedResidual Lambda MBConv MLP MNIST
    Mapper Node PILToTensor Pad Partition RandomAffine RandomApply RandomChoice RandomCrop
    RandomHorizontalFlip RandomOrder RandomPerspective RandomResizedCrop RandomRotation
    RandomVerticalFlip ResidualBlock Resize Sampler Stream StreamContext ToPILImage ToTensor Transform Transformer
    Value Zipper autocast profile Block VAE""".split()
)


def defined_twice(start: str) -> dict[str, list[str]]:
    """Classes of one name, with the modules they are in."""
    places: dict[str, list[str]] = {}
    for name, module in sources().items():
        if name.startswith(start):
            for defined in module.classes:
                places.setdefault(defined, []).append(name)
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def test_a_class_name_means_one_thing_in_the_engine() -> None:
    assert defined_twice("adjoint.engine") == {}


def test_a_class_name_means_one_thing() -> None:
    assert {k: v for k, v in defined_twice("adjoint").items() if k not in SHARED_NAMES} == {}


# A note is written where its name begins a line, alone or before a colon; elsewhere it is cited.
NOTE = re.compile(r'^\s*(?:# |""")?Note \[([^\]]+)\](?:\s*$|: )', re.MULTILINE)


def test_a_note_is_written_once_and_found() -> None:
    texts = [path.read_text() for path in FILES.values()]
    written = [name for text in texts for name in NOTE.findall(text)]
    twice = {name for name in written if written.count(name) > 1}
    assert not twice, f"notes with one name and several texts: {sorted(twice)}"
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    pages += [path.read_text() for path in (ROOT / "adjoint").rglob("*.md")]
    found = [name for text in (*texts, *pages) for name in re.findall(r"Note \[([^\]]+)\]", text)]
    cited = {" ".join(name.split()) for name in found}
    assert cited <= {*written}, f"notes that nobody wrote: {sorted(cited - {*written})}"
