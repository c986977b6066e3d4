"""Writing plain values as a pickle that PyTorch's restricted unpickler reads.

Python's own pickler looks every name up in its module, so it cannot write `torch._utils...` where
there is no PyTorch. The subset needed here is small: protocol 2, a memo, and a case per type.
"""

from __future__ import annotations

import pickle as op
from collections import Counter, OrderedDict
from collections.abc import Callable
from struct import pack
from typing import Any

import numpy as np

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import Layout
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.other_tensors import is_quantized

MAX_DEPTH = 400


class Pickler:
    """Writes one value; tensors are handed to `reduce_tensor`.

    Args:
        write: takes bytes.
        reduce_tensor: gives (name of a rebuilding function, its arguments) for a tensor.
        reduce_storage: gives the persistent id of a storage.
    """

    def __init__(
        self,
        write: Callable[[bytes], Any],
        reduce_tensor: Callable[[Any], Any],
        reduce_storage: Callable[[Any], tuple[Any, ...]],
    ) -> None:
        self.write = write
        self.reduce_tensor = reduce_tensor
        self.reduce_storage = reduce_storage
        self.memo: dict[Any, int] = {}
        self.alive: list[Any] = []  # so that ids stay unique
        self.path: list[str] = []

    def dump(self, value: Any) -> None:
        """Write a whole pickle."""
        self.write(op.PROTO + b"\x02")
        self.save(value)
        self.write(op.STOP)

    # -- values -------------------------------------------------------------------------------

    def save(self, value: Any) -> None:
        """Write a value, or a reference if it was written before."""
        if id(value) in self.memo and not isinstance(value, (bool, type(None))):
            self._get(id(value))
            return
        if len(self.path) > MAX_DEPTH:
            raise ValueError(f"save: containers nested more than {MAX_DEPTH} deep")
        for kind, method in _SAVERS.items():
            if type(value) is kind:
                method(self, value)
                return
        if isinstance(value, Tensor) or is_quantized(value):
            self._reduce(value, *self.reduce_tensor(value))
        elif isinstance(value, np.generic):
            self.save(value.item())
        elif isinstance(value, (Persistent, UntypedStorage)):
            self.save(value.pid if isinstance(value, Persistent) else self.reduce_storage(value))
            self.write(op.BINPERSID)
        elif isinstance(value, Global):
            self._global(value)
        else:
            raise TypeError(self._refusal(value))

    def _refusal(self, value: Any) -> str:
        kind = type(value)
        remedy = "Save plain containers, numbers, strings and tensors"
        if isinstance(value, np.ndarray):
            remedy = "Save adjoint.from_numpy(array)"
        elif hasattr(value, "state_dict"):
            remedy = "Save its state_dict(), or pass pickle_module=pickle to save it whole"
        elif isinstance(value, dict):
            remedy = "Save dict(value)"
        elif isinstance(value, (tuple, list, frozenset)):
            remedy = "Save it as a plain tuple, list or set"
        named = f"{kind.__module__}.{kind.__qualname__}{self._place()}"
        return f"save: cannot save {named}. {remedy}."

    def _place(self) -> str:
        """Where in the whole the value is that is written now; nothing for the whole itself."""
        return f" at {''.join(self.path)}" if self.path else ""

    def _none(self, value: None) -> None:
        self.write(op.NONE)

    def _bool(self, value: bool) -> None:
        self.write(op.NEWTRUE if value else op.NEWFALSE)

    def _int(self, value: int) -> None:
        if 0 <= value < 256:
            self.write(op.BININT1 + pack("<B", value))
        elif 0 <= value < 65536:
            self.write(op.BININT2 + pack("<H", value))
        elif -(2**31) <= value < 2**31:
            self.write(op.BININT + pack("<i", value))
        else:
            packed = op.encode_long(value)
            if len(packed) > 255:
                raise ValueError(f"save: an integer of {len(packed)} bytes is too large")
            self.write(op.LONG1 + pack("<B", len(packed)) + packed)

    def _float(self, value: float) -> None:
        self.write(op.BINFLOAT + pack(">d", value))

    def _complex(self, value: complex) -> None:
        self._reduce(value, "builtins complex", (value.real, value.imag))

    def _str(self, value: str) -> None:
        packed = value.encode("utf-8", "surrogatepass")
        self.write(op.BINUNICODE + pack("<I", len(packed)) + packed)
        self._put(value)

    def _bytes(self, value: bytes) -> None:
        if not value:  # as the standard pickler does at protocol 2
            self._reduce(value, "_codecs encode", ("", "latin1"))
        else:
            self._reduce(value, "_codecs encode", (value.decode("latin1"), "latin1"))

    def _bytearray(self, value: bytearray) -> None:
        self._reduce(value, "builtins bytearray", (bytes(value),))

    def _tuple(self, value: tuple[Any, ...]) -> None:
        if not value:
            self.write(op.EMPTY_TUPLE)
            return
        if len(value) > 3:
            self.write(op.MARK)
        for i, item in enumerate(value):
            self._at(f"[{i}]", item)
        if id(value) in self.memo:  # it contains itself: drop the items, refer to what was made
            self.write(op.POP_MARK if len(value) > 3 else op.POP * len(value))
            self._get(id(value))
            return
        self.write({1: op.TUPLE1, 2: op.TUPLE2, 3: op.TUPLE3}.get(len(value), op.TUPLE))
        self._put(value)

    def _list(self, value: list[Any]) -> None:
        self.write(op.EMPTY_LIST)
        self._put(value)
        if value:
            self.write(op.MARK)
            for i, item in enumerate(value):
                self._at(f"[{i}]", item)
            self.write(op.APPENDS)

    def _dict(self, value: dict[Any, Any]) -> None:
        self.write(op.EMPTY_DICT)
        self._put(value)
        self._items(value)

    def _ordered(self, value: OrderedDict[Any, Any]) -> None:
        self._reduce(value, "collections OrderedDict", ())
        self._items(value)
        if vars(value):  # a module's state dict carries `_metadata`
            self._at(".__dict__", dict(vars(value)))
            self.write(op.BUILD)

    def _counter(self, value: Counter[Any]) -> None:
        self._reduce(value, "collections Counter", (dict(value),))

    def _items(self, value: dict[Any, Any]) -> None:
        if value:
            self.write(op.MARK)
            for key, item in value.items():
                self._at(f"[key {key!r}]", key)
                self._at(f"[{key!r}]", item)
            self.write(op.SETITEMS)

    def _set(self, value: set[Any]) -> None:
        self._reduce(value, "builtins set", (list(value),))

    def _size(self, value: Size) -> None:
        self._reduce(value, "torch Size", (tuple(value),))

    def _dtype(self, value: DType) -> None:
        self._global(Global("torch " + value.name))

    def _device(self, value: Device) -> None:
        args = (value.type,) if value.index is None else (value.type, value.index)
        self._reduce(value, "torch device", args)

    def _layout(self, value: Layout) -> None:
        self._reduce(value, "torch.serialization _get_layout", (f"torch.{value.name}",))

    # -- parts --------------------------------------------------------------------------------

    def _at(self, where: str, item: Any) -> None:
        self.path.append(where)
        self.save(item)
        self.path.pop()

    def _global(self, value: Global) -> None:
        key = ("global", value.name)
        if key in self.memo:
            self._get(key)
            return
        module, name = value.name.split(" ")
        if module == "builtins":
            module = "__builtin__"  # its name at protocol 2
        self.write(op.GLOBAL + f"{module}\n{name}\n".encode())
        self._put(value, key)

    def _reduce(self, value: Any, name: str, args: tuple[Any, ...]) -> None:
        self._global(Global(name))
        self._tuple(args)
        self.write(op.REDUCE)
        self._put(value)

    def _put(self, value: Any, key: Any = None) -> None:
        index = len(self.alive)
        self.memo[id(value) if key is None else key] = index
        self.alive.append(value)
        self.write(
            op.BINPUT + pack("<B", index) if index < 256 else op.LONG_BINPUT + pack("<I", index)
        )

    def _get(self, key: Any) -> None:
        index = self.memo[key]
        self.write(
            op.BINGET + pack("<B", index) if index < 256 else op.LONG_BINGET + pack("<I", index)
        )


class Global:
    """A name of a class or function: module and name, with a space between."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any) -> None:
        """Nothing: Python's pickler wants what rebuilds a value to be something to call."""


class Persistent:
    """A reference to something outside the pickle: a storage."""

    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


_SAVERS: dict[type, Callable[[Pickler, Any], None]] = {
    type(None): Pickler._none,
    bool: Pickler._bool,
    int: Pickler._int,
    float: Pickler._float,
    complex: Pickler._complex,
    str: Pickler._str,
    bytes: Pickler._bytes,
    bytearray: Pickler._bytearray,
    tuple: Pickler._tuple,
    list: Pickler._list,
    dict: Pickler._dict,
    OrderedDict: Pickler._ordered,
    TrackedDict: Pickler._dict,
    Counter: Pickler._counter,
    set: Pickler._set,
    Size: Pickler._size,
    DType: Pickler._dtype,
    Device: Pickler._device,
    Layout: Pickler._layout,
}
