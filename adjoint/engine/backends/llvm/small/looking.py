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
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import STRIDES
from adjoint.engine.backends.llvm.small.comparing import NDARRAY, NONE
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


def _getter(name: str, body: str) -> str:
    """A property's getter: `body` looks at a plain %x, ends by %fine of %value, or by %slow."""
    return f"""
define ptr @{name}(ptr %self, ptr %x) {{
entry:
  %plain = call i1 @is_plain(ptr %x)
  br i1 %plain, label %look, label %slow
look:
{body}
fine:
  ret ptr %value
slow:
  %slowly = call ptr @PyObject_CallOneArg(ptr @{name}_slowly, ptr %x)
  ret ptr %slowly
}}"""


def _question(name: str, argument: str, body: str) -> str:
    """A function that `HOOKS` asks of one argument, from a label `look` on; at %none it is told by
    None that Python is to look."""
    return f"""
define ptr @{name}(ptr %self, ptr %{argument}) {{
entry:
  br label %look
none:
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %nothing.told = load ptr, ptr %noneAt
  call void @Py_IncRef(ptr %nothing.told)
  ret ptr %nothing.told
look:{body}
}}"""


# What a question about a tensor begins with.
_PLAIN = """
  %plain = call i1 @is_plain(ptr %x)
  br i1 %plain, label %asked, label %none
asked:"""


def _of_array(body: str) -> str:
    """The same of its %array, if that is NumPy's own."""
    return f"""
  %array = call ptr @array_in(ptr %x)
  %is.array = call i1 @is_numpys(ptr %array)
  br i1 %is.array, label %read, label %slow
read:{body}"""


def text(at: dict[str, int]) -> str:
    """The functions, after those of `calling.asked_text`; `at` also tells what `noting` knows."""
    return "\n".join((_asking(at), _properties(at), _memory(at), _data(at)))


def _asking(at: dict[str, int]) -> str:
    """Functions that the others ask."""
    external = "\n".join(f"@{name} = external global i8" for name in symbols())
    return f"""
{external}
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i32 @PySequence_Contains(ptr, ptr)

define i1 @is_plain(ptr %x) {{
entry:
  %class = call ptr @class_of(ptr %x)
  %exact = icmp eq ptr %class, @Tensor
  br i1 %exact, label %yes, label %derived
yes:
  ret i1 true
derived:
  %listed = call i32 @PySequence_Contains(ptr @plain_classes, ptr %class)
  %unknown = icmp slt i32 %listed, 0
  br i1 %unknown, label %clear, label %told
clear:
  call void @PyErr_Clear()
  ret i1 false
told:
  %is.listed = icmp eq i32 %listed, 1
  ret i1 %is.listed
}}
define i1 @is_numpys(ptr %array) {{
entry:
  %unset = icmp eq ptr %array, null
  br i1 %unset, label %no, label %look
look:
  %class = call ptr @class_of(ptr %array)
  %it = call i1 @is_a(ptr %class, i64 {NDARRAY})
  ret i1 %it
no:
  ret i1 false
}}
define i1 @is_settled() {{
entry:
  %fields = call ptr @PyObject_GetAttr(ptr @context, ptr @fields_name)
  %failed = icmp eq ptr %fields, null
  br i1 %failed, label %clear, label %look
clear:
  call void @PyErr_Clear()
  ret i1 false
look:
  %plain = call i1 @is_field(ptr %fields, ptr @plain_name, ptr @true, ptr @true)
  call void @Py_DecRef(ptr %fields)
  ret i1 %plain
}}
define void @exchange(ptr %x, i64 %at, ptr %value) {{
  %before = call ptr @held(ptr %x, i64 %at)
  call void @hold(ptr %x, i64 %at, ptr %value)
  call void @Py_DecRef(ptr %before)
  ret void
}}
define ptr @sharing_of(ptr %storage) {{
entry:
  %known = call ptr @held(ptr %storage, i64 {at["Storage.sharing"]})
  %unset = icmp eq ptr %known, null
  br i1 %unset, label %make, label %done
make:
  %new = call ptr @object_new(ptr @MemoryStorages, ptr @no_arguments, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %done, label %fill
fill:
  call void @hold(ptr %new, i64 {at["MemoryStorages.counted"]}, ptr @false)
  call void @hold(ptr %new, i64 {at["MemoryStorages.joins"]}, ptr @zero)
  call void @hold(ptr %new, i64 {at["MemoryStorages.shown"]}, ptr @false)
  %meanwhile = call ptr @held(ptr %storage, i64 {at["Storage.sharing"]})
  %still = icmp eq ptr %meanwhile, null
  br i1 %still, label %keep, label %drop
drop:
  call void @Py_DecRef(ptr %new)
  br label %done
keep:
  call void @take(ptr %storage, i64 {at["Storage.sharing"]}, ptr %new)
  br label %done
done:
  %sharing = phi ptr [%known, %entry], [null, %make], [%meanwhile, %drop], [%new, %keep]
  ret ptr %sharing
}}"""


