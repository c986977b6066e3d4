"""From a kernel's source to a cubin, by Triton alone: no GPU is needed, nor any other library.

Cubins are kept on disk by content (`backends.disk.store`).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import linecache
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.triton.launch_words import NAME, Written
from adjoint.engine.backends.triton.runtime.asked_kernels import ASKED
from adjoint.engine.backends.triton.runtime.kernel_workers import WORKERS
from adjoint.engine.core.errors import DeviceError, warn_user
from adjoint.engine.core.identity.keys import key_of

# float32 stays what eager execution computes: unless a kernel allows them, no fused multiply-adds
# and no flushed subnormals (an exponential that keeps them takes four instructions, not one).
FUSION, FLUSH = "enable_fp_fusion", "enable_reflect_ftz"
# Triton compares each sum of integers with the same in 64 bits for an assertion that it then leaves
# out: the code is the same without, and takes a twelfth less to compile.
COMPARES = "sanitize_overflow"


UNOPTIMISED: set[str] = set()  # what kernels were made of whose users have been told


class KernelError(RuntimeError):
    """A kernel that Triton does not compile; says which operations were fused into it."""


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Machine code, and what its launch must be told."""

    name: str
    warps: int
    shared: int  # bytes of shared memory
    scratch: int  # bytes of memory that each program wants besides
    cubin: bytes


WITHOUT_TRITON = (
    "compile: programs on a CUDA device are compiled by Triton, which is not installed. "
    "Install it with `pip install adjoint[cuda]`, or use backend='interpret'."
)


@cache
def triton() -> Any:
    """The Triton module, or an error that says how to get it."""
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        raise DeviceError(WITHOUT_TRITON) from error


@cache
def scope() -> dict[str, Any]:
    """The names that kernels use."""
    triton()
    language = importlib.import_module("triton.language")
    library = importlib.import_module("triton.language.extra.libdevice")
    prelude = importlib.import_module("adjoint.engine.backends.triton.prelude")
    names = {"triton": triton(), "tl": language, "libdevice": library}
    return {**vars(prelude), **names}


@cache
def has_triton() -> bool:
    """Whether Triton is there; to load it takes half a second, which only compiling needs."""
    return importlib.util.find_spec("triton") is not None


@cache
def writer_key() -> str:
    """What besides its source decides a kernel's code: of Triton not loaded, but read about."""
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:  # a build of it under another name
        version = str(triton().__version__)
    return f"{version};{prelude_text()};{FUSION} {FLUSH}"


def prelude_text() -> str:
    """The text of the functions that kernels use, which are not loaded for it."""
    spec = importlib.util.find_spec("adjoint.engine.backends.triton.prelude")
    text = None if spec is None else spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    if text is None:
        raise DeviceError(
            "compile: the texts of kernels' functions (adjoint.engine.backends.triton.prelude) are "
            "not there, and Triton compiles texts. Install the package with its sources."
        )
    return str(text)


@cache
def expect_kernels() -> None:
    """Have workers begin now where nothing compiled for this version is on the disk.

    The first kernels are planned meanwhile, and many follow; elsewhere few may.
    """
    if store.get(first_key()) is None:
        WORKERS.begin_others()


@cache
def first_key() -> str:
    """Where it is noted that some kernel was compiled by this version."""
    return key_of("kernels were compiled", writer_key())


@cache
def note_first() -> None:
    """Note that some kernel was compiled."""
    store.put(first_key(), b"1")


def know_by_files() -> None:
    """Have Triton know itself by its files' sizes and times, not by a hash of 500 MB.

    Its own cache keeps code by that: where a file changed, its time did.
    """
    caching: Any = importlib.import_module("triton.runtime.cache")
    if not hasattr(caching, "triton_key"):  # another version has it elsewhere, and hashes
        return
    root = Path(triton().__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".so", ".bc"))
    stats = [(str(path), path.stat()) for path in files]
    told = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    known = key_of("triton", triton().__version__, repr(told))
    caching.triton_key = lambda: known


def function_of(source: str, key: str, names: dict[str, Any] | None = None) -> Any:
    """The function that a source defines. Triton reads the source again, by its file's name."""
    file = f"<triton {key}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(scope() if names is None else names)
    exec(compile(source, file, "exec"), namespace)
    return namespace[NAME]


