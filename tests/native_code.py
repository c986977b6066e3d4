"""Functions of values in registers as functions of NumPy arrays, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.ir.machine import host_features
from adjoint.engine.backends.llvm.runtime.jit import assemble, link
from adjoint.engine.backends.registers.vector import Code, Features, V, type_text

_DTYPES = {
    "f32": "float32", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


def write(
    fn: Callable[..., V],
    kinds: tuple[str, ...],
    result: str,
    lanes: int,
    features: Features,
    branching: bool = True,
) -> str:
    """A module with `f(n, out, in...)`, a loop of `n` vectors of `lanes`."""
    code = Code(features, block="loop", branching=branching)
    operands = []
    for k, kind in enumerate(kinds):
        stored = "u8" if kind == "i1" else kind
        element = type_text(stored, 1)
        at = code.let(f"getelementptr {element}, ptr %p{k}, i64 %i")
        align = np.dtype(_DTYPES[stored]).itemsize
        x = code.value(
            code.let(f"load {type_text(stored, lanes)}, ptr {at}, align {align}"), stored, lanes
        )
        operands.append(x.convert(kind))
    out = fn(*operands)
    assert out.kind == result, (out.kind, result)
    stored = "u8" if result == "i1" else result
    out = out.convert(stored)
    at = code.let(f"getelementptr {type_text(stored, 1)}, ptr %out, i64 %i")
    align = np.dtype(_DTYPES[stored]).itemsize
    code.lines.append(f"store {out.type} {out.ref}, ptr {at}, align {align}")
    body = "\n  ".join(code.lines)
    pointers = "".join(f", ptr %p{k}" for k in range(len(kinds)))
    declared = "\n".join(sorted(code.declarations))
    return f"""{declared}
define void @f(i64 %n, ptr %out{pointers}) {{
start:
  br label %loop
loop:
  %i = phi i64 [0, %start], [%next, %{code.block}]
  {body}
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""


def native(
    fn: Callable[..., V],
    kinds: tuple[str, ...],
    result: str,
    lanes: int = 16,
    features: Features | None = None,
    branching: bool = True,
) -> Callable[..., Any]:
    """fn, compiled: takes arrays of one shape, returns an array."""
    text = write(fn, kinds, result, lanes, features or host_features(), branching)
    library = link(assemble(text))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(kinds) + 1))
    call = prototype(library.address("f"))

    def run(*arrays: Any) -> Any:
        count = arrays[0].size
        padded = -(-max(count, 1) // lanes) * lanes
        given = []
        for a, kind in zip(arrays, kinds, strict=True):
            whole = np.zeros(padded, _DTYPES[kind])
            whole[:count] = a.ravel()
            given.append(whole)
        out = np.empty(padded, _DTYPES[result])
        call(padded, out.ctypes.data, *(a.ctypes.data for a in given))
        return out[:count].reshape(arrays[0].shape)

    run.call, run.library, run.text = call, library, text
    return run
