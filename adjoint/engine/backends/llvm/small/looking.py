"""What programs ask of tensors all the time, answered by native code.

Note [looked at natively]
    `x.shape` in Python is a function and a tuple made of another, `x.data` three functions and two
    objects. Native code reads the same slots. It knows plain tensors of NumPy's own arrays, in a
    plain context; all else it leaves to the Python that it stands before, which is called, or
    told by None. A property's getter is exchanged once native code is loaded, where nobody has
    replaced the property (`overriding.read_by`); functions and methods ask `HOOKS` first.

    Plain are the classes that say so (`tensor.PLAIN`): a class may have an `_array` of its own.

    A tuple keeps its hash in Python 3.14, and one that is made bare says that it has none.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.runtime.peeking import STRIDES
from adjoint.engine.backends.llvm.small.comparing import NDARRAY
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.object_layout import HEAD, slot_offset
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor import overriding
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import DTYPE_OF, LONG, PLAIN, Tensor, wrap
from adjoint.engine.tensor.watching import EVENTS, MemoryStorages

PROPERTIES = ("shape", "ndim", "dtype", "device", "requires_grad", "is_leaf", "data")
QUESTIONS = ("from_memory", "data_address", "storage_address", "untyped")  # of `HOOKS`
NAMES = (*PROPERTIES, *QUESTIONS)
SLOWLY: dict[str, Any] = {name: vars(Tensor)[name].fget for name in PROPERTIES}  # Python's
WRAPPERS, ITEMSIZE = "wrappers", "itemsize"
# Where tuples of 3.14 keep their hash: between their length and their elements.
HASH_AT = HEAD + 8 if tuple.__basicsize__ > HEAD + 8 else None
Places: TypeAlias = dict[str, int]  # where objects keep their fields


def places() -> dict[str, int] | None:
    """Where objects keep what is read here, beside what `noting` reads."""
    of = {
        Storage: ("birth", "buffer", "level", "sharing", "trace"),
        MemoryStorages: MemoryStorages.__slots__,
        UntypedStorage: ("_storage", "device"),
        type(EVENTS): ("latest",),
    }
    found = {
        f"{kind.__name__}.{name}": slot_offset(kind.__dict__[name])
        for kind, names in of.items()
        for name in names
    }
    known = {name: at for name, at in found.items() if at is not None}
    return known if len(known) == len(found) else None


def symbols() -> dict[str, int]:
    """What the text names, beside what `noting` and `calling` do. All of it lives as long as Python
    does."""
    slowly = {f"{name}_slowly": id(getter) for name, getter in SLOWLY.items()}
    return {
        **slowly, "Size": id(Size), "dtype_of": id(DTYPE_OF), "plain_classes": id(PLAIN),
        "object": id(object), "MemoryStorages": id(MemoryStorages), "events": id(EVENTS),
        "UntypedStorage": id(UntypedStorage), "hooks": id(HOOKS), "wrappers_name": id(WRAPPERS),
        "itemsize_name": id(ITEMSIZE),
    }  # fmt: skip


def install(made: dict[str, Callable[..., Any]]) -> None:
    """Have tensors be looked at so, where it comes out as in Python."""
    if not _right(made):
        return
    for name in PROPERTIES:
        overriding.read_by(name, made[name])
    for name in QUESTIONS:
        setattr(HOOKS, name, made[name])


def _right(made: dict[str, Callable[..., Any]]) -> bool:
    """Whether tensors are seen as Python sees them."""
    samples = [wrap(np.zeros(shape, np.float32)) for shape in ((), (3,), (2, 0), (4, 5, 6))]
    samples += [wrap(np.zeros((4, 6))[1:, ::2]), wrap(np.arange(3))]
    for x in samples:
        for name in PROPERTIES[:-1]:
            native, wanted = made[name](x), SLOWLY[name](x)
            if native != wanted or type(native) is not type(wanted):
                return False
            if hash(native) != hash(wanted) or gc.is_tracked(native) != gc.is_tracked(wanted):
                return False
    return True


def text(at: Places) -> str:
    """The functions, after those of `calling.asked_text`; `at` also tells what `noting` knows."""
    external = "\n".join(f"@{name} = external global i8" for name in symbols())
    asked = (_is_plain(), _is_numpys(), _is_settled(), _sharing_of(at))
    getters = (_shape(), _ndim(), _dtype(), _device(), _requires_grad(at), _is_leaf(at), _data(at))
    questions = (_from_memory(at), _data_address(at), _storage_address(at), _untyped(at))
    return "\n".join((external, DECLARED, *asked, *getters, *questions))


DECLARED = """
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i32 @PySequence_Contains(ptr, ptr)"""

# -- what the others ask -------------------------------------------------------------------------


def _is_plain() -> str:
    """Whether an object is a tensor of a class that says it is plain."""
    f = ObjectFunction("is_plain", "x", result="i1")
    kind = f.call("class_of", "%x")
    f.end_where(f.same(kind, "@Tensor"), lambda: f.tell(True))
    listed = f.number("PySequence_Contains", "@plain_classes", kind, kind="i32")
    f.refuse(listed < 0, _no(f))
    f.tell(listed.eq(1))
    return f.text()


def _is_numpys() -> str:
    """Whether there is an array, and it is of NumPy's own class."""
    f = ObjectFunction("is_numpys", "array", result="i1")
    f.end_where(f.is_null("%array"), lambda: f.tell(False))
    f.tell(f.truth("is_a", f.call("class_of", "%array"), NDARRAY))
    return f.text()


