"""From LLVM IR as text to machine code in this process.

`assemble` makes code that can be kept (see `store`), `link` makes it callable. Nothing here
optimises beyond instruction selection: the IR says what vectors it wants (Note [no pipeline]).

Note [no pipeline]: LLVM's O3 passes cost half a second a step and gained nothing on IR that is
explicitly vectorised; code-generation level 1 is as fast as 2 and 3, and 0 is 2 to 4 times slower.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from adjoint.engine.backends.llvm.linking.elf import Unplaceable
from adjoint.engine.backends.llvm.linking.host import kept_name
from adjoint.engine.backends.llvm.linking.placing import place
from adjoint.engine.core.state import forks

LEVEL = 1
MAGIC = b"ADJCODE1"
NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})

# llvmlite locks each of its calls; a fork while another thread is inside one would leave that lock
# taken for ever in the child, so every call is made under this lock and a fork waits for it.
_lock = forks.reentrant(forks.LockOrder.ASSEMBLER)
_serial = itertools.count()


class AssemblyError(RuntimeError):
    """IR that LLVM refuses, or code that cannot be linked: the compiler is at fault."""


@cache
def _llvm() -> Any:
    """The binding, ready for this machine; imported when first used."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # without it inline assembly aborts the process
    return llvm


@cache
def _host() -> tuple[str, str, str]:
    """(triple, processor, features) of this machine."""
    llvm = _llvm()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on some machines; the processor's name implies most
        features = ""
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), features


@cache
def _machine() -> Any:
    return _new_machine()


def _new_machine() -> Any:
    triple, processor, features = _host()
    return (
        _llvm()
        .Target.from_triple(triple)
        .create_target_machine(
            cpu=processor, features=features, opt=LEVEL, reloc="pic", codemodel="default"
        )
    )


@cache
def _linker() -> Any:
    # JITLink puts a library's sections next to each other and reaches the rest of the process
    # through tables, so position-independent code links wherever memory is given.
    return _llvm().create_lljit_compiler(_machine(), use_jit_link=True)


@cache
def target_key() -> str:
    """What code depends on besides its IR: processor, features, versions; part of cache keys.

    >>> target_key() == target_key()
    True
    """
    return kept_name(_asked)


def _asked() -> str:
    """The same by LLVM."""
    with _lock:
        # Inside: a fork waits for the lock, but not for a module that another thread is importing,
        # which its child could never import.
        import llvmlite

        triple, processor, features = _host()
        version = ".".join(map(str, _llvm().llvm_version_info))
    ordered = ",".join(sorted(features.split(",")))
    return f"{triple};{processor};{ordered};llvm {version};llvmlite {llvmlite.__version__};O{LEVEL}"


def assemble(text: str) -> bytes:
    """Machine code of a module for this processor, as bytes that `link` takes.

    The bytes hold the names the module defines before the object file itself; they are good on any
    machine with the same `target_key`.

    >>> code = assemble("define i64 @next(i64 %x) { %y = add i64 %x, 1 ret i64 %y }")
    >>> link(code).address("next") != 0
    True
    """
    return assemble_all([text])[0]


def assemble_all(texts: Sequence[str]) -> list[bytes]:
    """`assemble` of several modules, each in a thread of its own."""
    with _lock, contextlib.ExitStack() as stack:
        modules = [_verified(_parsed(text, stack), text) for text in texts]
        names = [_defined(module) for module in modules]
        machines = [_machine(), *[_new_machine() for _ in modules[1:]]]
        emitting = importlib.import_module("adjoint.engine.backends.llvm.runtime.emitting")
        images = emitting.emit_all(list(zip(machines, modules, strict=True)))
        return [_pack(*part) for part in zip(names, images, strict=True)]


def _parsed(text: str, stack: contextlib.ExitStack) -> Any:
    """A module in a context of its own; both last as long as the stack."""
    llvm = _llvm()
    context = stack.enter_context(llvm.create_context())
    try:
        return stack.enter_context(llvm.parse_assembly(text, context))
    except RuntimeError as error:
        raise AssemblyError(_explain_syntax(str(error), text)) from None


def _verified(module: Any, text: str) -> Any:
    """A module that LLVM finds nothing wrong with."""
    try:
        module.verify()
    except RuntimeError as error:
        raise AssemblyError(_explain_module(str(error), text)) from None
    return module


def _defined(module: Any) -> list[str]:
    """The names of a module that others see."""
    values = [*module.functions, *module.global_variables]
    names = [v.name for v in values if not v.is_declaration and _visible(v)]
    if not names:
        raise AssemblyError("assemble: the module defines nothing that is visible")
    return names


