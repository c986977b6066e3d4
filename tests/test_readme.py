"""The README's example runs; what pages say of layers and files is what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    scope: dict[str, object] = {}
    exec(compile(blocks[0], "README.md", "exec"), scope)
    loss = scope["loss"]
    assert loss.item() < 0.05  # type: ignore[attr-defined]


def layers_of(contract: str) -> list[str]:
    """The layers of a contract, highest first: the first name of each line."""
    text = (ROOT / ".importlinter").read_text().split(f"contract:{contract}]", 1)[1]
    lines = text.split("layers =\n", 1)[1].split("\n\n", 1)[0].split("\n#", 1)[0].splitlines()
    return [line.strip().split(" ")[0].removeprefix("adjoint.") for line in lines if line.strip()]


def test_the_picture_shows_the_layers() -> None:
    readme = (ROOT / "README.md").read_text()
    inside = [name.removeprefix("engine.") for name in layers_of("engine")]
    shown = [name for name in inside if name != "backends.threads"]  # a setting of both backends
    for layers, indent in ((layers_of("layers"), ""), (shown, "  ")):
        assert layers
        positions = [re.search(rf"^{indent}{re.escape(x)}\b", readme, re.M) for x in layers]
        assert all(positions), layers
        starts = [p.start() for p in positions if p is not None]
        assert starts == sorted(starts)


TELLING = [
    *sorted((ROOT / "adjoint").rglob("README.md")),
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "internals").glob("*.md")),
]


def is_there(path: str, readme: Path) -> bool:
    """Whether a page's path leads somewhere: from its folder or a root, or to a file below them."""
    roots = (readme.parent, ROOT, ROOT / "adjoint", ROOT / "adjoint" / "engine", ROOT / "tests")
    if any((root / path).exists() for root in roots):
        return True
    below = readme.parent if readme.parent.is_relative_to(ROOT / "adjoint") else ROOT / "adjoint"
    return any(True for _ in below.rglob(path.rstrip("/")))


@pytest.mark.parametrize("readme", TELLING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_a_page_names_are_there(readme: Path) -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))(?::\w+)?`", readme.read_text()))
    assert [path for path in sorted(named) if not is_there(path, readme)] == []


@pytest.mark.parametrize(
    "folder",
    [path.parent for path in sorted((ROOT / "adjoint" / "engine").rglob("README.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_readme_names_all_its_folder_has(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    names = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert [name for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", text)] == []
