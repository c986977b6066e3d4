"""Programs kept on disk: what names them, what is read of them, and what becomes of losses."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program.arena import ADVISED, HUGE_PAGE, Arena
from adjoint.engine.backends.llvm.program.native import Native, compile_task, disk_key, from_disk
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.compiler.memory.packing import ALIGN
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.naming import task_key
from adjoint.engine.graph.execution import Executable, Task

Function = Callable[..., Any]


def task_of(fn: Function, *args: Any) -> Task:
    """The task that compiling a function makes."""
    found: list[Task] = []

    def keep(task: Task) -> Executable:
        found.append(task)
        return compile_task(task, Options())

    ad.compile(fn, backend=keep)(*args)
    (task,) = found
    return task


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.DiskStore:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", {})
    return store.default()


def wide(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
    """Several kernels, of several forms."""
    return x.softmax(0), x.cumsum(0), x.argmax(), (x * 2).sum(), x.to(ad.int64).prod()


def entries(cache: store.DiskStore, kind: str) -> list[Path]:
    """The entries that hold code, or those that say which code holds a function."""
    assert cache.folder is not None
    folder = Path(cache.folder)
    code = {p for p in folder.rglob("*") if p.is_file() and b"ADJCODE" in p.read_bytes()}
    names = {p.name.encode() for p in code}
    if kind == "modules":
        return sorted(code)
    return sorted(
        p for p in folder.rglob("*") if p.is_file() and p.read_bytes()[store.HEAD :] in names
    )


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("change", [Path.unlink, damage])
@pytest.mark.parametrize(("lost", "there"), [("modules", False), ("names", True)])
def test_a_kept_program_needs_its_modules_only(
    lost: str,
    there: bool,
    change: Callable[[Path], None],
    cache: store.DiskStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of(wide, ad.arange(5.0))
    key = disk_key(task, Options())
    assert key is not None
    gone = entries(cache, lost)
    assert gone
    for path in gone:
        change(path)
    monkeypatch.setattr(library, "_loaded", {})
    kept = from_disk(task, key)
    assert isinstance(kept, Native) == there
    made = kept or compile_task(task)  # which makes what is missing again
    for got, wanted in zip(
        made([np.arange(5.0, dtype=np.float32)], []), wide(ad.arange(5.0)), strict=True
    ):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)
    monkeypatch.setattr(library, "_loaded", {})
    assert isinstance(from_disk(task, key), Native)


UNFITTING: dict[str, bytes] = {
    "no image": b"no image and no code",
    "empty": b"",
    "another object": marshal.dumps([1, 2]),
    "parts missing": marshal.dumps({"words": b""}),
    "code begun": b"ADJCODE1",
    "code cut": b"ADJCODE1" + (10**6).to_bytes(8, "little") + b"name",
    "names that are no text": b"ADJCODE1" + (2).to_bytes(8, "little") + b"\xff\xfe" + b"rest",
}


@pytest.mark.parametrize("payload", UNFITTING.values(), ids=UNFITTING)
@pytest.mark.parametrize("kind", ["images", "modules", "names"])
def test_entries_that_are_whole_but_unfitting_are_made_again(
    kind: str, payload: bytes, cache: store.DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(wide, ad.arange(5.0))
    key = disk_key(task, Options())
    assert key is not None
    keys = {
        "images": [key],
        "modules": [p.name for p in entries(cache, "modules")],
        "names": [p.name for p in entries(cache, "names")],
    }[kind]
    assert keys
    for each in keys:
        cache.put(each, payload)
    monkeypatch.setattr(library, "_loaded", {})
    made = compile_task(task)
    for got, wanted in zip(
        made([np.arange(5.0, dtype=np.float32)], []), wide(ad.arange(5.0)), strict=True
    ):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)
    monkeypatch.setattr(library, "_loaded", {})
    assert isinstance(from_disk(task, key), Native)


def test_code_of_the_compilers_own_that_is_unfitting_is_made_again(cache: store.DiskStore) -> None:
    text = "define i64 @next(i64 %x) { %y = add i64 %x, 1 ret i64 %y }"
    library.linked("a test", text)
    (path,) = entries(cache, "modules")
    for payload in UNFITTING.values():
        cache.put(path.name, payload)
        assert library.linked("a test", text).address("next")
        assert entries(cache, "modules") == [path]


def test_a_kept_program_reads_few_files(
    cache: store.DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(wide, ad.arange(5.0))
    key = disk_key(task, Options())
    assert key is not None
    made = compile_task(task)
    read: list[str] = []
    get = store.DiskStore.get

    def noted(self: store.DiskStore, key: str) -> bytes | None:
        read.append(key)
        return get(self, key)

    monkeypatch.setattr(store.DiskStore, "get", noted)
    monkeypatch.setattr(library, "_loaded", {})
    kept = from_disk(task, key)
    assert isinstance(kept, Native)
    assert isinstance(made, Native)
    assert len(kept.functions) > 3
    assert len(read) == 2  # the image, and one module: they were assembled together
    assert kept.explain() == made.explain()


def test_another_program_finds_the_functions_by_name(
    cache: store.DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_of(wide, ad.arange(5.0))
    before = entries(cache, "modules")
    monkeypatch.setattr(library, "_loaded", {})
    task_of(lambda x: (x.softmax(0), x.cumsum(0)), ad.arange(9.0))
    assert entries(cache, "modules") == before


X, Y = ad.arange(6.0), ad.ones(6)
DIFFERENT: list[tuple[Function, tuple[ad.Tensor, ...]]] = [
    (lambda x, y: x - y, (X, Y)),
    (lambda x, y: y - x, (X, Y)),
    (lambda x, y: (x - y, y.exp()), (X, Y)),
    (lambda x, y: (y - x, x - y), (X, Y)),
    (lambda x, y: (x - y, y - x), (X, Y)),
    (lambda x, y: x - y, (X, X)),
    (lambda x, y: x - y, (X.to(ad.int64), Y)),
    (lambda x, y: x - y, (X.to(ad.int64), Y.to(ad.int64))),
    (lambda x, y: x - y, (X[:5], Y[:5])),
    (lambda x, y: x - y, (X[::2], Y[:3])),
    (lambda x, y: x - y, (X.reshape(2, 3), Y.reshape(2, 3))),
    (lambda x, y: x - y, (X.reshape(3, 2), Y.reshape(3, 2))),
    (lambda x, y: x - y, (X.reshape(3, 2).t(), Y.reshape(2, 3))),
    (lambda x, y: x - 2, (X, Y)),
    (lambda x, y: x - 3, (X, Y)),
    (lambda x, y: x.to(ad.int64) - 2, (X, Y)),
    (lambda x, y: x.to(ad.int64) - 2.0, (X, Y)),
    (lambda x, y: x.to(ad.int64) * True, (X, Y)),
    (lambda x, y: x.to(ad.int64) * 1, (X, Y)),
    (lambda x, y: x.cumsum(0), (X, Y)),
    (lambda x, y: x.sum(0), (X, Y)),
    (lambda x, y: x.sum(0, keepdim=True), (X, Y)),
    (lambda x, y: x.sum(0, dtype=ad.float64), (X, Y)),
    (lambda x, y: y.add_(x), (X, Y.clone())),
    (lambda x, y: x.add_(y), (X.clone(), Y)),
]  # fmt: skip


def test_names_tell_tasks_apart() -> None:
    names = [task_key(task_of(fn, *args), Options()) for fn, args in DIFFERENT]
    assert len(set(names)) == len(names)
    assert names == [task_key(task_of(fn, *args), Options()) for fn, args in DIFFERENT]


def test_only_new_arenas_are_touched() -> None:
    """What a program has there stays; a new one can be used at once."""

    class User:
        def move(self, origin: int) -> None:
            pass

    arena, user = Arena(), User()
    arena.reserve(2 * ADVISED)
    with arena.touched():
        pass
    arena.array[:] = 7
    arena.users.add(user)
    with arena.touched():
        assert (arena.array == 7).all()
    assert (arena.array == 7).all()


@pytest.mark.parametrize("nbytes", [0, 1, ADVISED - 1, ADVISED, 3 * HUGE_PAGE + 5])
def test_arenas_begin_where_they_should(nbytes: int) -> None:
    arena = Arena()
    arena.reserve(nbytes)
    start = arena.array.ctypes.data
    assert start <= arena.origin
    assert arena.origin + nbytes <= start + arena.array.nbytes
    assert arena.origin % (HUGE_PAGE if nbytes >= ADVISED else ALIGN) == 0
    held = arena.array
    arena.reserve(nbytes)
    assert arena.array is held
    arena.reserve(nbytes + 1)
    assert arena.array is not held