def object_for(text: str, triple: str, processor: str, features: str, *, level: int) -> bytes:
    """The object file of a module for any machine that LLVM knows."""
    with _lock, contextlib.ExitStack() as stack:
        llvm = _llvm()
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=processor,
            features=features,
            opt=level,
            reloc="static" if triple.startswith("wasm") else "pic",
            codemodel="default",
        )
        module = _parsed(text, stack)
        module.triple = triple
        module.data_layout = str(machine.target_data)
        code: bytes = machine.emit_object(_verified(module, text))
        return code


def printed(text: str) -> str:
    """A module's text as LLVM prints it: one way to say everything."""
    with _lock, contextlib.ExitStack() as stack:
        return str(_parsed(text, stack))


def host() -> tuple[str, str, str]:
    """(triple, processor, features) of this machine."""
    with _lock:
        return _host()


def _visible(value: Any) -> bool:
    return value.linkage.name not in {"internal", "private"}


def _pack(names: list[str], image: bytes) -> bytes:
    listed = "\n".join(names).encode()
    return MAGIC + struct.pack("<Q", len(listed)) + listed + image


def unpack(code: bytes) -> tuple[list[str], bytes]:
    """The names that assembled code defines, and its object file."""
    start = len(MAGIC) + 8
    if code[: len(MAGIC)] != MAGIC or len(code) < start:
        raise AssemblyError("link: these bytes were not made by assemble")
    (size,) = struct.unpack("<Q", code[len(MAGIC) : start])
    try:
        names = code[start : start + size].decode().split("\n")
    except UnicodeDecodeError:
        raise AssemblyError("link: the names in this code are damaged") from None
    return names, code[start + size :]


class LinkedCode:
    """Linked code; its addresses are valid as long as this object lives."""

    __slots__ = ("_tracker", "names")

    def __init__(self, tracker: Any, names: tuple[str, ...]) -> None:
        self._tracker = tracker
        self.names = names

    def address(self, name: str) -> int:
        """Where a function or variable of the library is."""
        if name not in self.names:
            known = ", ".join(sorted(self.names)[:8])
            raise KeyError(f"Library.address: no symbol {name!r}; there are {known}")
        return int(self._tracker[name])

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        tracker = getattr(self, "_tracker", None)
        # At exit the code stays: other threads may still be in it, and modules are empty.
        if tracker is not None and not ending():
            with _lock:
                tracker.close()


def link(code: bytes, symbols: Mapping[str, int] = NO_SYMBOLS) -> LinkedCode:
    """Load assembled code into this process, with the addresses of what it calls.

    What `symbols` does not name is looked for in the process: the C and mathematical libraries.
    """
    names, image = unpack(code)
    try:
        return LinkedCode(place(image, names, symbols), tuple(names))
    except Unplaceable:
        return link_by_llvm(code, symbols)


def link_by_llvm(code: bytes, symbols: Mapping[str, int] = NO_SYMBOLS) -> LinkedCode:
    """`link` by LLVM's own linker, which knows all that there is in object files."""
    names, image = unpack(code)
    with _lock:
        builder = _llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        try:
            tracker = builder.link(_linker(), f"adjoint{next(_serial)}")
        except RuntimeError as error:
            raise AssemblyError(
                f"link: {str(error).strip()[:400]}. A function that the code calls may be missing:"
                " name its address in `symbols`."
            ) from None
    return LinkedCode(tracker, tuple(names))


# -- messages -------------------------------------------------------------------------------------


def _explain_syntax(message: str, text: str) -> str:
    match = re.search(r":(\d+):(\d+): error: ([^\n]*)", message)
    if match is None:
        return f"assemble: {message.strip()}"
    line, column = int(match[1]), int(match[2])
    return f"assemble: {match[3]}\n{_excerpt(text, line)}\n{' ' * (7 + column)}^"


def _explain_module(message: str, text: str) -> str:
    """The verifier quotes instructions; say which line the first one is."""
    for quoted in message.splitlines():
        wanted = quoted.strip()
        for number, line in enumerate(text.splitlines(), 1):
            if wanted and line.split(";")[0].strip() == wanted:
                return f"assemble: {message.strip()}\n{_excerpt(text, number)}"
    return f"assemble: {message.strip()}"


def _excerpt(text: str, line: int) -> str:
    lines = text.splitlines()
    first = max(0, line - 3)
    return "\n".join(f"{n:6}  {lines[n - 1]}" for n in range(first + 1, min(line, len(lines)) + 1))
