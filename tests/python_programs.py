"""Random programs about Python's own state, each as two worlds that start alike."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

HEAD = """
from collections import deque, OrderedDict, defaultdict
FLAG = 1
TABLE = {"a": 1, "b": 2}

class Box:
    shared = 5
    def __init__(self, n):
        self.n = n
        self.items = [n, 2, 3]
        self.table = {"a": n, "b": 2}
        self.seen = {1, 2}
        self.line = deque([1, 2, 3])
        self.flag = True
        self.groups = defaultdict(list)
    @property
    def twice(self):
        return self.n * 2
    def bump(self, by=1):
        self.n += by
        return self.n
    def __getitem__(self, key):
        return self.table[key]
    def __len__(self):
        return len(self.items)

class Slotted:
    __slots__ = ("n", "held")
    def __init__(self, n):
        self.n = n

S = Box(1)
O = Box(4)
T = Slotted(7)
ALIAS = S.items

def counter():
    count = 0
    def step(by=1):
        nonlocal count
        count += by
        return count
    return step

STEP = counter()
def helper(v, acc=[]):
    acc.append(v)
    return len(acc)
"""


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    def box(self) -> str:
        """An object of the world."""
        return str(self.pick("S", "O", "S", "S"))

    def number(self) -> str:
        """An expression for a number."""
        b, i = self.box(), self.random.randrange(-2, 4)
        key = self.pick("'a'", "'b'", "'c'")
        return str(
            self.pick(
                "x", str(i), f"{b}.n", f"len({b}.items)", f"{b}.items[{i}]",
                f"{b}.table.get({key}, 0)", f"({key} in {b}.table)", f"sum({b}.items)",
                f"{b}.twice", f"{b}[{key}]", "Box.shared", "FLAG", f"TABLE.get({key}, -1)",
                f"len({b})", f"max({b}.items, default=0)", f"{b}.line[0]", f"int({b}.flag)",
                "T.n", "STEP()", f"helper({i})", f"{b}.bump({i})", f"getattr({b}, 'extra', 9)",
                f"len({b}.seen)", f"(2 in {b}.seen)", f"min({b}.table.values(), default=3)",
                f"len({b}.groups[{key}])", f"sum(v for v in {b}.items if v > {i})",
                f"(S.items is {b}.items)", f"({b}.n if {b}.flag else x)", f"len(f'{{{b}.n}}')",
                f"{b}.items.count(2)", f"(ALIAS is {b}.items)", f"sorted({b}.items)[0]",
                f"next(iter({b}.table.values()), 0)", f"hasattr({b}, 'extra')",
            )
        )  # fmt: skip

    def statement(self) -> list[str]:
        """A statement, as lines."""
        b, v, i = self.box(), self.number(), self.random.randrange(-2, 4)
        key = self.pick("'a'", "'b'", "'c'", "x")
        simple = [
            f"out.append({v})", f"{b}.n += 1", f"{b}.n = {v}", f"{b}.items.append({v})",
            f"{b}.items[{i}] = {v}", f"out.append({b}.items.pop())", f"{b}.table[{key}] = {v}",
            f"out.append({b}.table.pop({key}, None))", f"{b}.seen.add({v})",
            f"{b}.line.append({v})", f"{b}.line.rotate({i})", f"out.append({b}.line.popleft())",
            f"{b}.flag = not {b}.flag", f"{b}.extra = {v}", f"T.held = [{v}]", f"T.n += {v}",
            "global FLAG; FLAG = x", f"TABLE[{key}] = {v}", f"Box.shared += {i}",
            f"{b}.items = [{v}, 1]", f"{b}.items = list({b}.items)", f"{b}.items += [{v}]",
            f"{b}.items.sort()", f"{b}.items.reverse()", f"{b}.groups[{key}].append({v})",
            f"out.append(tuple({b}.line))", f"out.append(list({b}.table.items()))",
            f"out.append(sorted({b}.seen))", f"{b}.last = out", f"{b}.items.insert({i}, {v})",
            f"a = {b}.items; a.append({v}); O.alias = a", f"{b}.table.update(c={v})",
            f"out.append([k for k in {b}.table])", f"S.fn = lambda y=x: y + {i}",
            f"out.append({b}.table.setdefault({key}, {v}))", f"{b}.seen.discard({v})",
            "S.items, O.items = O.items, S.items", f"out.append({b}.items)",
            f"del {b}.extra", f"{b}.made = Box({v})", f"{b}.pair = ({b}.items, [x])",
            f"{b}.items.clear()", f"{b}.line.extendleft([{v}, x])", f"out.append(vars({b}).get('n'))",
            f"{b}.seen |= {{x, {i}}}", f"setattr({b}, 'extra', {v})", f"print_out = {v}",
        ]  # fmt: skip
        if self.depth < 2 and self.random.random() < 0.25:
            return self.block(v)
        return [str(self.pick(*simple))]

    def block(self, value: str) -> list[str]:
        """A statement with statements in it."""
        self.depth += 1
        body = ["    " + line for _ in range(self.pick(1, 2)) for line in self.statement()]
        other = ["    " + line for line in self.statement()]
        self.depth -= 1
        b = self.box()
        return list(
            self.pick(
                [f"if {value}:", *body, "else:", *other],
                [f"for v in {b}.items[:3]:", "    out.append(v)", *body],
                [f"for v in list({b}.table):", *body],
                ["try:", *body, "except (KeyError, IndexError, AttributeError, ValueError) as e:",
                 "    out.append(type(e).__name__)", *other],
                ["try:", *body, "finally:", *other],
                [f"while len({b}.items) > 3:", f"    {b}.items.pop()"],
            )
        )  # fmt: skip

    def source(self) -> str:
        """The program."""
        lines = [line for _ in range(self.random.randrange(2, 7)) for line in self.statement()]
        body = "\n".join("    " + line for line in lines)
        if "global FLAG" in body:
            body = "    global FLAG\n" + body.replace("global FLAG; ", "")
        return f"{HEAD}\ndef f(x):\n    out = []\n{body}\n    return out\n"

    def change(self) -> str:
        """A change from outside."""
        b, i = self.box(), self.random.randrange(0, 9)
        return str(
            self.pick(
                f"{b}.n = {i}", f"{b}.items.append({i})", f"{b}.items[0:1] = [{i}]",
                f"{b}.table['a'] = {i}", f"{b}.table.pop('b', None)", f"{b}.flag = not {b}.flag",
                f"{b}.seen.add({i})", f"{b}.line.append({i})", f"Box.shared = {i}", f"FLAG = {i}",
                f"TABLE['c'] = {i}", f"{b}.extra = {i}", f"T.n = {i}", "O.items = S.items",
                f"{b}.items = [{i}]", "STEP()", "helper(0)", f"{b}.n = float({b}.n)", "pass", "pass",
                f"{b}.n = True", f"S.items.insert(0, {i})", f"{b}.groups['a'].append({i})",
                "Box.twice = property(lambda self: self.n * 3)", f"{b}.__class__ = Other",
                "helper.__defaults__ = ([],)", "ALIAS = O.items", "STEP = counter()",
                f"Box.bump = lambda self, by=1: {i}",
            )
        )  # fmt: skip


OTHER = "\nclass Other(Box):\n    shared = 11\n    def __len__(self):\n        return 42\n"


def world(source: str) -> dict[str, Any]:
    """A world in which the program's function can be called."""
    scope: dict[str, Any] = {"__name__": "world"}
    exec(compile(source + OTHER, "<program>", "exec"), scope)
    return scope