def _is_settled() -> str:
    """Whether this thread's context is plain."""
    f = ObjectFunction("is_settled", result="i1")
    fields = f.made("PyObject_GetAttr", "@context", "@fields_name", otherwise=_no(f))
    plain = f.truth("is_field", fields, "@plain_name", "@true", "@true")
    f.let_go(fields)
    f.tell(plain)
    return f.text()


def _no(f: ObjectFunction) -> str:
    """The way out of what asks, where asking failed."""

    return f.ending("no", False, forget=True)


def _sharing_of(at: Places) -> str:
    """What a storage knows of others on its memory; made where nobody has asked yet."""
    f = ObjectFunction("sharing_of", "storage", at=at)
    known = f.field("%storage", "Storage.sharing")
    f.end_where(~f.is_null(known), lambda: f.tell(known))
    new = f.made("object_new", "@MemoryStorages", "@no_arguments", None, otherwise=_failed(f))
    f.fill(new, "MemoryStorages.counted", "@false")
    f.fill(new, "MemoryStorages.joins", "@zero")
    f.fill(new, "MemoryStorages.shown", "@false")
    meanwhile = f.field("%storage", "Storage.sharing")  # making one may have run anything

    def tell_the_other() -> None:
        f.let_go(new)
        f.tell(meanwhile)

    f.end_where(~f.is_null(meanwhile), tell_the_other)
    f.fill("%storage", "Storage.sharing", new)
    f.tell(new)
    return f.text()


# -- properties ----------------------------------------------------------------------------------


def _getter(name: str, at: Places | None = None) -> tuple[ObjectFunction, str]:
    """A property's getter of a plain %x, and its way out where Python's own is to be asked."""
    f = ObjectFunction(name, "self", "x", at=at)
    python = f"@{name}_slowly"
    slow = f.way_out("slow", lambda: f.tell(f.call("PyObject_CallOneArg", python, "%x")))
    f.check(f.truth("is_plain", "%x"), slow)
    return f, slow


def _failed(f: ObjectFunction) -> str:
    """The way out with an error that Python has set."""
    return f.ending("failed", None)


def _array(f: ObjectFunction, otherwise: str) -> str:
    """The array of %x, where it is NumPy's own."""
    array = f.call("array_in", "%x")
    f.check(f.truth("is_numpys", array), otherwise)
    return array


def _shape() -> str:
    """A `Size` of an array's sizes."""
    f, slow = _getter("shape")
    array, failed = _array(f, slow), _failed(f)
    rank = f.number("rank_in", array)
    f.hold(array)
    shape = f.made("PyType_GenericAlloc", "@Size", rank, otherwise=failed)
    if HASH_AT is not None:
        f.write(-1, shape, HASH_AT)
    sizes = f.call("sizes_in", array)

    def put(k: V) -> None:
        f.put(shape, k, f.made("PyLong_FromLongLong", f.word(sizes, k), otherwise=failed))

    f.each(rank, put)
    f.let_go(array)
    f.tell(shape)
    return f.text()


