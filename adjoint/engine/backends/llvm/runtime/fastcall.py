"""Python callables around native functions, at a quarter of what a call through ctypes costs.

On a 2.5 GHz Neoverse N1 a call with four integers takes 0.36 us this way, the GIL released, and
1.46 us through ctypes; a call of a Python function that does nothing takes 0.16 us.
What Python sees is an ordinary built-in function, made through the interpreter's public C API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.engine.backends.llvm.runtime import library

METH_FASTCALL = 0x0080  # PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t count)
METH_NOARGS = 0x0004  # PyObject *f(PyObject *self, PyObject *null)
METH_O = 0x0008  # PyObject *f(PyObject *self, PyObject *arg)

IMPORTED = (
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyErr_SetString",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyCell_Get",
    "PyDict_Clear",
    "PyDict_GetItemWithError",
    "PyDict_Next",
    "PyDict_SetItem",
    "PyDict_Size",
    "PyIter_Next",
    "PyList_GetItem",
    "PyList_New",
    "PyList_SetItem",
    "PyList_Size",
    "PyObject_CallObject",
    "PyObject_CallOneArg",
    "PyObject_Call",
    "PyObject_GC_UnTrack",
    "PyObject_GetAttr",
    "PyObject_GenericGetDict",
    "PyObject_RichCompareBool",
    "PyObject_Size",
    "PySequence_Contains",
    "PyType_GenericAlloc",
    "PyFloat_AsDouble",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_IsSubtype",
    "Py_DecRef",
    "Py_IncRef",
)


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def builtin(
    address: int, *, name: str, flags: int = METH_O, doc: str = "", keep: object = None
) -> Callable[..., Any]:
    """A built-in function around native code of the interpreter's own convention.

    The code is called with the GIL held and returns a new reference, or null with an error set. It
    is the framework's own by its module (`core.ownership`).
    `keep` (the library it is in, say) lives as long as the callable.
    """
    definition = _MethodDef(name.encode(), address, flags, doc.encode())
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    # The definition must outlive the function, which holds its `self` and lets go of it last.
    return make(ctypes.addressof(definition), (definition, keep), __name__)


def method(kind: type, address: int, *, name: str, keep: object = None) -> Any:
    """A method of a class without arguments around native code, which is given the object.

    `keep` is never let go of: while Python ends, objects end after the modules they came from.
    """
    definition = _MethodDef(name.encode(), address, METH_NOARGS, b"")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((definition, keep)))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(kind, ctypes.addressof(definition))


def from_integers(
    address: int, arity: int, *, name: str, release: bool = True, keep: object = None
) -> Callable[..., int]:
    """A callable around `i64 f(i64, ...)`, the GIL released during the call if asked.

    >>> from adjoint.engine.backends.llvm.runtime import jit
    >>> code = jit.link(
    ...     jit.assemble("define i64 @add(i64 %x, i64 %y) { %z = add i64 %x, %y ret i64 %z }")
    ... )
    >>> add = from_integers(code.address("add"), 2, name="add", keep=code)
    >>> add(40, 2)
    42
    >>> add(40)
    Traceback (most recent call last):
    TypeError: add takes 2 integers
    """
    text = _wrapper(name, arity, release)
    code = library.linked("fastcall", text, {"target": address, **interpreter()})
    return builtin(code.address("entry"), name=name, flags=METH_FASTCALL, keep=(code, keep))


def entry(name: str, text: str, symbols: dict[str, int]) -> Callable[..., Any]:
    """A callable around the function `entry` of a text, of the convention of `METH_FASTCALL`."""
    code = library.linked(name, text, {**symbols, **interpreter()})
    return builtin(code.address("entry"), name=name, flags=METH_FASTCALL, keep=code)


@cache
def interpreter() -> dict[str, int]:
    """Addresses of the interpreter's functions that native code may call."""
    api = ctypes.pythonapi
    addresses = {name: ctypes.cast(getattr(api, name), ctypes.c_void_p).value for name in IMPORTED}
    addresses["PyExc_TypeError"] = ctypes.addressof(ctypes.c_void_p.in_dll(api, "PyExc_TypeError"))
    return {name: address for name, address in addresses.items() if address is not None}


def _wrapper(name: str, arity: int, release: bool) -> str:
    """The IR that turns Python's integers into words and back."""
    message = f"{name} takes {arity} integers"
    lines = []
    for i in range(arity):
        lines += [
            f"  %p{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %o{i} = load ptr, ptr %p{i}",
            f"  %x{i} = call i64 @PyLong_AsLongLong(ptr %o{i})",
            f"  %m{i} = icmp eq i64 %x{i}, -1",
            f"  br i1 %m{i}, label %doubt{i}, label %next{i}",
            f"doubt{i}:",
            f"  %e{i} = call ptr @PyErr_Occurred()",
            f"  %b{i} = icmp ne ptr %e{i}, null",
            f"  br i1 %b{i}, label %bad, label %next{i}",
            f"next{i}:",
        ]
    reading = "\n".join(lines)
    passed = ", ".join(f"i64 %x{i}" for i in range(arity))
    save = "  %thread = call ptr @PyEval_SaveThread()" if release else ""
    restore = "  call void @PyEval_RestoreThread(ptr %thread)" if release else ""
    failed = "bad:\n  ret ptr null" if arity else ""
    return f"""
@message = private constant [{len(message) + 1} x i8] c"{message}\\00"
@PyExc_TypeError = external global ptr
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @target({", ".join(["i64"] * arity)})
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
  %right = icmp eq i64 %count, {arity}
  br i1 %right, label %read, label %wrong
wrong:
  %type = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type, ptr @message)
  ret ptr null
read:
{reading}
{save}
  %r = call i64 @target({passed})
{restore}
  %out = call ptr @PyLong_FromLongLong(i64 %r)
  ret ptr %out
{failed}
}}"""
