"""Reading pickles without running what is in them: `load(weights_only=True)`, which is the default.

Every opcode is interpreted here. A name in the file is looked up in a fixed table of names that
build plain values, and among what the program itself declared safe; nothing is imported and nothing
else can be called, so a hostile file can only be refused, with the name of what it asked for.
"""

from __future__ import annotations

import pickle as op
from _compat_pickle import IMPORT_MAPPING
from codecs import escape_decode
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from pickle import UnpicklingError
from struct import error as StructError
from struct import unpack
from typing import Any

from adjoint.engine.core.files.budget import NESTING, Budget, FileRefusal
from adjoint.engine.core.spec import Size
from adjoint.io import objects
from adjoint.io.builders import Builder, brief, set_numpy_state
from adjoint.io.other_tensors import NAMED_SCHEMES, scheme

_MARK: Any = object()
_NESTING = frozenset({tuple, list, dict, set, frozenset, OrderedDict, Counter, defaultdict, Size})
# What the values an opcode makes take in memory, where its bytes in the file do not say it.
_COSTS: dict[bytes, int] = {
    **dict.fromkeys((op.EMPTY_LIST, op.LIST), 64), op.EMPTY_DICT: 72, op.DICT: 72,
    op.EMPTY_SET: 224, op.FROZENSET: 224, op.BININT: 40, op.BINFLOAT: 32, op.LONG1: 48,
    op.TUPLE: 56, op.TUPLE1: 64, op.TUPLE2: 72, op.TUPLE3: 80, op.INT: 48, op.LONG: 48,
    op.FLOAT: 40, op.BINPERSID: 256, op.BYTEARRAY8: 80, op.LONG4: 48,
    **dict.fromkeys((op.BINUNICODE, op.SHORT_BINUNICODE, op.BINUNICODE8, op.BINSTRING), 64),
    **dict.fromkeys((op.SHORT_BINSTRING, op.BINBYTES, op.SHORT_BINBYTES, op.BINBYTES8), 64),
}  # fmt: skip
_SLOT = 8  # a reference, as on the stack
_PAIR = 80  # an entry of a dict, in the middle of its growth
_MEMBER = 96  # of a set