def _ndim() -> str:
    """How many sizes there are."""
    f, slow = _getter("ndim")
    f.tell(f.call("PyLong_FromLongLong", f.number("rank_in", _array(f, slow))))
    return f.text()


def _dtype() -> str:
    """The dtype that stands for an array's; a class of somebody else's may not be listed."""
    f, slow = _getter("dtype")
    dtype = _dtype_of(f, _array(f, slow), slow)
    f.tell_held(dtype)
    return f.text()


def _dtype_of(f: ObjectFunction, array: str, otherwise: str) -> str:
    """The dtype of a tensor on an array; where there is none, the way out `otherwise`."""
    dtype = f.call("PyDict_GetItemWithError", "@dtype_of", f.call("kind_in", array))
    f.refuse(f.is_null(dtype), _forget(f, otherwise))
    return dtype


def _forget(f: ObjectFunction, then: str) -> str:
    """The way out with no error, whether Python has set one or not."""

    def forget() -> None:
        f.do("PyErr_Clear")
        f.take(then)

    return f.way_out("forget", forget)


def _device() -> str:
    """The CPU, where NumPy's arrays are."""
    f, slow = _getter("device")
    _array(f, slow)
    f.tell_held("@cpu")
    return f.text()


def _requires_grad(at: Places) -> str:
    """What a tensor that is no view keeps; of a view the root is asked, by Python."""
    f, slow = _getter("requires_grad", at)
    on, _ = _asked(f, slow)
    f.tell_held(f.either(on, "@true", "@false"))
    return f.text()


def _is_leaf(at: Places) -> str:
    """Whether gradients are not asked for, or no operation made the tensor."""
    f, slow = _getter("is_leaf", at)
    _, off = _asked(f, slow)
    made_by_none = f.same(f.field("%x", "tensor._node"), "@nothing")
    f.tell_held(f.either(off | made_by_none, "@true", "@false"))
    return f.text()


def _asked(f: ObjectFunction, slow: str) -> tuple[V, V]:
    """Whether gradients are asked for of %x itself, and whether they are not."""
    own = f.same(f.field("%x", "tensor._base"), "@nothing")
    needed = f.field("%x", "tensor._requires_grad")
    on, off = f.same(needed, "@true"), f.same(needed, "@false")
    f.check(own & (on | off), slow)
    return on, off


def _data(at: Places) -> str:
    """A second storage on a tensor's memory (Note [watched memory])."""
    f, slow = _getter("data", at)
    array, failed = _array(f, slow), _failed(f)
    f.check(f.truth("is_settled"), slow)
    wrappers = f.made("PyObject_GetAttr", "@hooks", "@wrappers_name", otherwise=failed)
    nobody_wraps = f.same(wrappers, "@nothing")
    f.let_go(wrappers)
    storage, chain = f.field("%x", "tensor._storage"), f.field("%x", "tensor._chain")
    no_level = f.same(f.field(storage, "Storage.level"), "@nothing")
    no_trace = f.same(f.field(storage, "Storage.trace"), "@nothing")
    is_short = f.number("PyTuple_Size", chain) < LONG
    f.check(nobody_wraps & no_level & no_trace & is_short, slow)
    version = f.number("PyLong_AsLongLong", f.field(storage, "storage.version"))
    f.check(version >= 0, slow)  # which no inference tensor has
    f.hold(array, chain, storage)
    sharing = f.call("sharing_of", storage)
    f.refuse(f.is_null(sharing), failed)
    f.check(f.same(f.field(sharing, "MemoryStorages.counted"), "@false"), slow)
    f.hold(sharing)
    out = f.made("tensor_of", array, otherwise=failed)
    event = f.made("object_new", "@object", "@no_arguments", None, otherwise=failed)
    joins = f.number("PyLong_AsLongLong", f.field(sharing, "MemoryStorages.joins"))
    joined = f.made("PyLong_FromLongLong", joins + 1, otherwise=failed)
    other = f.field(out, "tensor._storage")
    f.exchange(out, "tensor._chain", chain)
    f.exchange(other, "Storage.buffer", f.field(storage, "Storage.buffer"))
    f.exchange(other, "Storage.birth", f.field(storage, "Storage.birth"))
    f.exchange(sharing, "MemoryStorages.joins", joined)
    f.fill(other, "Storage.sharing", sharing)
    f.exchange("@events", "_Events.latest", event)
    f.let_go(joined, event, array, chain, storage)
    f.tell(out)
    return f.text()


