"""Functions that look at Python's objects and make some, written line by line as Python would be.

A pointer to an object is its name in the text (`%x`, `@cpu`, None for null), numbers and truths are
values with operators. `adjoint/engine/backends/llvm/small/README.md` follows one from here to the
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.registers.vector import Code, V, type_text

T = TypeVar("T", str, V)
Given: TypeAlias = "str | V | bool | int | None"  # to a call: a pointer, a value, a number, null


# What the functions that read and write fields call. A value that is put into a field is held, or
# taken over from the caller; what was there before is let go of when the new value is in its place.
FIELDS = """
define ptr @held(ptr %x, i64 %at) alwaysinline {
  %slot = getelementptr i8, ptr %x, i64 %at
  %value = load ptr, ptr %slot
  ret ptr %value
}
define void @hold(ptr %x, i64 %at, ptr %value) alwaysinline {
  call void @Py_IncRef(ptr %value)
  %slot = getelementptr i8, ptr %x, i64 %at
  store ptr %value, ptr %slot
  ret void
}
define void @take(ptr %x, i64 %at, ptr %value) alwaysinline {
  %slot = getelementptr i8, ptr %x, i64 %at
  store ptr %value, ptr %slot
  ret void
}
define void @exchange(ptr %x, i64 %at, ptr %value) {
  %before = call ptr @held(ptr %x, i64 %at)
  call void @hold(ptr %x, i64 %at, ptr %value)
  call void @Py_DecRef(ptr %before)
  ret void
}"""


class ObjectFunction:
    """Writes one function.

    Note [ways out]
        Most of such a function asks whether things are as it knows them, and ends where they are
        not: there Python is called instead, or an error goes on. Each of these ends is written once
        (`way_out`), and any line may take it (`check`, `refuse`, `made`). What the function owns at
        that line, references that it made or holds, is let go of on the way, so no line can forget
        one; and none can end with a result while it still owns something else.

    >>> f = ObjectFunction("length", "x")
    >>> slow = f.way_out("slow", lambda: f.tell(f.call("in_python", "%x")))
    >>> f.check(f.truth("is_list", "%x"), slow)
    >>> f.hold("%x")
    >>> size = f.made("PyLong_FromLongLong", f.number("PyList_Size", "%x"), otherwise=slow)
    >>> f.let_go("%x")
    >>> f.tell(size)
    >>> print(f.text())
    define ptr @length(ptr %x) {
    entry:
    %t0 = call i1 @is_list(ptr %x)
    br i1 %t0, label %on1, label %slow
    on1:
    call void @Py_IncRef(ptr %x)
    %t1 = call i64 @PyList_Size(ptr %x)
    %t2 = call ptr @PyLong_FromLongLong(i64 %t1)
    %t3 = icmp eq ptr %t2, null
    br i1 %t3, label %out2, label %on3
    out2:
    call void @Py_DecRef(ptr %x)
    br label %slow
    on3:
    call void @Py_DecRef(ptr %x)
    ret ptr %t2
    slow:
    %t4 = call ptr @in_python(ptr %x)
    ret ptr %t4
    }
    """

    def __init__(
        self,
        name: str,
        *parameters: str,
        at: Mapping[str, int] | None = None,
        result: str = "ptr",
    ) -> None:
        self.name, self.parameters, self.result = name, parameters, result
        self.at = {} if at is None else at  # where objects keep their fields
        self.code = Code()
        self.blocks = Blocks(self.code)
        self.owned: list[str] = []
        self._reserved: list[str] = []
        self._ways_out: dict[str, Callable[[], object]] = {}
        self._taken: list[str] = []

    # -- calls ----------------------------------------------------------------------------------

    def _call(self, result: str, name: str, given: tuple[Given, ...]) -> str:
        return f"call {result} @{name}({', '.join(map(_argument, given))})"

    def call(self, name: str, *given: Given) -> str:
        """What a function gives: an object that somebody else owns, or an address."""
        return self.code.let(self._call("ptr", name, given))

    def number(self, name: str, *given: Given, kind: str = "i64") -> V:
        """What a function gives: a whole number."""
        return self.code.value(self.code.let(self._call(type_text(kind, 1), name, given)), kind, 1)

    def truth(self, name: str, *given: Given) -> V:
        """What a function gives: whether something holds."""
        return self.number(name, *given, kind="i1")

    def do(self, name: str, *given: Given) -> None:
        """Call a function that gives nothing."""
        self.code.lines.append(self._call("void", name, given))

    def made(self, name: str, *given: Given, otherwise: str) -> str:
        """What a function makes, owned from here on; where it makes nothing, a way out is taken."""
        new = self.call(name, *given)
        self.refuse(self.is_null(new), otherwise)
        return self.own(new)

    # -- objects --------------------------------------------------------------------------------

    def same(self, x: str, y: str) -> V:
        """Whether two are one object."""
        return self.code.value(self.code.let(f"icmp eq ptr {x}, {y}"), "i1", 1)

    def is_null(self, x: str) -> V:
        """Whether there is no object."""
        return self.same(x, "null")

    def either(self, condition: V, yes: str, no: str) -> str:
        """One of two objects."""
        return self.code.let(f"select i1 {condition.ref}, ptr {yes}, ptr {no}")

    def item(self, group: str, k: V | int) -> str:
        """One of the items of a tuple, which owns it."""
        return self.call("PyTuple_GetItem", group, k)

    def field(self, x: str, name: str) -> str:
        """What an object keeps in a field, by the names of `at`."""
        return self.call("held", x, self.at[name])

    def fill(self, x: str, name: str, value: str) -> None:
        """Put a value into a field that is empty, which owns it from here on."""
        if value in self.owned:
            self.owned.remove(value)
            self.do("take", x, self.at[name], value)
        else:
            self.do("hold", x, self.at[name], value)

    def exchange(self, x: str, name: str, value: str) -> None:
        """Put a value into a field, in the place of another."""
        self.do("exchange", x, self.at[name], value)

    def put(self, group: str, k: V | int, item: str) -> None:
        """Put an item into a new tuple, which owns it from here on."""
        self._put("PyTuple_SetItem", group, k, item)

    def put_in_list(self, group: str, k: V | int, item: str) -> None:
        """The same of a new list."""
        self._put("PyList_SetItem", group, k, item)

    def _put(self, function: str, group: str, k: V | int, item: str) -> None:
        if item not in self.owned:
            self.hold(item)
        self.hand_on(item)
        self.number(function, group, k, item, kind="i32")

    def hold(self, *objects: str) -> None:
        """Own objects of others, so that they stay while this function needs them."""
        for x in objects:
            self.do("Py_IncRef", x)
            self.owned.append(x)

    def own(self, x: str) -> str:
        """Own what a function gave that was looked at meanwhile."""
        self.owned.append(x)
        return x

    def hand_on(self, x: str) -> None:
        """Own an object no longer, because what is called next does."""
        self.owned.remove(x)

    def let_go(self, *objects: str) -> None:
        """Own objects no longer."""
        for x in objects:
            self.owned.remove(x)
            self.do("Py_DecRef", x)

    # -- memory ---------------------------------------------------------------------------------

    def arguments(self, count: int) -> list[str]:
        """The objects that Python calls the function with: its parameters are self, args, given."""
        return [self.pointer("%args", k) for k in range(count)]

    def listed(self, *objects: str) -> str:
        """The address of objects that lie side by side, for as long as the function runs."""
        at = f"%listed{len(self._reserved)}"
        self._reserved.append(f"{at} = alloca [{len(objects)} x ptr]")
        for k, x in enumerate(objects):
            self.point(at, k, x)
        return at

    def pointer(self, base: str, k: V | int) -> str:
        """One of the pointers that lie at an address."""
        return self.code.let(f"load ptr, ptr {self.place('ptr', base, k)}")

    def point(self, base: str, k: V | int, x: str) -> None:
        """Put a pointer among those that lie at an address."""
        self.code.lines.append(f"store ptr {x}, ptr {self.place('ptr', base, k)}")

    def room(self, words: int) -> str:
        """The address of so many words of the function's own."""
        at = f"%room{len(self._reserved)}"
        self._reserved.append(f"{at} = alloca [{words} x i64]")
        return at

    def place(self, kind: str, base: str, k: V | int) -> str:
        """The address of one of the things of a kind that lie at another."""
        return self.code.let(f"getelementptr {kind}, ptr {base}, {_argument(k)}")

    def word(self, base: str, k: V | int, kind: str = "i64") -> V:
        """One of the whole numbers that lie at an address."""
        at = self.place(kind, base, k)
        return self.code.value(self.code.let(f"load {kind}, ptr {at}"), kind, 1)

    def write(self, value: int, base: str, ahead: int) -> None:
        """Put a whole number so many bytes behind an address."""
        self.code.lines.append(f"store i64 {value}, ptr {self.place('i8', base, ahead)}")

    def whole(self, value: int) -> V:
        """A whole number."""
        return self.code.const(value, "i64")

    def parameter(self, name: str, kind: str = "i64") -> V:
        """A parameter that is a number."""
        return self.code.value(f"%{name}", kind, 1)

    def as_number(self, address: str) -> V:
        """An address as a number."""
        return self.code.value(self.code.let(f"ptrtoint ptr {address} to i64"), "i64", 1)

    # -- control (Note [ways out]) --------------------------------------------------------------

    def way_out(self, label: str, body: Callable[[], object]) -> str:
        """An end of the function that lines before may take."""
        self._ways_out[label] = body
        return label

    def ending(self, label: str, result: Given, *, forget: bool = False) -> str:
        """A way out with one result, of objects somebody else's; an error is told, or forgotten."""

        def end() -> None:
            if forget:
                self.do("PyErr_Clear")
            if isinstance(result, str):
                self.hold(result)
            self.tell(result)

        return self.way_out(label, end)

    def take(self, way_out: str) -> None:
        """End here: let go of all that is owned, then go a way out."""
        self.let_go(*reversed(self.owned))
        self._taken.append(way_out)
        self.blocks.go(way_out)

    def check(self, condition: V, otherwise: str) -> None:
        """Go on where a condition holds."""
        self._part(condition, otherwise, on_where=True)

    def refuse(self, condition: V, out: str) -> None:
        """Go on where a condition does not hold."""
        self._part(condition, out, on_where=False)

    def _part(self, condition: V, out: str, *, on_where: bool) -> None:
        leave = self.blocks.label("out") if self.owned else out
        after = self.blocks.label("on")
        self._taken.append(out)
        self.blocks.branch(condition.ref, *((after, leave) if on_where else (leave, after)))
        if self.owned:
            owned = list(self.owned)
            self.blocks.begin(leave)
            self.take(out)
            self.owned = owned
        self.blocks.begin(after)

    def end_where(self, condition: V, body: Callable[[], object]) -> None:
        """Where a condition holds, do what ends the function (`tell`, `take`)."""
        owned, end, after = list(self.owned), self.blocks.label("end"), self.blocks.label("on")
        self.blocks.branch(condition.ref, end, after)
        self.blocks.begin(end)
        body()
        self.owned = owned
        self.blocks.begin(after)

    def when(self, condition: V, body: Callable[[], object]) -> None:
        """Do `body` where a condition holds; what is owned stays the same."""
        self.blocks.when(condition.ref, body)

    def choose(
        self, condition: V, yes: Callable[[], list[T]], no: Callable[[], list[T]]
    ) -> list[T]:
        """What one of two branches gives; each owns the same of it, under one name from then on."""
        labels = [self.blocks.label(stem) for stem in ("yes", "no", "both")]
        self.blocks.branch(condition.ref, labels[0], labels[1])
        owned = list(self.owned)
        given: list[list[T]] = []
        ends, after = [], []
        for label, body in zip(labels, (yes, no), strict=False):
            self.owned = list(owned)
            self.blocks.begin(label)
            given.append(body())
            ends.append(self.code.block)
            self.blocks.go(labels[2])
            self._rename(given[-1], [f"{labels[2]}.{k}" for k in range(len(given[-1]))])
            after.append(sorted(self.owned))
        if after[0] != after[1]:
            raise RuntimeError(f"{self.name}: one branch owns {after[0]}, the other {after[1]}")
        self.blocks.begin(labels[2])
        out = []
        for k, (a, b) in enumerate(zip(*given, strict=True)):
            pair = f"[{_ref(a)}, %{ends[0]}], [{_ref(b)}, %{ends[1]}]"
            out.append(_like(a, self.code.let(f"phi {_type(a)} {pair}")))
            self._rename([f"{labels[2]}.{k}"], [_ref(out[-1])])
        return out

    def each(
        self, count: V | Callable[[], V], body: Callable[..., list[T] | None], *carried: T
    ) -> list[T]:
        """Do `body(k, *carried)` for k in range(count), which gives what is carried on.

        What is owned of it is another object in each turn. A count that may change while the loop
        runs is a function that asks for it.
        """
        blocks, code, before = self.blocks, self.code, self.code.block
        ask, inside, after = (blocks.label(stem) for stem in ("next", "turn", "all"))
        blocks.go(ask)
        blocks.begin(ask)
        at = len(code.lines)
        code.lines += [""] * (1 + len(carried))
        k = code.value(f"%k.{ask}", "i64", 1)
        held = [_like(x, f"%x{n}.{ask}") for n, x in enumerate(carried)]
        blocks.branch((k < (count if isinstance(count, V) else count())).ref, inside, after)
        blocks.begin(inside)
        names = [_ref(x) for x in held]
        self._rename(carried, names)
        new = body(k, *held) or []
        self._rename(new, names)
        more = k + 1
        blocks.go(ask)
        code.lines[at] = f"{k.ref} = phi i64 [0, %{before}], [{more.ref}, %{code.block}]"
        for n, (x, first, then) in enumerate(zip(held, carried, new, strict=True), 1):
            pair = f"[{_ref(first)}, %{before}], [{_ref(then)}, %{code.block}]"
            code.lines[at + n] = f"{_ref(x)} = phi {_type(x)} {pair}"
        blocks.begin(after)
        return held

    def _rename(self, things: Sequence[str | V], names: Sequence[str]) -> None:
        """Have what is owned of some objects be owned by other names."""
        for x, name in zip(things, names, strict=True):
            if x in self.owned:
                self.owned[self.owned.index(_ref(x))] = name

    def tell(self, result: Given = None) -> None:
        """End with a result; an object is the caller's, whether it was owned or is new to it."""
        if isinstance(result, str) and result in self.owned:
            self.owned.remove(result)
        if self.owned:
            raise RuntimeError(f"{self.name}: ends while it owns {self.owned}. Let go of it first.")
        text = "void" if self.result == "void" else f"{self.result} {_ref(result)}"
        self.code.lines.append(f"ret {text}")

    def tell_held(self, result: str) -> None:
        """End with an object of somebody else's."""
        self.hold(result)
        self.tell(result)

    def text(self) -> str:
        """The whole function; ways out that no line takes are left out."""
        written: set[str] = set()
        for label in self._taken:  # which grows, where ways out take others
            if label not in written:
                written.add(label)
                self.blocks.begin(label)
                self._ways_out[label]()
        given = ", ".join(
            "{} %{}".format(*name.split()) if " " in name else f"ptr %{name}"
            for name in self.parameters
        )
        body = "\n".join(["entry:", *self._reserved, *self.code.lines])
        return f"define {self.result} @{self.name}({given}) {{\n{body}\n}}"


def _type(x: Given) -> str:
    if isinstance(x, V):
        return x.type
    return "i1" if isinstance(x, bool) else "i64" if isinstance(x, int) else "ptr"


def _ref(x: Given) -> str:
    """How a thing is written in the text."""
    if isinstance(x, V):
        return x.ref
    return str(x).lower() if isinstance(x, bool) else str(x) if isinstance(x, int) else x or "null"


def _argument(x: Given) -> str:
    return f"{_type(x)} {_ref(x)}"


def _like(x: T, ref: str) -> T:
    """Another thing of the same type."""
    return replace(x, ref=ref, number=None) if isinstance(x, V) else type(x)(ref)