def shape(value: Any, seen: dict[int, int]) -> Any:
    """A value for comparison with another world's: contents and sharing."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return type(value).__name__, repr(value)
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return type(value).__name__, [(shape(k, seen), shape(v, seen)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [shape(v, seen) for v in value]
    if isinstance(value, set):
        return "set", sorted(map(repr, value))
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if callable(value) and hasattr(value, "__code__"):
        cells = [c.cell_contents for c in value.__closure__ or ()]
        return (
            "function",
            value.__code__.co_code,
            [shape(c, seen) for c in cells],
            [shape(d, seen) for d in value.__defaults__ or ()],
        )
    slots = [getattr(value, s, None) for s in getattr(type(value), "__slots__", ())]
    return (
        type(value).__name__,
        shape(getattr(value, "__dict__", {}), seen),
        [shape(s, seen) for s in slots],
    )


def state(scope: dict[str, Any], result: Any) -> Any:
    """What a call gave and left behind."""
    seen: dict[int, int] = {}
    names = ("S", "O", "T", "ALIAS", "FLAG", "TABLE", "STEP", "helper")
    found = [shape(result, seen), *[shape(scope[name], seen) for name in names]]
    return [*found, scope["Box"].shared]


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or the exception it raises."""
    try:
        return fn(*args)
    except Exception as error:
        return error.with_traceback(None)