def _properties(at: dict[str, int]) -> str:
    """How a tensor lies, and whether gradients are asked for."""
    no_hash = "" if HASH_AT is None else f"""
  %hashAt = getelementptr i8, ptr %value, i64 {HASH_AT}
  store i64 -1, ptr %hashAt"""  # fmt: skip
    shape = _of_array(f"""
  %rank = call i64 @rank_in(ptr %array)
  call void @Py_IncRef(ptr %array)
  %value = call ptr @PyType_GenericAlloc(ptr @Size, i64 %rank)
  %unmade = icmp eq ptr %value, null
  br i1 %unmade, label %raise, label %begin
begin:{no_hash}
  %sizes = call ptr @sizes_in(ptr %array)
  br label %next
next:
  %k = phi i64 [0, %begin], [%kNext, %put]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %done
each:
  %sizeAt = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %sizeAt
  %number = call ptr @PyLong_FromLongLong(i64 %size)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %drop, label %put
put:
  %set = call i32 @PyTuple_SetItem(ptr %value, i64 %k, ptr %number)
  %kNext = add i64 %k, 1
  br label %next
drop:
  call void @Py_DecRef(ptr %value)
  br label %raise
raise:
  call void @Py_DecRef(ptr %array)
  ret ptr null
done:
  call void @Py_DecRef(ptr %array)
  br label %fine""")
    ndim = _of_array("""
  %rank = call i64 @rank_in(ptr %array)
  %value = call ptr @PyLong_FromLongLong(i64 %rank)
  br label %fine""")
    dtype = _of_array("""
  %kind = call ptr @kind_in(ptr %array)
  %value = call ptr @PyDict_GetItemWithError(ptr @dtype_of, ptr %kind)
  %unlisted = icmp eq ptr %value, null
  br i1 %unlisted, label %clear, label %known
clear:
  call void @PyErr_Clear()
  br label %slow
known:
  call void @Py_IncRef(ptr %value)
  br label %fine""")
    device = _of_array("""
  %value = select i1 true, ptr @cpu, ptr null
  call void @Py_IncRef(ptr %value)
  br label %fine""")
    asked = f"""
  %base = call ptr @held(ptr %x, i64 {at["tensor._base"]})
  %node = call ptr @held(ptr %x, i64 {at["tensor._node"]})
  %needed = call ptr @held(ptr %x, i64 {at["tensor._requires_grad"]})
  %own = icmp eq ptr %base, @nothing
  %is.on = icmp eq ptr %needed, @true
  %is.off = icmp eq ptr %needed, @false
  %told = or i1 %is.on, %is.off
  %known = and i1 %own, %told
  br i1 %known, label %tell, label %slow
tell:"""
    requires_grad = f"""{asked}
  %value = select i1 %is.on, ptr @true, ptr @false
  call void @Py_IncRef(ptr %value)
  br label %fine"""
    is_leaf = f"""{asked}
  %users = icmp eq ptr %node, @nothing
  %leaf = or i1 %is.off, %users
  %value = select i1 %leaf, ptr @true, ptr @false
  call void @Py_IncRef(ptr %value)
  br label %fine"""
    bodies = (shape, ndim, dtype, device, requires_grad, is_leaf)
    return "\n".join(map(_getter, PROPERTIES, bodies))


