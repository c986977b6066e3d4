"""The disk cache of code: damage, bounds, processes at once, folders that cannot be used."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.disk.store import HEAD, DiskStore
from adjoint.engine.core.identity.keys import key_of

KEY = key_of("a kernel")
VERSIONED = f"v{store.VERSION}"


@pytest.fixture
def cache(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path, 2**20)


def folder_of(cache: DiskStore) -> Path:
    assert cache.folder is not None
    return Path(cache.folder)


def path_of(cache: DiskStore, key: str) -> Path:
    return folder_of(cache) / key[:2] / key


def only_file(cache: DiskStore) -> Path:
    (path,) = [p for p in folder_of(cache).rglob("*") if p.is_file()]
    return path


def test_what_is_put_is_got(cache: DiskStore) -> None:
    assert cache.get(KEY) is None
    for payload in (b"code", b"", bytes(100_000), b"other code"):
        cache.put(KEY, payload)
        assert cache.get(KEY) == payload
    assert DiskStore(folder_of(cache).parent, 2**20).get(KEY) == b"other code"


def test_entries_put_together_are_written_at_the_end(
    cache: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process runs is looked at once, after all of them were made; other threads wait for none."""
    asked: list[bool] = []

    def is_running() -> bool:
        asked.append(True)
        return not edited

    monkeypatch.setattr(store, "is_running_what_it_names", is_running)
    keys, edited = [key_of(str(n)) for n in range(4)], False
    with suppress(RuntimeError), cache.together():
        cache.put(keys[0], b"first")
        with cache.together():
            cache.put_all({keys[1]: b"second"})
        assert not asked
        assert cache.get(keys[1]) is None
        other = threading.Thread(target=cache.put, args=(keys[2], b"of another thread"))
        other.start()
        other.join()
        assert asked == [True]
        assert cache.get(keys[2]) == b"of another thread"
        raise RuntimeError("whatever becomes of what follows")
    assert asked == [True, True]
    assert [cache.get(key) for key in keys[:2]] == [b"first", b"second"]
    with cache.together():
        cache.put(keys[3], b"of which nobody knows what made it")
        edited = True
    assert cache.get(keys[3]) is None


def test_an_entry_under_another_key_is_missing(cache: DiskStore) -> None:
    other = KEY[:2] + key_of("another")[2:]
    cache.put(KEY, b"code")
    path_of(cache, KEY).rename(path_of(cache, other))
    assert cache.get(other) is None
    assert not path_of(cache, other).exists()


def test_keys_hold_all_parts_apart() -> None:
    keys = {key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", ""), key_of(b"ab")}
    assert len(keys) == 5
    with pytest.raises(ValueError, match="hexadecimal digest"):
        DiskStore(Path("x"), 1).get("../../etc/passwd")


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "head", "foreign", "longer"])
def test_a_damaged_entry_is_missing_and_rebuilt(cache: DiskStore, damage: str) -> None:
    cache.put(KEY, b"the code of a kernel")
    path = only_file(cache)
    data = path.read_bytes()
    bad = {
        "flip": data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        "truncate": data[:-1],
        "empty": b"",
        "head": data[: HEAD - 2],
        "foreign": b"x" * len(data),
        "longer": data + b"\0",
    }[damage]
    path.write_bytes(bad)
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, b"made anew")
    assert cache.get(KEY) == b"made anew"


def test_another_version_has_another_folder(
    cache: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, b"code")
    monkeypatch.setattr(store, "VERSION", "999")
    assert DiskStore(folder_of(cache).parent, 2**20).get(KEY) is None


# -- bounds ---------------------------------------------------------------------------------------


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = DiskStore(tmp_path, 20_000)
    keys = [key_of(str(i)) for i in range(10)]
    for i, key in enumerate(keys):
        cache.put(key, bytes(1900))
        os.utime(path_of(cache, key), (1000 + i, 1000 + i))
    assert cache.get(keys[0]) is not None  # used again: now the youngest
    cache.put(key_of("one more"), bytes(1900))
    usage = cache.usage()
    assert usage.size <= 0.8 * 20_000
    left = [i for i, key in enumerate(keys) if path_of(cache, key).exists()]
    assert left[0] == 0
    assert left[1:] == list(range(11 - len(left), 10))
    assert cache.get(key_of("one more")) is not None


def test_the_size_never_stays_above_the_limit(tmp_path: Path) -> None:
    cache = DiskStore(tmp_path, 10_000)
    for i in range(60):
        cache.put(key_of(str(i)), bytes(700))
        assert cache.usage().size <= 10_000


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = DiskStore(tmp_path, 1000)
    cache.put(KEY, bytes(2000))
    assert cache.get(KEY) is None
    assert cache.usage().entries == 0


