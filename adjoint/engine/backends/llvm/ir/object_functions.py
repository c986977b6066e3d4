"""Functions that look at Python's objects and make some, written line by line as Python would be.

A pointer to an object is its name in the text (`%x`, `@cpu`, None for null), numbers and truths are
values with operators. `adjoint/engine/backends/llvm/small/README.md` follows one from here to the
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.registers.vector import Code, V

Given: TypeAlias = "str | V | int | None"  # to a call: a pointer, a value, a number, null


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
        return self.code.value(self.code.let(self._call(kind, name, given)), kind, 1)

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
        self.owned.append(new)
        return new

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

    def put(self, group: str, k: V, item: str) -> None:
        """Put an item, which is owned here, into a new tuple, which owns it from here on."""
        self.owned.remove(item)
        self.number("PyTuple_SetItem", group, k, item, kind="i32")

    def hold(self, *objects: str) -> None:
        """Own objects of others, so that they stay while this function needs them."""
        for x in objects:
            self.do("Py_IncRef", x)
            self.owned.append(x)

    def let_go(self, *objects: str) -> None:
        """Own objects no longer."""
        for x in objects:
            self.owned.remove(x)
            self.do("Py_DecRef", x)

    # -- memory ---------------------------------------------------------------------------------

    def word(self, base: str, k: V) -> V:
        """One of the whole numbers that lie at an address."""
        at = self.code.let(f"getelementptr i64, ptr {base}, i64 {k.ref}")
        return self.code.value(self.code.let(f"load i64, ptr {at}"), "i64", 1)

    def write(self, value: int, base: str, ahead: int) -> None:
        """Put a whole number so many bytes behind an address."""
        at = self.code.let(f"getelementptr i8, ptr {base}, i64 {ahead}")
        self.code.lines.append(f"store i64 {value}, ptr {at}")

    def as_number(self, address: str) -> V:
        """An address as a number."""
        return self.code.value(self.code.let(f"ptrtoint ptr {address} to i64"), "i64", 1)

    # -- control (Note [ways out]) --------------------------------------------------------------

    def way_out(self, label: str, body: Callable[[], object]) -> str:
        """An end of the function that lines before may take."""
        self._ways_out[label] = body
        return label

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

    def each(self, count: V, body: Callable[[V], object]) -> None:
        """Do `body(k)` for k in range(count)."""

        def turn(k: str, _: list[V]) -> tuple[()]:
            body(self.code.value(k, "i64", 1))
            return ()

        self.blocks.loop("0", count.ref, 1, (), turn)

    def tell(self, result: str | V | bool | None) -> None:
        """End with a result; an object is the caller's, whether it was owned or is new to it."""
        if isinstance(result, str) and result in self.owned:
            self.owned.remove(result)
        if self.owned:
            raise RuntimeError(f"{self.name}: ends while it owns {self.owned}. Let go of it first.")
        if isinstance(result, bool):
            text = str(result).lower()
        else:
            text = _argument(result).rpartition(" ")[2]
        self.code.lines.append(f"ret {self.result} {text}")

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
        given = ", ".join(f"ptr %{name}" for name in self.parameters)
        body = "\n".join(["entry:", *self.code.lines])
        return f"define {self.result} @{self.name}({given}) {{\n{body}\n}}"


def _argument(x: Given) -> str:
    if isinstance(x, V):
        return f"{x.type} {x.ref}"
    return f"i64 {x}" if isinstance(x, int) else f"ptr {x or 'null'}"