def _memory(at: dict[str, int]) -> str:
    """Addresses of what is known to be shown, storages as PyTorch shows them, tensors on arrays of
    NumPy's."""
    shown = f"""
  %is.array = call i1 @is_numpys(ptr %array)
  %sharing = call ptr @held(ptr %storage, i64 {at["Storage.sharing"]})
  %shared = icmp ne ptr %sharing, null
  %both = and i1 %is.array, %shared
  br i1 %both, label %see, label %none
see:
  %shown = call ptr @held(ptr %sharing, i64 {at["MemoryStorages.shown"]})
  %is.shown = icmp eq ptr %shown, @true
  br i1 %is.shown, label %size, label %none
size:
  %rank = call i64 @rank_in(ptr %array)
  %sizes = call ptr @sizes_in(ptr %array)
  br label %next
next:
  %k = phi i64 [0, %size], [%kNext, %each]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %tell
each:
  %sizeAt = getelementptr i64, ptr %sizes, i64 %k
  %n = load i64, ptr %sizeAt
  %some = icmp ne i64 %n, 0
  %kNext = add i64 %k, 1
  br i1 %some, label %next, label %none
tell:
  %data = call ptr @held(ptr %array, i64 {HEAD})
  %word = ptrtoint ptr %data to i64
  %value = call ptr @PyLong_FromLongLong(i64 %word)
  ret ptr %value"""
    of_tensor = f"""{_PLAIN}
  %settled = call i1 @is_settled()
  br i1 %settled, label %ask, label %none
ask:
  %array = call ptr @array_in(ptr %x)
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]}){shown}"""
    of_storage = f"""
  %array = call ptr @held(ptr %storage, i64 {at["Storage.buffer"]}){shown}"""
    untyped = f"""{_PLAIN}
  %array = call ptr @array_in(ptr %x)
  %is.array = call i1 @is_numpys(ptr %array)
  br i1 %is.array, label %memory, label %none
memory:
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]})
  %buffer = call ptr @held(ptr %storage, i64 {at["Storage.buffer"]})
  %is.there = icmp ne ptr %buffer, @nothing
  br i1 %is.there, label %make, label %none
make:
  call void @Py_IncRef(ptr %storage)
  %shown = call ptr @object_new(ptr @UntypedStorage, ptr @no_arguments, ptr null)
  %unmade = icmp eq ptr %shown, null
  br i1 %unmade, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %storage)
  ret ptr null
fill:
  call void @take(ptr %shown, i64 {at["UntypedStorage._storage"]}, ptr %storage)
  call void @hold(ptr %shown, i64 {at["UntypedStorage.device"]}, ptr @cpu)
  ret ptr %shown"""
    from_memory = f"""
  %is.array = call i1 @is_numpys(ptr %array)
  br i1 %is.array, label %context, label %none
context:
  %settled = call i1 @is_settled()
  br i1 %settled, label %kind, label %none
kind:
  %dtype = call ptr @kind_in(ptr %array)
  %listed = call ptr @PyDict_GetItemWithError(ptr @dtype_of, ptr %dtype)
  %unlisted = icmp eq ptr %listed, null
  br i1 %unlisted, label %clear, label %bytes
clear:
  call void @PyErr_Clear()
  br label %none
bytes:
  %itemsize = call ptr @PyObject_GetAttr(ptr %array, ptr @itemsize_name)
  %no.itemsize = icmp eq ptr %itemsize, null
  br i1 %no.itemsize, label %clear, label %measure
measure:
  %size = call i64 @PyLong_AsLongLong(ptr %itemsize)
  call void @Py_DecRef(ptr %itemsize)
  %rank = call i64 @rank_in(ptr %array)
  %strides = call ptr @held(ptr %array, i64 {STRIDES})
  %sized = icmp sgt i64 %size, 0
  br i1 %sized, label %next, label %none
next:
  %k = phi i64 [0, %measure], [%kNext, %each]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %make
each:
  %strideAt = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %strideAt
  %over = srem i64 %stride, %size
  %forward = icmp sge i64 %stride, 0
  %whole = icmp eq i64 %over, 0
  %usual = and i1 %forward, %whole
  %kNext = add i64 %k, 1
  br i1 %usual, label %next, label %none
make:
  %x = call ptr @tensor_of(ptr %array)
  %unmade = icmp eq ptr %x, null
  br i1 %unmade, label %raise, label %share
share:
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]})
  %sharing = call ptr @sharing_of(ptr %storage)
  %unshared = icmp eq ptr %sharing, null
  br i1 %unshared, label %drop, label %show
drop:
  call void @Py_DecRef(ptr %x)
  br label %raise
raise:
  ret ptr null
show:
  call void @exchange(ptr %sharing, i64 {at["MemoryStorages.shown"]}, ptr @true)
  ret ptr %x"""
    return "\n".join((
        _question("data_address", "x", of_tensor), _question("untyped", "x", untyped),
        _question("storage_address", "storage", of_storage),
        _question("from_memory", "array", from_memory),
    ))  # fmt: skip


