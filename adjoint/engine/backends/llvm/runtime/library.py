"""Native code by content: what is asked for is found in memory, on disk, or assembled.

All functions that a program still lacks are assembled as one module, or as some modules at once if
they are many, and kept on disk both as a module's code and under its functions' names, so that
another program finds them too. A program that is kept itself remembers its modules, and reads these
instead of sixty names.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.disk.package_code import package_digest
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.backends.threads import present_threads
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state import forks

MODULES = 4  # into which a program's functions are cut, at most: linking takes time for each
WORTH = 800  # lines that are worth a thread of their own
BLOCK = 30  # lines that take LLVM as long as a block more among the same lines

Text = tuple[str, set[str]]  # a function's definition, and the declarations it needs


class UnknownSymbol(LookupError):
    """A name of which this process has no address: the library is another one now."""


class NativeFunction:
    """Code that is loaded; it stays as long as this object does."""

    __slots__ = ("__weakref__", "address", "library", "module")

    def __init__(self, address: int, library: jit.LinkedCode, module: str) -> None:
        self.address = address
        self.library = library
        self.module = module  # the key under which the code that holds it is kept on disk


# Programs keep the functions they call. Some that were asked for last stay without one, since what
# is compiled next is often like what was dropped.
_loaded: MutableMapping[str, NativeFunction] = WeakValueDictionary()
_latest: deque[NativeFunction] = deque(maxlen=128)
_lock = forks.lock(forks.LockOrder.LIBRARY)


def linked(kind: str, text: str, symbols: Mapping[str, int] = jit.NO_SYMBOLS) -> jit.LinkedCode:
    """A module of the compiler's own, from disk or assembled, ready to be called."""
    return _linked(key_of(kind, jit.target_key(), text), lambda: text, symbols)


def linked_by_code(
    kind: str, write: Callable[[], str], symbols: Mapping[str, int] = jit.NO_SYMBOLS
) -> jit.LinkedCode:
    """The same, known by the package's code, whose text is written only if it must be.

    What writes it then need not be loaded.
    """
    return _linked(key_of(kind, jit.target_key(), package_digest()), write, symbols)


def _linked(key: str, write: Callable[[], str], symbols: Mapping[str, int]) -> jit.LinkedCode:
    """A module that is kept under a key, or is written and assembled."""
    disk = store.default()
    stored = disk.get(key)
    if stored is not None:
        try:
            return jit.link(stored, symbols)
        except jit.AssemblyError:  # not what assembling gives: assemble it again
            disk.drop(key)
    code = jit.assemble(write())
    disk.put(key, code)
    return jit.link(code, symbols)


def load(
    wanted: Mapping[str, Callable[[], Text]], modules: Iterable[str] = ()
) -> dict[str, NativeFunction]:
    """The functions of these names, whose texts are written only if they must be.

    A name stands for its content: callers make it from everything that decides the text. `modules`
    are where the functions were found before; they are looked at first.
    """
    with _lock:
        functions = {n: function for n in wanted if (function := _loaded.get(n)) is not None}
        missing = {n: make for n, make in wanted.items() if n not in functions}
        if missing:
            _bring(missing, modules, functions)
        _latest.extend(functions[n] for n in missing)
        return {n: functions[n] for n in wanted}


def _bring(
    missing: Mapping[str, Callable[[], Text]],
    modules: Iterable[str],
    functions: dict[str, NativeFunction],
) -> None:
    """Load functions from disk; assemble those that are not there, together."""
    disk, target = store.default(), f"{jit.target_key()};{package_digest()}"
    for module in modules:
        _take(disk, module, missing, functions)
    listed = [disk.get(key_of("function", target, n)) for n in missing if n not in functions]
    for listing in dict.fromkeys(listed):
        if listing is not None:
            _take(disk, listing.decode("ascii", "replace"), missing, functions)
    absent = [n for n in missing if n not in functions]
    if absent:
        parts = _parts({n: missing[n]() for n in absent}, present_threads())
        texts = [_module_text(part.values()) for part in parts]
        for part, text, code in zip(parts, texts, jit.assemble_all(texts), strict=True):
            module = key_of("module", target, text)
            places = {key_of("function", target, name): module.encode() for name in part}
            disk.put_all({module: code} | places)
            _enter(module, code, list(part), functions)


def _module_text(texts: Iterable[Text]) -> str:
    """A module of functions, with the declarations they need; what all share is not in it."""
    texts, shared = list(texts), _piece_walks().declarations()
    declarations = sorted({shared.get(d, d) for _, needed in texts for d in needed})
    return "\n".join([*declarations, *(text for text, _ in texts)])


def _parts(texts: Mapping[str, Text], threads: int) -> list[dict[str, Text]]:
    """Functions in parts that take about as long: one for each thread, if they are long enough.

    A routine that functions call is in each part that has one of them, and counts there once.
    """
    lines = sum([text.count("\n") for text, _ in texts.values()])
    count = max(1, min(threads, MODULES, lines // WORTH))
    shared = _piece_walks().declarations() if count > 1 else {}
    work = {
        name: {name: _work(text)} | {d: _work(d) for d in needed if d not in shared}
        for name, (text, needed) in texts.items()
    }
    parts: list[dict[str, Text]] = [{} for _ in range(count)]
    held: list[dict[str, int]] = [{} for _ in range(count)]  # what is in a part, and its work
    for name in sorted(texts, key=lambda name: -sum(work[name].values())):
        together = [part | work[name] for part in held]
        least = min(range(count), key=lambda k: sum(together[k].values()))
        parts[least][name], held[least] = texts[name], together[least]
    return [part for part in parts if part]


def _work(text: str) -> int:
    """About how long LLVM takes for a function, in lines."""
    return text.count("\n") + BLOCK * text.count(":\n")


def _take(
    disk: store.DiskStore, module: str, missing: Iterable[str], functions: dict[str, NativeFunction]
) -> None:
    """Load those of the missing functions that a module on disk has, if it is still there."""
    code = disk.get(module) if store.is_key(module) else None
    if code is None:
        return
    try:
        defined = set(jit.unpack(code)[0])
        names = [n for n in missing if n in defined and n not in functions]
        if names:
            _enter(module, code, names, functions)
    except (jit.AssemblyError, ValueError, KeyError):  # not what assembling gives: not there
        disk.drop(module)


def _enter(
    module: str, code: bytes, names: list[str], functions: dict[str, NativeFunction]
) -> None:
    library = jit.link(code, _shared()[1])
    for name in names:
        functions[name] = _loaded[name] = NativeFunction(library.address(name), library, module)


@cache
def _shared() -> tuple[jit.LinkedCode, Mapping[str, int]]:
    """What modules call without having it, and its addresses."""
    code = linked_by_code("piece_walks", lambda: str(_piece_walks().module_text()))
    return code, {name: code.address(name) for name in code.names}


def _piece_walks() -> Any:
    """The part that writes what modules share."""
    return importlib.import_module("adjoint.engine.backends.llvm.ir.piece_walks")
