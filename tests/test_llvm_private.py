"""Who may write the cache of code: owners, modes, links, swaps, users without a home."""

from __future__ import annotations

import json
import os
import pwd
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.disk import private, store
from adjoint.engine.backends.disk.store import DiskStore
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.core.identity.keys import key_of

KEY = key_of("a kernel")
STRANGER, NOBODY = 4242, 4343  # users that need not exist
ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="becomes another user")


class Place:
    """A cache with one entry, and the paths of all that is checked."""

    def __init__(self, top: Path) -> None:
        self.top = top / "top"
        self.parent = self.top / "parent"
        self.cache = DiskStore(self.parent, 2**20)
        self.cache.put(KEY, b"code")
        assert self.cache.folder is not None
        self.folder = Path(self.cache.folder)
        self.part = self.folder / KEY[:2]
        self.entry = self.part / KEY

    def again(self) -> DiskStore:
        return DiskStore(self.parent, 2**20)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


Give = Callable[[Path], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Give a path to another user; who is not root cannot, and has the check see it so."""
    if ROOT:
        return lambda path: os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    given: set[tuple[int, int]] = set()
    ours = private._ours
    monkeypatch.setattr(
        private, "_ours", lambda about: (about.st_dev, about.st_ino) not in given and ours(about)
    )

    def pretend(path: Path) -> None:
        about = path.lstat()
        given.add((about.st_dev, about.st_ino))

    return pretend


def in_child(work: Callable[[], Any], user: int | None = None) -> Any:
    """What a function returns in a child process, of another user if one is named."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(writing, json.dumps(work()).encode())
        except BaseException as error:
            os.write(writing, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return json.loads(told)


def used(cache: DiskStore) -> list[Any]:
    """What a cache gives, keeps and says."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = cache.get(KEY)
        other = key_of("another")
        cache.put(other, b"more")
        kept = cache.get(other)
        cache.put(other, b"more")
    return [
        None if found is None else found.decode(),
        None if kept is None else kept.decode(),
        [str(w.message) for w in said],
    ]


# -- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["folder", "parent", "top"])
@pytest.mark.parametrize("mode", [0o770, 0o775, 0o707, 0o777, 0o1777])
def test_folders_that_others_can_write_are_refused(place: Place, which: str, mode: int) -> None:
    path: Path = getattr(place, which)
    path.chmod(mode)
    found, kept, said = used(place.again())
    if mode & 0o1000 and which != "folder":  # sticky: others cannot replace what is ours there
        assert (found, kept, said) == ("code", "more", [])
        return
    assert (found, kept) == (None, None)
    (message,) = said
    assert f"{path} can be written by other users, mode {mode:04o}" in message
    assert f"chmod go-w {path}" in message
    assert "Set ADJOINT_CACHE_DIR to a folder of yours" in message
    path.chmod(0o755)
    assert used(place.again()) == ["code", "more", []]


@pytest.mark.parametrize("which", ["folder", "parent", "top"])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_folders_of_others_are_refused(place: Place, give: Give, which: str, mode: int) -> None:
    path: Path = getattr(place, which)
    path.chmod(mode)
    give(path)
    found, kept, said = used(place.again())
    assert (found, kept) == (None, None)
    (message,) = said
    assert f"{path} belongs to another user" in message


def test_a_folder_that_becomes_writable_is_not_read_any_more(place: Place) -> None:
    assert place.cache.get(KEY) == b"code"
    place.folder.chmod(0o770)
    assert place.cache.get(KEY) is None
    with pytest.warns(UserWarning, match="can be written by other users"):
        place.cache.put(KEY, b"more")
    place.folder.chmod(0o700)
    assert place.cache.get(KEY) == b"code"


def test_what_is_made_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place = Place(tmp_path)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o7777 for path in (place.top, place.folder, place.part)]
    assert modes == [0o700] * 3
    assert place.entry.stat().st_mode & 0o7777 == 0o600


def test_a_removed_folder_is_made_again(place: Place) -> None:
    import shutil

    shutil.rmtree(place.top)
    assert place.cache.get(KEY) is None
    place.cache.put(KEY, b"again")
    assert place.cache.get(KEY) == Place.again(place).get(KEY) == b"again"


def test_a_descriptor_that_was_closed_or_taken_is_not_used(place: Place, tmp_path: Path) -> None:
    files = place.cache._files
    assert files is not None
    assert files._handle is not None
    number = files._handle.fd
    elsewhere = os.open(tmp_path, os.O_RDONLY)
    os.dup2(elsewhere, number)  # what a program does that closes all and opens its own
    try:
        assert place.cache.get(KEY) == b"code"
        assert os.path.samestat(os.fstat(number), os.fstat(elsewhere))  # left alone
    finally:
        os.close(elsewhere)
        os.close(number)


# -- parts and entries ----------------------------------------------------------------------------


def swap_for_link(path: Path) -> None:
    aside = path.with_name(path.name + ".aside")
    path.rename(aside)
    path.symlink_to(aside)


def swap_for_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


SPOILT: dict[str, Callable[[Place, Give], None]] = {
    "entry writable by group": lambda place, give: place.entry.chmod(0o660),
    "entry writable by all": lambda place, give: place.entry.chmod(0o602),
    "entry of another": lambda place, give: give(place.entry),
    "entry a link": lambda place, give: swap_for_link(place.entry),
    "entry a pipe": lambda place, give: swap_for_pipe(place.entry),
    "part writable by group": lambda place, give: place.part.chmod(0o770),
    "part writable by all": lambda place, give: place.part.chmod(0o1777),
    "part of another": lambda place, give: give(place.part),
    "part a link": lambda place, give: swap_for_link(place.part),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("fresh", [False, True])
def test_spoilt_parts_and_entries_are_missing(
    place: Place, give: Give, spoil: Callable[[Place, Give], None], fresh: bool
) -> None:
    spoil(place, give)
    cache = place.again() if fresh else place.cache
    with warnings.catch_warnings(action="error"):
        assert cache.get(KEY) is None
    if place.entry.parent.is_symlink() or private._fault(place.part.lstat()):
        with pytest.warns(UserWarning, match="cannot write"):
            cache.put(KEY, b"made anew")
        assert cache.get(KEY) is None
    else:
        cache.put(KEY, b"made anew")  # which replaces what was there
        assert cache.get(KEY) == b"made anew"
        assert place.entry.is_file()
        assert not place.entry.is_symlink()


# -- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["{top}", "top", "../{name}/top", "one", "./top/parent/.."])
def test_links_of_ours_are_followed(place: Place, tmp_path: Path, target: str) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(place.top)
    link = tmp_path / "link"
    link.symlink_to(target.format(top=place.top, name=tmp_path.name))
    assert used(DiskStore(link / "parent", 2**20)) == ["code", "more", []]


def test_links_are_checked_where_they_lead_and_themselves(
    place: Place, tmp_path: Path, give: Give
) -> None:
    link = tmp_path / "link"
    link.symlink_to(place.top)
    cache = DiskStore(link / "parent", 2**20)
    place.top.chmod(0o777)
    assert f"{place.top} can be written" in used(cache)[2][0]
    place.top.chmod(0o700)
    give(link)
    assert (
        f"{link} is a symbolic link of another user"
        in used(DiskStore(link / "parent", 2**20))[2][0]
    )


def test_links_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "too many symbolic links" in used(DiskStore(tmp_path / "a", 2**20))[2][0]


def test_a_swap_after_the_first_use_is_not_followed(place: Place, tmp_path: Path) -> None:
    evil = Place(tmp_path / "evil")
    evil.cache.put(KEY, b"evil")
    place.top.rename(tmp_path / "away")
    place.top.symlink_to(evil.top)
    assert place.cache.get(KEY) == b"code"


@pytest.mark.parametrize("which", ["top", "parent", "folder", "part", "entry"])
def test_a_swap_between_looking_and_opening_is_refused(
    place: Place, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = getattr(place, which)
    evil = Place(tmp_path / "evil")
    evil.cache.put(KEY, b"evil")
    plain = os.open

    def swapping(name: Any, *args: Any, **kwargs: Any) -> int:
        if name == path.name and not path.is_symlink():
            path.rename(tmp_path / "away")
            path.symlink_to(getattr(evil, which))
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", swapping)
    assert used(place.again())[0] is None
    assert path.is_symlink()


# -- other users, no home, no room ----------------------------------------------------------------


def open_up(folder: Path) -> None:
    """Let other users into a test's folder, wherever pytest put it."""
    for above in (folder, *folder.parents):
        if above == folder or above.name.startswith(("pytest-", "popen-")):
            above.chmod(0o755)


@as_root
@pytest.mark.parametrize("owner", [0, STRANGER, NOBODY])
def test_what_a_user_trusts_is_roots_and_his_own(tmp_path: Path, owner: int) -> None:
    open_up(tmp_path)
    place = Place(tmp_path)
    for path in (place.top, place.parent, place.folder, place.part, place.entry):
        path.chmod(0o755 if path != place.entry else 0o644)
        os.chown(path, owner, owner)
    found, kept, said = in_child(lambda: used(place.again()), STRANGER)
    if owner == NOBODY:
        assert (found, kept, len(said)) == (None, None, 1)
        assert f"belongs to another user (uid {NOBODY})" in said[0]
    elif owner == STRANGER:
        assert [found, kept, said] == ["code", "more", []]
    else:  # root's, as of a whole machine: read, and not written
        assert (found, kept, len(said)) == ("code", None, 1)
        assert "Permission denied" in said[0]


@as_root
def test_a_parent_that_cannot_be_written(tmp_path: Path) -> None:
    open_up(tmp_path)
    found, kept, said = in_child(lambda: used(DiskStore(tmp_path / "new", 2**20)), STRANGER)
    assert (found, kept, len(said)) == (None, None, 1)
    assert "cannot use" in said[0]
    assert "Permission denied" in said[0]


def test_a_full_disk_leaves_nothing_behind(place: Place) -> None:
    def fill() -> list[Any]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            place.cache.put(KEY, bytes(10_000))
            place.cache.put(KEY, bytes(10_000))
        found = place.cache.get(KEY)
        return [found.decode() if found else None, [str(w.message) for w in said]]

    found, said = in_child(fill)
    assert found == "code"
    assert len(said) == 1
    assert "cannot write" in said[0]
    assert [p.name for p in place.part.iterdir()] == [KEY]


def test_without_a_home_nothing_prepared_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "ADJOINT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def unknown(user: int) -> Any:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    prepared = DiskStore(tmp_path / f"adjoint-{os.geteuid()}", 2**20)
    prepared.put(KEY, b"code")
    assert store.place() is None
    (message,) = used(DiskStore(store.place(), 2**20))[2]
    assert "this user has no home folder" in message
    assert used(DiskStore(None, 2**20))[:2] == [None, None]
    assert DiskStore(None, 2**20).usage().entries == DiskStore(None, 2**20).clear() == 0


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_no_place_is_none(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJOINT_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative too")
    assert store.place() is None or store.place() == "/.cache/adjoint"


def test_compiled_code_works_where_the_cache_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.folder.chmod(0o777)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(place.parent))
    monkeypatch.setattr(library, "_loaded", {})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for factor in (2.0, 3.0):
            result = ad.compile(lambda x, factor=factor: (x * factor).sum())(ad.arange(4.0))
            assert result.item() == 6 * factor
    assert [str(w.message).split(":")[0] for w in said] == [
        "Adjoint compiles without its disk cache"
    ]
    assert [p.name for p in place.folder.rglob("*") if p.is_file()] == [KEY]
