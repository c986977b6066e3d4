"""What is kept on disk is named by the content of the code that made it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adjoint import engine
from adjoint.engine.backends.disk import package_code
from adjoint.engine.backends.disk.store import DiskStore
from adjoint.engine.core.state import code_digest as module
from adjoint.engine.core.state.code_digest import code_digest, is_running_what_it_names


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


@pytest.mark.skipif(not package_code.TELLS_CHANGES, reason="no time of a file's last change")
def test_an_older_time_does_not_hide_that_a_file_is_new(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `cp -p` gives it. What is running may be what was there before."""
    digests = set()
    for moment in (5e3, 6e3):  # after the files' times, before they were made
        monkeypatch.setattr(module, "_STARTED", moment)
        digests.add(code_digest(str(package), PARTS))
    assert len(digests) == 2


def test_the_start_is_before_any_code_was_read() -> None:
    """A file that is edited before the first program is compiled may be loaded as it was."""
    code = (
        "import time; before = time.time(); import adjoint; after = time.time()\n"
        "from adjoint.engine.core.state.code_digest import changed_since_start as changed\n"
        "print(changed(before), changed(after))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["False", "True"]


@pytest.mark.skipif(not package_code.TELLS_CHANGES, reason="no time of a file's last change")
def test_known_files_are_not_read_again(
    package: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is done to them, what is told of them is what they say."""
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    now = time.time() + 3600.0  # an hour later all of them have long been settled
    monkeypatch.setattr(module, "_STARTED", now)
    reads: list[str] = []

    def read(root: str, parts: tuple[str, ...]) -> str:
        reads.append(root)
        return code_digest(root, parts)

    def told() -> tuple[str, int]:
        reads.clear()
        return package_code.digest_of(str(package), PARTS), len(reads)

    monkeypatch.setattr(package_code, "code_digest", read)
    with monkeypatch.context() as today:
        today.setattr(package_code, "SETTLED", 3600.0)
        assert [told()[1], told()[1]] == [1, 1]  # changed a moment ago: read each time
    monkeypatch.setattr(package_code, "SETTLED", -1.0)
    first = code_digest(str(package), PARTS)
    assert [told(), told()] == [(first, 1), (first, 0)]
    one = package / "core" / "one.py"
    for change in (
        lambda: one.write_text(one.read_text().replace("#", "%")),
        lambda: os.utime(one, (1000, 1000)),
        lambda: one.rename(package / "core" / "inner" / "one.py"),
        lambda: one.write_text("another"),
        lambda: (package / "core" / "added").mkdir(),
        lambda: (package / "core" / "added" / "four.py").write_text("more"),
        one.unlink,
    ):
        wait_for_the_clock(package)
        change()
        wanted = code_digest(str(package), PARTS)
        assert [told(), told()] == [(wanted, 1), (wanted, 0)]
    monkeypatch.setattr(module, "_STARTED", 0.0)  # all were changed since this process began
    assert [told()[1], told()[1]] == [1, 1]


@pytest.mark.skipif(not package_code.TELLS_CHANGES, reason="all files are read each time")
def test_files_that_cannot_be_written_are_read_each_time(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of files in an image are whatever its maker gave them."""
    monkeypatch.setattr(package_code.store, "get", None)
    found = os.statvfs(package)
    flags = os.statvfs_result((*found[:8], found.f_flag | os.ST_RDONLY, *found[9:]))
    monkeypatch.setattr(os, "statvfs", lambda path: flags)
    assert package_code.digest_of(str(package), PARTS) == code_digest(str(package), PARTS)


def test_code_in_an_archive_is_shared_with_nobody(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_code.store, "get", lambda key: None)
    monkeypatch.setattr(package_code.store, "put", None)
    inside = package / "assembly.py" / "engine"  # as a path into a file is
    (package / "assembly.py").unlink()  # and where the text is left out
    for root in (inside, package):
        found = set()
        for moment in (1e10, 2e10):
            monkeypatch.setattr(module, "_STARTED", moment)
            found.add(package_code.digest_of(str(root), PARTS))
        assert len(found) == 2, root


@pytest.mark.skipif(not package_code.TELLS_CHANGES, reason="no time of a file's last change")
def test_another_release_in_the_place_of_the_one_that_was_loaded(
    package: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a folder whose files are all old, say: what runs is not what they say."""
    monkeypatch.setattr(package_code.store, "get", None)
    monkeypatch.setattr(module, "TICK", -1e9)  # no file is new
    link = tmp_path_factory.mktemp("installed") / "current"
    link.symlink_to(package)
    monkeypatch.setattr(module, "ENGINE", str(link))
    monkeypatch.setattr(module, "_HOME", os.stat(link))
    shared = code_digest(str(link), PARTS)
    assert is_running_what_it_names()
    other = link.parent / "next"
    shutil.copytree(package, other)
    link.unlink()
    link.symlink_to(other)
    assert not is_running_what_it_names()
    assert package_code.digest_of(str(link), PARTS) != shared
    assert package_code.digest_of(str(link), PARTS) != code_digest(str(other), PARTS[:1])


@pytest.mark.parametrize(
    ("before", "edited"),
    [("", "a"), ("a", "a"), ("ab", "a"), ("ab", "b"), ("ab", "ab")],
    ids=["late", "again", "not the last again", "the last again", "both again"],
)
@pytest.mark.parametrize("how", ["reloaded", "imported anew", "put in its place"])
def test_code_loaded_after_an_edit_keeps_nothing(
    before: str, edited: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are loaded when they are needed, long after the digest was taken, or once more."""
    monkeypatch.setattr(module, "_unchanged", {})
    monkeypatch.setattr(engine, "__path__", [*engine.__path__, str(tmp_path)])
    for letter in "ab":
        path = tmp_path / f"late_{letter}.py"
        path.write_text("pass")
        monkeypatch.setattr(module, "_STARTED", path.stat().st_ctime + 3600.0)
    importlib.invalidate_caches()
    cache = DiskStore(tmp_path, 2**20)
    try:
        for letter in before:
            importlib.import_module(f"adjoint.engine.late_{letter}")
        cache.put("0" * 16, b"before")
        assert cache.get("0" * 16) == b"before"
        for letter in edited:
            os.utime(tmp_path / f"late_{letter}.py", (time.time() + 7200.0,) * 2)
            load_again(f"adjoint.engine.late_{letter}", how)
        cache.put("1" * 16, b"after")
        assert cache.get("1" * 16) is None
    finally:
        for letter in "ab":
            sys.modules.pop(f"adjoint.engine.late_{letter}", None)
            vars(engine).pop(f"late_{letter}", None)


def load_again(name: str, how: str) -> None:
    """As `reload`, who removes a module, or who makes one of a file does it."""
    if name not in sys.modules:
        importlib.import_module(name)
    elif how == "reloaded":
        importlib.reload(sys.modules[name])
    elif how == "imported anew":
        del sys.modules[name]
        importlib.import_module(name)
    else:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        spec = importlib.util.spec_from_file_location(name, spec.origin)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)


def wait_for_the_clock(folder: Path) -> None:
    """Until the time that files are given is another."""
    probe = folder / "probe"
    probe.write_text("")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")
