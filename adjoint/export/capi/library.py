"""c_api: the C library of tensors, written or linked for a machine."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path

from adjoint.engine.backends.llvm.ir.machine import writing_for
from adjoint.export.capi.kernels import DTYPES, KernelForC, elementwise, products
from adjoint.export.output.linking import link
from adjoint.export.output.machines import NATIVE, Destination, destination, object_code
from adjoint.export.output.writing import put_all

NAME = "adjoint_c"
KINDS = ("so", "source")
SOURCES = ("tensors.c", "operations.c", "programs.c")
_TABLES = """
/* Kernels, made by LLVM. */
struct unary {
    const char *name;
    adj_dtype dtype, gives;
    void (*run)(const void *, void *, uint64_t);
};
struct binary {
    const char *name;
    adj_dtype dtype, gives;
    void (*run)(const void *, const void *, void *, uint64_t);
};
struct tile {
    int64_t rows, columns, depth, room;
    void (*run)(const void *, int64_t, int64_t);
};
"""


def c_api(folder: str | os.PathLike[str], to: str = "so", *, machine: str = NATIVE) -> list[Path]:
    """Write the C library of tensors into a folder: `adjoint_c.h` and what `to` asks for.

    Args:
        folder: where; it is made if it is not there.
        to: "so", a shared library, which takes a C compiler; or "source": `adjoint_c.c` and the
            object file of its kernels, to be compiled and linked by somebody else.
        machine: what it is for (see `aot`).

    Example:
        >>> from tempfile import mkdtemp
        >>> [path.name for path in c_api(mkdtemp(), "source")]
        ['adjoint_c.h', 'adjoint_c.c', 'adjoint_c_kernels.o']
    """
    if to not in KINDS:
        raise ValueError(f"export.c_api: {to!r} is none of {', '.join(KINDS)}.")
    where = destination(machine)
    with writing_for(where.machine):
        kernels = elementwise(where)
        text, declared, rows = products()
    needed = sorted(declared.union(*(k.declarations for k in kernels)))
    module = "\n".join([*needed, text, *(k.text for k in kernels)])
    source = _source(kernels, rows)
    contents = {f"{NAME}.h": _read(f"{NAME}.h").encode()}
    if to == "source":
        contents |= {f"{NAME}.c": source.encode(), f"{NAME}_kernels.o": object_code(module, where)}
    else:
        contents[f"lib{NAME}.so"] = _linked(
            contents[f"{NAME}.h"], source, object_code(module, where), where
        )
    return put_all(Path(folder), contents)


def _read(name: str) -> str:
    return files("adjoint.export.capi").joinpath(name).read_text()


def _source(kernels: list[KernelForC], rows: list[str]) -> str:
    """All of the library's C."""
    parts = [_read("tensors.c"), _TABLES]
    for k in kernels:
        given = ", ".join(["const void *"] * k.operands)
        parts.append(f"void {k.symbol}({given}, void *, uint64_t);")
    parts += [
        f"void adj_product_{kind}(const void *, int64_t, int64_t);" for kind in ("f32", "f64")
    ]
    for table, operands in (("unary", 1), ("binary", 2)):
        listed = [
            f'    {{"{k.name}", {DTYPES[k.dtype][1]}, {DTYPES[k.gives][1]}, {k.symbol}}},'
            for k in kernels
            if k.operands == operands
        ]
        plural = {"unary": "unaries", "binary": "binaries"}[table]
        last = "    {NULL, ADJ_BOOL, ADJ_BOOL, NULL},"
        parts += [f"static const struct {table} {plural}[] = {{", *listed, last, "};"]
    parts.append(f"static const struct tile tiles[] = {{{', '.join(rows)}}};\n")
    return "\n".join([*parts, *(_read(name) for name in SOURCES[1:])])


def _linked(header: bytes, source: str, kernels: bytes, where: Destination) -> bytes:
    """The shared library."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / f"{NAME}.h").write_bytes(header)
        (folder / f"{NAME}.c").write_text(source)
        (folder / "kernels.o").write_bytes(kernels)
        inputs = [str(folder / f"{NAME}.c"), str(folder / "kernels.o"), "-I", str(folder)]
        flags = ["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=default"]
        link([*flags, *inputs, "-lm", "-o", str(folder / "made.so")], where)
        return (folder / "made.so").read_bytes()