def cubin_key(written: Written, capability: int) -> str:
    """What a kernel's code is kept by."""
    how = f"{capability};{written.warps};{written.stages};{written.registers};{written.fused}"
    return key_of("cubin", how, writer_key(), written.source)


def compiled(written: Written, capability: int) -> CompiledKernel:
    """A kernel's code for a compute capability (90: Hopper), from disk if it is there."""
    key = cubin_key(written, capability)
    answer = ASKED.answer(key)
    if answer is None:
        stored = store.get(key)
        if stored is not None:
            return unpack(stored)
        answer = WORKERS.compile((replace(written, others=()), key, capability))
    if answer is None:  # there are none: Note [kernel workers]
        try:
            answer = packed(written, key, capability), ""
        except Exception as error:
            answer = None, f"{type(error).__name__}: {error}"
    code, wrong = answer
    if code is None:
        raise KernelError(
            f"compile: Triton does not compile the kernel of {written.origin} ({wrong})"
        )
    store.put(key, code)
    note_first()
    if wrong and written.origin not in UNOPTIMISED:
        UNOPTIMISED.add(written.origin)
        warn_user(
            f"compile: the kernel of {written.origin} was compiled without LLVM's optimisations, "
            f"and may be slow: {wrong}"
        )
    return unpack(code)


def compile_ahead(written: Written, capability: int) -> None:
    """Have a kernel compiled that is going to be asked for, if it is not on disk."""
    key = cubin_key(written, capability)
    if store.get(key) is None:
        ASKED.ask(key, (replace(written, others=()), key, capability))


def compile_together(works: list[Written], capability: int) -> None:
    """Have kernels on disk that are about to be asked for, several at a time.

    What does not compile says so when it is asked for.
    """
    ways = dict.fromkeys(way for work in works for way in (replace(work, others=()), *work.others))
    if len(ways) < 2 or store.place() is None:
        return

    def compile_one(way: Written) -> None:
        with contextlib.suppress(KernelError):
            compiled(way, capability)

    missing = [way for way in ways if store.get(cubin_key(way, capability)) is None]
    if missing:
        WORKERS.each(compile_one, missing)


def packed(written: Written, key: str, capability: int) -> bytes:
    """A kernel's code as it is kept, compiled now by this process."""
    return pack(build(written, key, capability))


def build(written: Written, key: str, capability: int) -> CompiledKernel:
    """A kernel's code, compiled now."""
    compiler = importlib.import_module("triton.compiler")
    targets = importlib.import_module("triton.backends.compiler")
    function = function_of(written.source, key)
    source = compiler.ASTSource(
        fn=function,
        signature=dict.fromkeys(function.arg_names, "i64"),
        constexprs={},
        attrs={(0,): [["tt.divisibility", 8]]} if function.arg_names == ["words"] else {},
    )
    binary = triton().compile(
        source,
        target=targets.GPUTarget("cuda", capability, 32),
        options={
            "num_warps": written.warps,
            "num_stages": written.stages,
            FUSION: written.fused,
            **({"maxnreg": written.registers} if written.registers else {}),
            **({FLUSH: written.fused} if knows(FLUSH) else {}),
            **({COMPARES: False} if knows(COMPARES) else {}),
        },
    )
    metadata = binary.metadata
    scratch = int(getattr(metadata, "global_scratch_size", 0) or 0)
    return CompiledKernel(
        metadata.name, metadata.num_warps, metadata.shared, scratch, binary.asm["cubin"]
    )


@cache
def knows(option: str) -> bool:
    """Whether this version of Triton can be told something."""
    backend = importlib.import_module("triton.backends.nvidia.compiler")
    return option in backend.CUDAOptions.__dataclass_fields__


def pack(kernel: CompiledKernel) -> bytes:
    """Code as it is kept on disk."""
    fields = {k: v for k, v in asdict(kernel).items() if k != "cubin"}
    return json.dumps(fields).encode() + b"\n" + kernel.cubin


def unpack(stored: bytes) -> CompiledKernel:
    """Code from disk."""
    fields, cubin = stored.split(b"\n", 1)
    return CompiledKernel(**json.loads(fields), cubin=cubin)


Launcher = Callable[[int], None]  # of the address of a kernel's words
