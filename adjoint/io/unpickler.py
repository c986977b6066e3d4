"""Reading pickles without ever running what is in them.

Every opcode is interpreted here. A name in the file is looked up in a fixed table of names that
build plain values; nothing is imported and nothing else can be called, so a hostile file can only
be refused, with the name of what it asked for.
"""

from __future__ import annotations

import pickle as op
from _compat_pickle import IMPORT_MAPPING
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pickle import UnpicklingError
from struct import error as StructError
from struct import unpack
from typing import Any

from adjoint.io import objects
from adjoint.io.builders import Builder, set_numpy_state

_MARK: Any = object()


class Unpickler:
    """Interprets one pickle after another from a file.

    Args:
        file: has `read` and `readline`.
        names: what a name in the file stands for.
        persistent_load: gives the storage a persistent id means.
        source: the file's name, for messages.
        weights_only: whether objects that are no plain values are refused.
    """

    def __init__(
        self,
        file: Any,
        names: Mapping[str, Any],
        persistent_load: Callable[[Any], Any],
        source: str,
        weights_only: bool = True,
    ) -> None:
        self.weights_only = weights_only
        self.made: list[Any] = []  # objects whose state may follow
        self.file = file
        self.names = names
        self.persistent_load = persistent_load
        self.source = source
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The next value in the file."""
        self.stack, self.memo = [], {}
        steps = _STEPS
        while True:
            code = self.read(1)
            if code == op.STOP:
                return self._pop()
            step = steps.get(code)
            if step is None:
                raise UnpicklingError(
                    f"load: {self.source}: opcode {code!r} has no place in a file of plain values"
                )
            try:
                step(self)
            except (IndexError, KeyError, StructError, UnicodeDecodeError) as error:
                raise UnpicklingError(f"load: {self.source}: the pickle is damaged") from error

    # -- bytes --------------------------------------------------------------------------------

    def read(self, count: int) -> bytes:
        """So many bytes, all of them there."""
        data = self.file.read(count)
        if len(data) < count:
            raise EOFError(f"load: {self.source}: the file ends inside a value (truncated?)")
        return data

    def _line(self) -> str:
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise EOFError(f"load: {self.source}: the file ends inside a name (truncated?)")
        return line[:-1].decode("utf-8")

    def _number(self, form: str, size: int) -> Any:
        return unpack(form, self.read(size))[0]

    def _sized(self, form: str, size: int) -> bytes:
        return self.read(self._number(form, size))

    # -- stack --------------------------------------------------------------------------------

    def _pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise UnpicklingError(f"load: {self.source}: the pickle is damaged (stray mark)")
        return value

    def _push(self, value: Any) -> None:
        self.stack.append(value)

    def _pop_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise UnpicklingError(f"load: {self.source}: the pickle is damaged (no mark)")

    # -- names and calls ----------------------------------------------------------------------

    def _find(self, module: str, name: str) -> None:
        module = IMPORT_MAPPING.get(module, module)  # as Python 2 called them
        found = self.names.get(f"{module}.{name}")
        if found is None:
            found = objects.find(module, name, self.weights_only)
        if found is None:
            remedy = (
                "Save a state_dict instead of whole objects, declare the class with "
                "serialization.add_safe_globals, or pass weights_only=False, which rebuilds "
                "objects of this program's own classes."
                if self.weights_only
                else "Only classes of this program, of nn and of optim are rebuilt."
            )
            raise UnpicklingError(
                f"load: {self.source}: refused: the file asks for {module}.{name}, which is not "
                f"among what may be loaded. Nothing was executed. {remedy}"
            )
        self._push(found)

    def _global(self) -> None:
        module = self._line()
        self._find(module, self._line())

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise UnpicklingError(f"load: {self.source}: the pickle is damaged (name)")
        self._find(module, name)

    def _reduce(self) -> None:
        args, callee = self._pop(), self._pop()
        self._call(callee, args)

    def _call(self, callee: Any, args: Any, new: bool = False) -> None:
        if isinstance(callee, type) and isinstance(args, tuple):  # one that `objects.find` gave
            try:
                self.made.append(objects.make(callee, args, new))
            except (TypeError, ValueError, UnpicklingError) as error:
                raise UnpicklingError(f"load: {self.source}: {error}") from error
            self._push(self.made[-1])
            return
        if not isinstance(callee, Builder) or not isinstance(args, tuple):
            raise UnpicklingError(
                f"load: {self.source}: refused: the file tries to call {callee!r}. Nothing was "
                "executed."
            )
        try:
            self._push(callee.build(*args))
        except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise UnpicklingError(
                f"load: {self.source}: {callee.name} cannot be built: {error}"
            ) from error

    def _newobj(self) -> None:
        args, cls = self._pop(), self._pop()
        self._call(cls, args, new=True)

    def _build(self) -> None:
        state, target = self._pop(), self.stack[-1]
        if type(target) is OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)
        elif any(target is made for made in self.made):
            objects.set_state(target, state)
        elif not set_numpy_state(target, state):
            raise UnpicklingError(
                f"load: {self.source}: refused: the file sets the state of a "
                f"{type(target).__name__}"
            )

    def _persistent(self) -> None:
        self._push(self.persistent_load(self._pop()))

    # -- containers ---------------------------------------------------------------------------

    def _container(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise UnpicklingError(
                f"load: {self.source}: the pickle is damaged ({kind.__name__} expected, "
                f"{type(self.stack[-1]).__name__} found)"
            )
        return self.stack[-1]

    def _append(self) -> None:
        item = self._pop()
        self._container(list).append(item)

    def _appends(self) -> None:
        items = self._pop_mark()
        self._container(list).extend(items)

    def _setitem(self) -> None:
        value, key = self._pop(), self._pop()
        self._store(key, value)

    def _setitems(self) -> None:
        items = self._pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._store(key, value)

    def _store(self, key: Any, value: Any) -> None:
        target = self._container(dict)
        try:
            target[key] = value
        except TypeError as error:
            raise UnpicklingError(f"load: {self.source}: a key cannot be hashed") from error

    def _add_items(self) -> None:
        items = self._pop_mark()
        self._container(set).update(items)

    def _make_dict(self) -> None:
        items = self._pop_mark()
        self._push(dict(zip(items[::2], items[1::2], strict=True)))

    def _tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) < count or _MARK in items:
            raise UnpicklingError(f"load: {self.source}: the pickle is damaged (tuple)")
        del self.stack[-count:]
        self._push(items)

    def _old_int(self) -> None:
        line = self._line()
        self._push({"00": False, "01": True}.get(line) if len(line) == 2 else int(line))
        if self.stack[-1] is None:
            self.stack[-1] = int(line)

    def _remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_STEPS: dict[bytes, Callable[[Unpickler], Any]] = {
    op.PROTO: lambda u: u.read(1),
    op.FRAME: lambda u: u.read(8),
    op.MARK: lambda u: u._push(_MARK),
    op.POP: lambda u: u.stack.pop(),
    op.POP_MARK: lambda u: u._pop_mark(),
    op.DUP: lambda u: u._push(u.stack[-1]),
    op.NONE: lambda u: u._push(None),
    op.NEWTRUE: lambda u: u._push(True),
    op.NEWFALSE: lambda u: u._push(False),
    op.INT: Unpickler._old_int,
    op.LONG: lambda u: u._push(int(u._line().rstrip("L"))),
    op.FLOAT: lambda u: u._push(float(u._line())),
    op.BININT: lambda u: u._push(u._number("<i", 4)),
    op.BININT1: lambda u: u._push(u._number("<B", 1)),
    op.BININT2: lambda u: u._push(u._number("<H", 2)),
    op.LONG1: lambda u: u._push(op.decode_long(u._sized("<B", 1))),
    op.LONG4: lambda u: u._push(op.decode_long(u._sized("<I", 4))),
    op.BINFLOAT: lambda u: u._push(u._number(">d", 8)),
    op.BINUNICODE: lambda u: u._push(_text(u._sized("<I", 4))),
    op.SHORT_BINUNICODE: lambda u: u._push(_text(u._sized("<B", 1))),
    op.BINUNICODE8: lambda u: u._push(_text(u._sized("<Q", 8))),
    op.BINSTRING: lambda u: u._push(u._sized("<I", 4).decode("utf-8")),
    op.SHORT_BINSTRING: lambda u: u._push(u._sized("<B", 1).decode("utf-8")),
    op.BINBYTES: lambda u: u._push(u._sized("<I", 4)),
    op.SHORT_BINBYTES: lambda u: u._push(u._sized("<B", 1)),
    op.BINBYTES8: lambda u: u._push(u._sized("<Q", 8)),
    op.BYTEARRAY8: lambda u: u._push(bytearray(u._sized("<Q", 8))),
    op.EMPTY_TUPLE: lambda u: u._push(()),
    op.TUPLE1: lambda u: u._tuple_of(1),
    op.TUPLE2: lambda u: u._tuple_of(2),
    op.TUPLE3: lambda u: u._tuple_of(3),
    op.TUPLE: lambda u: u._push(tuple(u._pop_mark())),
    op.EMPTY_LIST: lambda u: u._push([]),
    op.LIST: lambda u: u._push(u._pop_mark()),
    op.EMPTY_DICT: lambda u: u._push({}),
    op.DICT: Unpickler._make_dict,
    op.EMPTY_SET: lambda u: u._push(set()),
    op.ADDITEMS: Unpickler._add_items,
    op.FROZENSET: lambda u: u._push(frozenset(u._pop_mark())),
    op.APPEND: Unpickler._append,
    op.APPENDS: Unpickler._appends,
    op.SETITEM: Unpickler._setitem,
    op.SETITEMS: Unpickler._setitems,
    op.GLOBAL: Unpickler._global,
    op.STACK_GLOBAL: Unpickler._stack_global,
    op.REDUCE: Unpickler._reduce,
    op.NEWOBJ: Unpickler._newobj,
    op.BUILD: Unpickler._build,
    op.BINPERSID: Unpickler._persistent,
    op.BINPUT: lambda u: u._remember(u._number("<B", 1)),
    op.LONG_BINPUT: lambda u: u._remember(u._number("<I", 4)),
    op.PUT: lambda u: u._remember(int(u._line())),
    op.MEMOIZE: lambda u: u._remember(len(u.memo)),
    op.BINGET: lambda u: u._push(u.memo[u._number("<B", 1)]),
    op.LONG_BINGET: lambda u: u._push(u.memo[u._number("<I", 4)]),
    op.GET: lambda u: u._push(u.memo[int(u._line())]),
}