def test_half_written_files_of_the_dead_are_removed(cache: DiskStore) -> None:
    cache.put(KEY, b"code")
    old, new = path_of(cache, KEY).with_name("old.part"), path_of(cache, KEY).with_name("new.part")
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    assert cache.usage().entries == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_sizes() -> None:
    assert store.parse_size("4096") == 4096
    assert store.parse_size("256M") == store.parse_size("256 MiB") == 256 * 2**20
    assert store.parse_size("1.5g") == 3 * 2**29
    with pytest.raises(ValueError, match="'lots' is no size"):
        store.parse_size("lots")


# -- folders --------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_done_without_and_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskStore(tmp_path / "file" / "sub", 2**20)
    with pytest.warns(UserWarning, match="without its disk cache.*Set ADJOINT_CACHE_DIR"):
        cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    with warnings.catch_warnings(action="error"):
        cache.put(KEY, b"code")
        assert cache.get(KEY) is None


def test_a_folder_that_stops_being_writable(cache: DiskStore) -> None:
    cache.put(KEY, b"code")
    other = next(k for k in map(key_of, map(str, range(99))) if k[:2] != KEY[:2])
    (folder_of(cache) / other[:2]).write_text("in the way")
    with pytest.warns(UserWarning, match="cannot write"):
        cache.put(other, b"code")
    with warnings.catch_warnings(action="error"):
        cache.put(other, b"code")
    assert cache.get(KEY) == b"code"


def test_no_cache_at_all(tmp_path: Path) -> None:
    cache = DiskStore(tmp_path, 0)
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert not list(tmp_path.iterdir())


def test_the_environment_names_place_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", "3M")
    store.put(KEY, b"code")
    assert store.get(KEY) == b"code"
    usage = store.default().usage()
    assert usage.folder == str(tmp_path / "here" / VERSIONED)
    assert (usage.entries, usage.limit) == (1, 3 * 2**20)
    if sys.platform.startswith("linux"):
        monkeypatch.delenv("ADJOINT_CACHE_DIR")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert store.place() == str(tmp_path / "adjoint")


def test_the_command_shows_and_clears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    store.put(KEY, bytes(2**20))
    assert main(["info"]) == 0
    assert f"{tmp_path / VERSIONED} (1 entries, 1.0 of 1024 MiB)" in capsys.readouterr().out
    assert main(["info", "--clear-cache"]) == 0
    assert "removed 1 entries" in capsys.readouterr().out
    assert store.get(KEY) is None


# -- processes at once ----------------------------------------------------------------------------

PAYLOADS = {key_of(str(i)): bytes([i]) * (500 + 300 * i) for i in range(12)}


def hammer(folder: str, seed: int) -> int:
    """Read, write, damage and clear entries in a cache too small for them; count what is wrong."""
    import random

    draw = random.Random(seed)
    cache, wrong = DiskStore(Path(folder), 12_000), 0
    for _ in range(400):
        key = draw.choice(list(PAYLOADS))
        got = cache.get(key)
        wrong += got is not None and got != PAYLOADS[key]
        action = draw.random()
        if action < 0.6:
            cache.put(key, PAYLOADS[key])
        elif action < 0.65 and path_of(cache, key).exists():
            try:
                with open(path_of(cache, key), "r+b") as file:
                    file.truncate(20)
            except FileNotFoundError:
                pass
        elif action < 0.66:
            cache.clear()
    return wrong


def test_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as processes:
        wrong = processes.starmap(hammer, [(str(tmp_path), seed) for seed in range(4)])
    assert wrong == [0] * 4
    cache = DiskStore(tmp_path, 12_000)
    assert not list(folder_of(cache).rglob("*.part"))
    assert cache.usage().size <= 12_000 + 4 * 4000  # what each had put before it looked


def test_a_new_process_takes_the_driver_from_the_cache(tmp_path: Path) -> None:
    source = (
        "from adjoint.engine.backends.llvm.runtime import jit, pool; made = []\n"
        "old = jit.assemble; jit.assemble = lambda text: made.append(1) or old(text)\n"
        "pool.the_pool(); print(len(made))"
    )
    counts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "ADJOINT_CACHE_DIR": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        counts.append(int(done.stdout))
    assert counts[0] > 0
    assert counts[1] == 0


def test_several_entries_are_kept_with_one_look_at_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are too large are left out; none is kept where the look says no."""
    looks: list[bool] = [True, False]
    monkeypatch.setattr(store, "is_running_what_it_names", lambda: looks.pop(0))
    cache = DiskStore(tmp_path, 1000)
    entries = {key_of(str(size)): bytes(size) for size in (1, 2000, 3)}
    cache.put_all(entries)
    assert looks == [False]
    assert [cache.get(key) for key in entries] == [bytes(1), None, bytes(3)]
    later = key_of("later")
    cache.put_all({later: b"code"})
    assert not looks
    assert cache.get(later) is None