def _data(at: dict[str, int]) -> str:
    """A second storage on a tensor's memory (Note [watched memory])."""
    body = _of_array(f"""
  %settled = call i1 @is_settled()
  br i1 %settled, label %wrapped, label %slow
wrapped:
  %wrappers = call ptr @PyObject_GetAttr(ptr @hooks, ptr @wrappers_name)
  %no.wrappers = icmp eq ptr %wrappers, null
  br i1 %no.wrappers, label %raise, label %unwrapped
unwrapped:
  call void @Py_DecRef(ptr %wrappers)
  %none.wrap = icmp eq ptr %wrappers, @nothing
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]})
  %level = call ptr @held(ptr %storage, i64 {at["Storage.level"]})
  %trace = call ptr @held(ptr %storage, i64 {at["Storage.trace"]})
  %chain = call ptr @held(ptr %x, i64 {at["tensor._chain"]})
  %no.level = icmp eq ptr %level, @nothing
  %no.trace = icmp eq ptr %trace, @nothing
  %links = call i64 @PyTuple_Size(ptr %chain)
  %short = icmp slt i64 %links, {LONG}
  %a = and i1 %none.wrap, %no.level
  %b = and i1 %no.trace, %short
  %ab = and i1 %a, %b
  br i1 %ab, label %count, label %slow
count:
  %versionObject = call ptr @held(ptr %storage, i64 {at["storage.version"]})
  %version = call i64 @PyLong_AsLongLong(ptr %versionObject)
  %usual = icmp sge i64 %version, 0
  br i1 %usual, label %hold, label %slow
hold:
  call void @Py_IncRef(ptr %array)
  call void @Py_IncRef(ptr %chain)
  call void @Py_IncRef(ptr %storage)
  %sharing = call ptr @sharing_of(ptr %storage)
  %unshared = icmp eq ptr %sharing, null
  br i1 %unshared, label %leave, label %shared
shared:
  %counted = call ptr @held(ptr %sharing, i64 {at["MemoryStorages.counted"]})
  %uncounted = icmp eq ptr %counted, @false
  br i1 %uncounted, label %make, label %let
let:
  call void @Py_DecRef(ptr %array)
  call void @Py_DecRef(ptr %chain)
  call void @Py_DecRef(ptr %storage)
  br label %slow
make:
  call void @Py_IncRef(ptr %sharing)
  %value = call ptr @tensor_of(ptr %array)
  %event = call ptr @object_new(ptr @object, ptr @no_arguments, ptr null)
  %joinsBefore = call ptr @held(ptr %sharing, i64 {at["MemoryStorages.joins"]})
  %joins = call i64 @PyLong_AsLongLong(ptr %joinsBefore)
  %oneMore = add i64 %joins, 1
  %joined = call ptr @PyLong_FromLongLong(i64 %oneMore)
  %no.value = icmp eq ptr %value, null
  %no.event = icmp eq ptr %event, null
  %no.number = icmp eq ptr %joined, null
  %no.two = or i1 %no.value, %no.event
  %failed = or i1 %no.two, %no.number
  br i1 %failed, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %value)
  call void @Py_DecRef(ptr %event)
  call void @Py_DecRef(ptr %joined)
  call void @Py_DecRef(ptr %sharing)
  br label %leave
leave:
  call void @Py_DecRef(ptr %array)
  call void @Py_DecRef(ptr %chain)
  call void @Py_DecRef(ptr %storage)
  br label %raise
raise:
  ret ptr null
fill:
  %other = call ptr @held(ptr %value, i64 {at["tensor._storage"]})
  %buffer = call ptr @held(ptr %storage, i64 {at["Storage.buffer"]})
  %birth = call ptr @held(ptr %storage, i64 {at["Storage.birth"]})
  call void @exchange(ptr %value, i64 {at["tensor._chain"]}, ptr %chain)
  call void @exchange(ptr %other, i64 {at["Storage.buffer"]}, ptr %buffer)
  call void @exchange(ptr %other, i64 {at["Storage.birth"]}, ptr %birth)
  call void @take(ptr %other, i64 {at["Storage.sharing"]}, ptr %sharing)
  call void @exchange(ptr %sharing, i64 {at["MemoryStorages.joins"]}, ptr %joined)
  call void @exchange(ptr @events, i64 {at["_Events.latest"]}, ptr %event)
  call void @Py_DecRef(ptr %joined)
  call void @Py_DecRef(ptr %event)
  call void @Py_DecRef(ptr %array)
  call void @Py_DecRef(ptr %chain)
  call void @Py_DecRef(ptr %storage)
  br label %fine""")
    return _getter("data", body)
