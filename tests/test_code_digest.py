"""What is kept on disk is named by the content of the code that made it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjoint.engine.core.state import code_digest as module
from adjoint.engine.core.state.code_digest import code_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "core" / "inner").mkdir(parents=True)
    for name in ("one.py", "inner/two.py", "three.txt"):
        (tmp_path / "core" / name).write_text(f"# {name}")
    (tmp_path / "assembly.py").write_text("pass")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1000, 1000))
    return tmp_path


PARTS = ("core", "assembly.py")


def test_by_content_not_by_time(package: Path) -> None:
    first = code_digest(str(package), PARTS)
    os.utime(package / "core" / "one.py", (2000, 2000))
    (package / "core" / "three.txt").write_text("no code")
    assert code_digest(str(package), PARTS) == first
    for path in ("core/one.py", "core/inner/two.py", "assembly.py"):
        text = (package / path).read_text()
        (package / path).write_text(text.replace("#", "%").replace("pass", "pasS"))
        os.utime(package / path, (1000, 1000))  # of the same size and time
        assert code_digest(str(package), PARTS) != first, path
        (package / path).write_text(text)
        os.utime(package / path, (1000, 1000))
    assert code_digest(str(package), PARTS) == first


def test_by_place(package: Path) -> None:
    first = code_digest(str(package), PARTS)
    (package / "core" / "one.py").rename(package / "core" / "inner" / "one.py")
    assert code_digest(str(package), PARTS) != first


def test_code_that_changed_since_the_start_is_shared_with_nobody(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = code_digest(str(package), PARTS)
    monkeypatch.setattr(module, "_STARTED", 500.0)
    mine = code_digest(str(package), PARTS)
    monkeypatch.setattr(module, "_STARTED", 501.0)
    assert len({first, mine, code_digest(str(package), PARTS)}) == 3