class Unpickler:
    """Interprets one pickle after another from a file.

    Args:
        file: has `read` and `readline`.
        names: what a name in the file stands for.
        persistent_load: gives the storage a persistent id means.
        source: the file's name, for messages.
        budget: of the file (Note [reading what others wrote]); its size bounds what is read.
        encoding: of Python 2's strings.
    """

    def __init__(
        self,
        file: Any,
        names: Mapping[str, Any],
        persistent_load: Callable[[Any], Any],
        source: str,
        budget: Budget | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.file = file
        self.names = names
        self.persistent_load = persistent_load
        self.source = source
        self.encoding = encoding
        start = file.tell()
        self.end: int = file.seek(0, 2)
        file.seek(start)
        self.budget = Budget(self.end, f"load: {source}") if budget is None else budget
        self._forget()

    def _forget(self) -> None:
        self.stack: list[Any] = []
        self.memo: list[Any] = []  # by index, as picklers number them
        self.odd_memo: dict[int, Any] = {}  # those of other numbers
        self.objects: dict[int, Any] = {}  # by identity: objects whose state may follow
        self.depths: dict[int, int] = {}  # by identity: of containers that hold containers
        self.inner_defaults: set[int] = set()  # defaultdicts that are inside something
        self.late = 0  # how often one of those was given a container

    def load(self) -> Any:
        """The next value in the file."""
        self._forget()
        steps, costs, budget, read = _STEPS, _COSTS, self.budget, self.file.read
        while True:
            code = read(1)
            if code == op.STOP:
                value = self._pop()
                self._forget()
                return value
            step = steps.get(code)
            if step is None:
                self._no_step(code)
            budget.spent += costs.get(code, _SLOT)
            if budget.spent > budget.limit:
                budget.spend(0, "its values")
            try:
                step(self)  # type: ignore[misc]
            except (IndexError, KeyError, StructError, UnicodeDecodeError) as error:
                raise self._damaged("an operation lacks its operands") from error
            except FileRefusal as error:
                raise UnpicklingError(str(error)) from error

    def _no_step(self, code: bytes) -> None:
        if not code:
            raise EOFError(
                f"load: {self.source}: the file ends inside a value (truncated at byte {self.end})"
            )
        raise UnpicklingError(
            f"load: {self.source}: opcode {code!r} at byte {self.file.tell() - 1} has no place in "
            "a file of plain values"
        )

    def _damaged(self, why: str) -> UnpicklingError:
        return UnpicklingError(
            f"load: {self.source}: the pickle is damaged at byte {self.file.tell()}: {why}"
        )

    # -- bytes --------------------------------------------------------------------------------

    def read(self, count: int) -> bytes:
        """So many bytes, all of them there."""
        # A file would make room for all that is asked for, whether it is there or not.
        data = self.file.read(count) if count <= 4096 or count <= self._left() else b""
        if len(data) < count:
            raise EOFError(
                f"load: {self.source}: the file ends inside a value (truncated at byte {self.end})"
            )
        return data

    def _left(self) -> int:
        return self.end - int(self.file.tell())

    def _line(self) -> str:
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise EOFError(
                f"load: {self.source}: the file ends inside a name (truncated at byte {self.end})"
            )
        return line[:-1].decode("utf-8")

    def _number(self, form: str, size: int) -> Any:
        return unpack(form, self.read(size))[0]

    def _sized(self, form: str, size: int) -> bytes:
        count = self._number(form, size)
        data = self.read(count)
        self.budget.spend(count, "a value")
        return data

    # -- stack --------------------------------------------------------------------------------

    def _pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise self._damaged("a mark where a value should be")
        return value

    def _push(self, value: Any) -> None:
        self.stack.append(value)

    def _pop_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise self._damaged("there is no mark")

    # -- names and calls ----------------------------------------------------------------------

    def _find(self, module: str, name: str) -> None:
        module = IMPORT_MAPPING.get(module, module)  # as Python 2 called them
        builder = self.names.get(f"{module}.{name}")
        if builder is None:
            is_scheme = module == "torch" and name in NAMED_SCHEMES
            builder = scheme(name) if is_scheme else objects.find(module, name)
        if builder is None:
            raise UnpicklingError(
                f"load: {self.source}: refused: the file asks for {module[:200]}.{name[:200]}, "
                "which is not among what may be loaded. Nothing was executed. Save a state_dict "
                "instead of whole objects, declare what it asks for with "
                "serialization.add_safe_globals, or, for a file you trust, pass "
                "weights_only=False, which runs what the file says."
            )
        self._push(builder)

    def _global(self) -> None:
        module = self._line()
        self._find(module, self._line())

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self._damaged("a name that is no text")
        self._find(module, name)

    def _reduce(self) -> None:
        args, callee = self._pop(), self._pop()
        self._call(callee, args)

    def _call(self, callee: Any, args: Any, new: bool = False) -> None:
        if isinstance(args, tuple) and objects.is_safe(callee):
            self._make(callee, args, new)
            return
        if not isinstance(callee, Builder) or not isinstance(args, tuple):
            raise UnpicklingError(
                f"load: {self.source}: refused: the file tries to call {brief(callee)}. Nothing "
                "was executed."
            )
        try:
            built = callee.build(self.budget, *args)
        except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise UnpicklingError(
                f"load: {self.source}: {callee.name} cannot be built: {str(error)[:400]}"
            ) from error
        self._enter(built, args)
        self._push(built)

    def _make(self, cls: Any, args: tuple[Any, ...], new: bool) -> None:
        self.budget.spend(1024 + sum(_extent(part) for part in args), "an object")
        if isinstance(cls, type) and issubclass(
            cls, Enum
        ):  # its members are found by the hash of their value
            for part in args:
                self.budget.check_key(part)
        elif cls is defaultdict and any(type(part) is not dict for part in args[1:]):
            raise self._damaged("a defaultdict of something else than a dict")
        try:
            built = objects.make(cls, args, new)
        except (TypeError, ValueError, AttributeError, RuntimeError, LookupError) as error:
            raise UnpicklingError(
                f"load: {self.source}: {brief(cls)} cannot be built: {str(error)[:400]}"
            ) from error
        self.objects[id(built)] = built
        self._enter(built, args)
        self._push(built)

    def _newobj(self) -> None:
        args, cls = self._pop(), self._pop()
        self._call(cls, args, new=True)

    def _build(self) -> None:
        state, target = self._pop(), self.stack[-1]
        self.budget.spend(_extent(state), "the state of an object")
        if type(target) is OrderedDict and type(state) is dict:
            if not all(isinstance(name, str) for name in state):
                raise self._damaged("attributes whose names are no text")
            target.__dict__.update(state)
        elif id(target) in self.objects:
            self._set_state(target, state)
        elif not set_numpy_state(target, state, self.budget):
            raise UnpicklingError(
                f"load: {self.source}: refused: the file sets the state of a "
                f"{type(target).__name__}"
            )

    def _set_state(self, target: Any, state: Any) -> None:
        try:
            objects.set_state(target, state)
        except Exception as error:  # a class given what it was not made for may fail in any way
            raise UnpicklingError(
                f"load: {self.source}: the state of a {type(target).__name__} does not fit it: "
                f"{type(error).__name__}: {str(error)[:400]}"
            ) from error

    def _persistent(self) -> None:
        self._push(self.persistent_load(self._pop()))

    # -- containers ---------------------------------------------------------------------------

    def _enter(self, parent: Any, children: Iterable[Any]) -> Any:
        """Note how deep a container is, now that it has these children; gives it back."""
        deepest, depths = 0, self.depths
        for child in children:
            if type(child) in _NESTING:
                deepest = max(deepest, depths.get(id(child), 1))
                if type(child) is defaultdict:
                    self.inner_defaults.add(id(child))
        if deepest and type(parent) in _NESTING:
            self.budget.spend(_PAIR, "its values")
            depths[id(parent)] = deepest + 1
            # Freeing a chain of these takes a frame of C for each link, in whatever order it grew.
            self.late += type(parent) is defaultdict and id(parent) in self.inner_defaults
            if deepest >= NESTING or self.late > NESTING:
                raise self.budget.too_deep("a value")
        elif depths:
            depths.pop(id(parent), None)  # of one before it, in the same place
        return parent

    def _grow(self, parent: Any, children: Iterable[Any]) -> None:
        before = self.depths.get(id(parent), 0)
        self._enter(parent, children)
        if before > self.depths.get(id(parent), 0):
            self.depths[id(parent)] = before

    def _new(self, container: Any) -> None:
        """Push a container that is still empty."""
        if self.depths:
            self.depths.pop(id(container), None)  # of one before it, in the same place
        self.stack.append(container)

    def _container(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise self._damaged(
                f"a {kind.__name__} expected, a {type(self.stack[-1]).__name__} found"
            )
        return self.stack[-1]

    def _append(self) -> None:
        item = self._pop()
        self._container(list).append(item)
        self._grow(self.stack[-1], (item,))

    def _appends(self) -> None:
        items = self._pop_mark()
        self._container(list).extend(items)
        self._grow(self.stack[-1], items)

    def _setitem(self) -> None:
        value, key = self._pop(), self._pop()
        self._store([key, value])

    def _setitems(self) -> None:
        self._store(self._pop_mark())

    def _store(self, items: list[Any]) -> None:
        target = self._container(dict)
        self._fill(target, items)
        self._grow(target, items)

    def _fill(self, target: Any, items: list[Any]) -> None:
        if len(items) % 2:
            raise self._damaged("a key without a value")
        self.budget.spend(_PAIR * len(items) // 2, "a dict")
        for i in range(0, len(items), 2):
            self.budget.check_key(items[i])
            target[items[i]] = items[i + 1]

    def _add_items(self) -> None:
        items = self._members()
        self._container(set).update(items)
        self._grow(self.stack[-1], items)

    def _members(self) -> list[Any]:
        """What goes into a set."""
        items = self._pop_mark()
        self.budget.spend(_MEMBER * len(items), "a set")
        for item in items:
            self.budget.check_key(item)
        return items

    def _make_frozenset(self) -> None:
        items = self._members()
        self._push(self._enter(frozenset(items), items))

    def _make_dict(self) -> None:
        items = self._pop_mark()
        mapping: dict[Any, Any] = {}
        self._fill(mapping, items)
        self._push(self._enter(mapping, items))

    def _make_list(self) -> None:
        items = self._pop_mark()
        self._push(self._enter(items, items))

    def _make_tuple(self) -> None:
        items = tuple(self._pop_mark())
        self._push(self._enter(items, items))

    def _tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) < count or any(item is _MARK for item in items):
            raise self._damaged("a tuple lacks items")
        del self.stack[-count:]
        self._push(self._enter(items, items))

    def _old_int(self) -> None:
        line = self._line()
        known = {"00": False, "01": True}.get(line)
        self._push(int(line) if known is None else known)

    def _old_string(self) -> None:
        """A string of protocol 0, as Python writes it in source."""
        line = self._line().rstrip()
        if len(line) < 2 or line[0] != line[-1] or line[0] not in "'\"":
            raise self._damaged("a string without quotes")
        raw, _ = escape_decode(line[1:-1].encode("latin1"))
        self._push(raw.decode(self.encoding))

    # -- what occurs again --------------------------------------------------------------------

    def _remember(self, index: int) -> None:
        value = self.stack[-1]
        if index == len(self.memo):
            self.memo.append(value)
        elif 0 <= index < len(self.memo):
            self.memo[index] = value
        else:
            self.budget.spend(_PAIR + 32, "its values")
            self.odd_memo[index] = value

    def _recall(self, index: int) -> None:
        known = 0 <= index < len(self.memo)
        self._push(self.memo[index] if known else self.odd_memo[index])

    def _memoize(self) -> None:
        self._remember(len(self.memo) + len(self.odd_memo))


def _extent(value: Any) -> int:
    """What a copy of a value takes, not counting what it refers to."""
    if isinstance(value, (dict, set, frozenset)):
        return _PAIR * len(value)
    return len(value) * _SLOT if hasattr(value, "__len__") and type(value) in _LONG else 0


_LONG = frozenset({str, bytes, bytearray, list, tuple})


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


@cache
def _numbers() -> list[int]:
    return list(range(1 << 16))


def _shared(number: int) -> int:
    """One object for each number of two bytes: they take fewer in a file than in memory."""
    return _numbers()[number]


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
    op.BININT2: lambda u: u._push(_shared(u._number("<H", 2))),
    op.LONG1: lambda u: u._push(op.decode_long(u._sized("<B", 1))),
    op.LONG4: lambda u: u._push(op.decode_long(u._sized("<I", 4))),
    op.BINFLOAT: lambda u: u._push(u._number(">d", 8)),
    op.BINUNICODE: lambda u: u._push(_text(u._sized("<I", 4))),
    op.SHORT_BINUNICODE: lambda u: u._push(_text(u._sized("<B", 1))),
    op.BINUNICODE8: lambda u: u._push(_text(u._sized("<Q", 8))),
    op.STRING: Unpickler._old_string,
    op.BINSTRING: lambda u: u._push(u._sized("<I", 4).decode(u.encoding)),
    op.SHORT_BINSTRING: lambda u: u._push(u._sized("<B", 1).decode(u.encoding)),
    op.BINBYTES: lambda u: u._push(u._sized("<I", 4)),
    op.SHORT_BINBYTES: lambda u: u._push(u._sized("<B", 1)),
    op.BINBYTES8: lambda u: u._push(u._sized("<Q", 8)),
    op.BYTEARRAY8: lambda u: u._push(bytearray(u._sized("<Q", 8))),
    op.EMPTY_TUPLE: lambda u: u._push(()),
    op.TUPLE1: lambda u: u._tuple_of(1),
    op.TUPLE2: lambda u: u._tuple_of(2),
    op.TUPLE3: lambda u: u._tuple_of(3),
    op.TUPLE: Unpickler._make_tuple,
    op.EMPTY_LIST: lambda u: u._new([]),
    op.LIST: Unpickler._make_list,
    op.EMPTY_DICT: lambda u: u._new({}),
    op.DICT: Unpickler._make_dict,
    op.EMPTY_SET: lambda u: u._new(set()),
    op.ADDITEMS: Unpickler._add_items,
    op.FROZENSET: Unpickler._make_frozenset,
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
    op.MEMOIZE: Unpickler._memoize,
    op.BINGET: lambda u: u._recall(u._number("<B", 1)),
    op.LONG_BINGET: lambda u: u._recall(u._number("<I", 4)),
    op.GET: lambda u: u._recall(int(u._line())),
}
