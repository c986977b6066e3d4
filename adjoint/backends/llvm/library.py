"""Native code by content: what is asked for is found in memory, on disk, or assembled.

All functions that a program still lacks are assembled as one module, and kept on disk both as that
module's code and under its functions' names, so that another program finds them too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from adjoint.backends.llvm import jit, store
from adjoint.core import forks

Text = tuple[str, set[str]]  # a function's definition, and the declarations it needs


@dataclass(frozen=True, slots=True)
class Function:
    """Code that is loaded; it stays as long as this object does."""

    address: int
    library: jit.Library


@cache
def writer_key() -> str:
    """A digest of the code that writes kernels: what it wrote before it changed is not used."""
    here = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted([*here.rglob("*.py"), here.parent / "loops.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_loaded: dict[str, Function] = {}
_lock = forks.lock(forks.Order.LIBRARY)


def load(wanted: Mapping[str, Callable[[], Text]]) -> dict[str, Function]:
    """The functions of these names, whose texts are written only if they must be.

    A name stands for its content: callers make it from everything that decides the text.
    """
    with _lock:
        missing = {n: make for n, make in wanted.items() if n not in _loaded}
        if missing:
            _bring(missing)
        return {n: _loaded[n] for n in wanted}


def _bring(missing: Mapping[str, Callable[[], Text]]) -> None:
    """Load functions from disk; assemble those that are not there, together."""
    disk, target = store.default(), f"{jit.target_key()};{writer_key()}"
    absent: list[str] = []
    found: dict[str, str] = {}  # the code that holds a function
    for name in missing:
        held = disk.get(store.key_of("function", target, name))
        if held is None:
            absent.append(name)
        else:
            found[name] = held.decode()
    for place in dict.fromkeys(found.values()):
        code = disk.get(place)
        members = [n for n, at in found.items() if at == place]
        if code is None:
            absent += members
            continue
        _enter(code, members)
    if absent:
        texts = [missing[n]() for n in absent]
        declarations = sorted({d for _, needed in texts for d in needed})
        module = "\n".join([*declarations, *(text for text, _ in texts)])
        code = jit.assemble(module)
        place = store.key_of("module", target, module)
        disk.put(place, code)
        for name in absent:
            disk.put(store.key_of("function", target, name), place.encode())
        _enter(code, absent)


def _enter(code: bytes, names: list[str]) -> None:
    library = jit.link(code)
    for name in names:
        _loaded[name] = Function(library.address(name), library)
