"""Triton's interpreter without work of which nothing is seen: the same numbers in half the time.

It interprets each operation on a block by dozens of calls of Python, most of which make types and
shapes that were made a moment ago.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any


def hurry() -> None:
    """Do so in this process."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    core = importlib.import_module("triton.language.core")
    check_no_overflow(interpreter.interpreter_builder)
    interpreter._get_np_dtype = remembered(interpreter._get_np_dtype, core)
    remember_types(core)
    remember_shapes(core)
    patch_once(interpreter, core)


def check_no_overflow(builder: Any) -> None:
    """Arithmetic on integers is done again in 64 bits, for an assertion that only debugging makes."""
    if not builder.options.debug and hasattr(builder.options, "sanitize_overflow"):
        builder.options = replace(builder.options, sanitize_overflow=False)


def named(kind: Any, core: Any) -> str | None:
    """The name of a type of numbers or blocks of them, which says all of it; of others None."""
    return kind.name if type(kind.scalar) is core.dtype else None


def remembered(plain: Callable[[Any], Any], core: Any) -> Callable[[Any], Any]:
    """NumPy's type for one of Triton's, found once each."""
    found: dict[str, Any] = {}

    def lookup(kind: Any) -> Any:
        name = named(kind, core)
        if name is None:
            return plain(kind)
        if name not in found:
            found[name] = plain(kind)
        return found[name]

    return lookup


def remember_types(core: Any) -> None:
    """A block's type is checked and named when its element and sizes are first met."""
    plain: Callable[..., None] = core.block_type.__init__
    found: dict[Any, dict[str, Any]] = {}

    def start(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = [s.value if type(s) is core.constexpr else s for s in shape]
        if type(element_ty) is not core.dtype:
            plain(self, element_ty, shape)
            return
        key = (element_ty.name, *sizes)
        if key not in found:
            plain(self, element_ty, shape)
            found[key] = dict(self.__dict__)
        self.__dict__.update(found[key])

    core.block_type.__init__ = start


def remember_shapes(core: Any) -> None:
    """Values of one type share what says their shape."""
    plain: Callable[..., None] = core.tensor.__init__
    found: dict[str, dict[str, Any]] = {}

    def start(self: Any, handle: Any, type: Any) -> None:
        name = named(type, core)
        if name is None:
            plain(self, handle, type)
            return
        if name not in found:
            plain(self, handle, type)
            found[name] = {k: v for k, v in self.__dict__.items() if k not in {"handle", "type"}}
        self.__dict__.update(found[name], handle=handle, type=type)

    core.tensor.__init__ = start


def patch_once(interpreter: Any, core: Any) -> None:
    """Triton's language stays patched, rather than for each kernel and each function that one calls."""
    plain: Callable[[Any], Any] = interpreter._patch_lang
    languages = {id(interpreter.tl), id(core)}
    patched: set[int] = set()

    def patch(fn: Any) -> Any:
        seen = languages.intersection(map(id, fn.__globals__.values()))
        if not seen or not seen <= patched:
            plain(fn)
            patched.update(seen)
        return interpreter._LangPatchScope()  # of nothing that is to be restored

    if hasattr(interpreter, "_LangPatchScope"):  # as of Triton 3.9
        interpreter._patch_lang = patch
