"""The README's example runs; what pages say of layers and files is what is there."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.pages import links

ROOT = Path(__file__).resolve().parent.parent


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    scope: dict[str, object] = {}
    exec(compile(blocks[0], "README.md", "exec"), scope)
    loss = scope["loss"]
    assert loss.item() < 0.05  # type: ignore[attr-defined]


def test_the_records_are_those_of_the_package() -> None:
    """What the second block states, the source states; it may say more, and rules left out."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    shown = assigned(blocks[1])
    there: dict[str, ast.Call] = {}
    for path in sorted((ROOT / "adjoint" / "engine" / "ops").rglob("*.py")):
        there.update(
            (name, call) for name, call in assigned(path.read_text()).items() if name in shown
        )
    assert len(shown) == len(there) == 3
    for name, call in shown.items():
        real = there[name]
        assert ast.dump(call.func) == ast.dump(real.func)
        for mine, theirs in zip(call.args, real.args, strict=True):
            if isinstance(mine, ast.Lambda) and ast.unparse(mine.body) == "...":
                assert isinstance(theirs, ast.Lambda)
                mine, theirs = mine.args, theirs.args
            assert ast.dump(mine) == ast.dump(theirs)
        assert {ast.dump(k) for k in call.keywords} <= {ast.dump(k) for k in real.keywords}


def assigned(source: str) -> dict[str, ast.Call]:
    """The calls whose results a module gives names, by name."""
    return {
        node.targets[0].id: node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
    }


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


def test_the_files_of_the_repository_that_pages_name_are_there() -> None:
    """The same of pages that also name files of their reader's."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    ours = r"`((?:adjoint|benchmarks|docs|examples|tests|tools)/[\w/]+(?:\.\w+|/))(?::\w+)?`"
    named = {path for page in pages for path in re.findall(ours, page.read_text())}
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


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


# -- links --------------------------------------------------------------------------------------


def test_links_lead_to_files_and_headings() -> None:
    found = [link for page in links.pages() for link in links.links_of(page)]
    assert len(found) > 60
    assert links.lost_in_the_repository(found) == []


def test_links_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The `one` heading\n## Again\n## Again\n")
    (tmp_path / "page.md").write_text(
        """[a](other.md) [b](other.md#the-one-heading) [c](other.md#again-1) [d](#top) `[e](gone.md)`
```python
x = [f](gone.md)
```
![g](gone.png "a title") and [h](other.md#gone)
[i]: gone.txt
<https://example.invalid/a>, [j](https://example.invalid/b)
# Top
"""
    )
    found = links.links_of(tmp_path / "page.md")
    lost = [text.rsplit("page.md:", 1)[1] for text in links.lost_in_the_repository(found)]
    assert lost == [
        "5: gone.png: there is no such file",
        "5: other.md#gone: there is no such heading",
        "6: gone.txt: there is no such file",
    ]
    addresses = [link.target for link in found if link.is_address]
    assert addresses == ["https://example.invalid/a", "https://example.invalid/b"]


class Answers(BaseHTTPRequestHandler):
    """Answers with the number that the path is; `/501/200` with 200, to GET alone."""

    def do_HEAD(self) -> None:
        self.send_response(int(self.path.split("/")[1]))
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(int(self.path.split("/")[-1]))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_addresses_are_asked_for(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    nobody = "http://127.0.0.1:9"  # the port of a service that throws away
    asked = [f"{server}/{path}" for path in ("200", "404", "403", "501/200", "500")] + [nobody]
    lost = links.lost_in_the_network(asked, seconds=30)
    assert set(lost) == {f"{server}/404", f"{server}/500", nobody}
    assert lost[f"{server}/404"].startswith("404")
    assert lost[nobody].startswith("no answer")
    with pytest.raises(links.NoAnswer, match="127.0.0.1:9"):
        links.lost_in_the_network([nobody], seconds=30)
    assert links.lost_in_the_network([], seconds=1) == {}