# -- questions -----------------------------------------------------------------------------------


def _question(name: str, argument: str, at: Places) -> tuple[ObjectFunction, str]:
    """A function that `HOOKS` asks, and its way out where Python is to look: it tells None."""
    f = ObjectFunction(name, "self", argument, at=at)
    return f, f.ending("unknown", "@nothing")


def _data_address(at: Places) -> str:
    """Where a tensor's elements begin, if its memory was shown before."""
    f, unknown = _question("data_address", "x", at)
    f.check(f.truth("is_plain", "%x"), unknown)
    f.check(f.truth("is_settled"), unknown)
    array = f.call("array_in", "%x")
    _tell_address(f, array, f.field("%x", "tensor._storage"), unknown)
    return f.text()


def _storage_address(at: Places) -> str:
    """The same of a storage."""
    f, unknown = _question("storage_address", "storage", at)
    _tell_address(f, f.field("%storage", "Storage.buffer"), "%storage", unknown)
    return f.text()


def _tell_address(f: ObjectFunction, array: str, storage: str, unknown: str) -> None:
    """End with the address of an array that has elements, on memory that is known to be shown."""
    sharing = f.field(storage, "Storage.sharing")
    f.check(f.truth("is_numpys", array) & ~f.is_null(sharing), unknown)
    f.check(f.same(f.field(sharing, "MemoryStorages.shown"), "@true"), unknown)
    sizes = f.call("sizes_in", array)
    f.each(f.number("rank_in", array), lambda k: f.refuse(f.word(sizes, k).eq(0), unknown))
    first = f.as_number(f.call("held", array, HEAD))
    f.tell(f.call("PyLong_FromLongLong", first))


def _untyped(at: Places) -> str:
    """A tensor's storage as PyTorch shows it."""
    f, unknown = _question("untyped", "x", at)
    f.check(f.truth("is_plain", "%x"), unknown)
    _array(f, unknown)
    storage = f.field("%x", "tensor._storage")
    f.refuse(f.same(f.field(storage, "Storage.buffer"), "@nothing"), unknown)
    f.hold(storage)
    out = f.made("object_new", "@UntypedStorage", "@no_arguments", None, otherwise=_failed(f))
    f.fill(out, "UntypedStorage._storage", storage)
    f.fill(out, "UntypedStorage.device", "@cpu")
    f.tell(out)
    return f.text()


def _from_memory(at: Places) -> str:
    """A tensor on an array whose strides are whole elements, forward."""
    f, unknown = _question("from_memory", "array", at)
    f.check(f.truth("is_numpys", "%array"), unknown)
    f.check(f.truth("is_settled"), unknown)
    _dtype_of(f, "%array", unknown)
    itemsize = f.made("PyObject_GetAttr", "%array", "@itemsize_name", otherwise=_forget(f, unknown))
    size = f.number("PyLong_AsLongLong", itemsize)
    f.let_go(itemsize)
    f.check(size > 0, unknown)
    strides = f.call("held", "%array", STRIDES)

    def check(k: V) -> None:
        stride = f.word(strides, k)
        f.check((stride >= 0) & stride.modulo(size).eq(0), unknown)

    f.each(f.number("rank_in", "%array"), check)
    failed = _failed(f)
    out = f.made("tensor_of", "%array", otherwise=failed)
    sharing = f.call("sharing_of", f.field(out, "tensor._storage"))
    f.refuse(f.is_null(sharing), failed)
    f.exchange(sharing, "MemoryStorages.shown", "@true")
    f.tell(out)
    return f.text()
