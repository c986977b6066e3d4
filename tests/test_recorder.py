"""The recorder as an interpreter of Python, and as a machine of guards and effects.

Python is the oracle throughout: the same function called by Python itself.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import enum
import fractions
import functools
import itertools
import operator
import statistics
import string
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from adjoint.engine.capture.python.errors import Refusal
from adjoint.engine.capture.python.instructions import TABLE, TABLES
from adjoint.engine.capture.python.observation import observe
from tests import python_programs

CORPUS: dict[str, Callable[..., Any]] = {}


def row(fn: Callable[..., Any]) -> Callable[..., Any]:
    CORPUS[fn.__name__] = fn
    return fn


class Tens(Sequence[int]):
    """Its iterator is a generator, with an `except` of its own."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return [10, 20, 30][index]


class Amount:
    """Operators, properties, iteration, `with`."""

    left = 0

    def __init__(self, x: int) -> None:
        self.x = x

    @property
    def more(self) -> int:
        return self.x + 1

    def __add__(self, other: Any) -> Amount:
        return Amount(self.x + (other.x if isinstance(other, Amount) else other))

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount) and self.x == other.x

    def __lt__(self, other: Amount) -> bool:
        return self.x < other.x

    def __hash__(self) -> int:
        return hash(self.x)

    def __repr__(self) -> str:
        return f"Amount({self.x!r})"

    def __enter__(self) -> Amount:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> bool:
        return kind is KeyError

    @classmethod
    def made(cls, x: int) -> Amount:
        return cls(x)

    @staticmethod
    def doubled(x: int) -> int:
        return x * 2

    def __len__(self) -> int:
        return self.x

    def __iter__(self) -> Any:
        yield from range(self.x)


class Larger(Amount):
    """`super`, twice."""

    def __init__(self, x: int) -> None:
        super().__init__(x + 1)

    def scaled(self) -> int:
        return super().more * 10


class Colour(enum.Enum):
    """An enum."""

    RED = 1
    BLUE = 2


@dataclass(order=True)
class Point:
    """A dataclass."""

    x: int = 1
    y: list[int] = field(default_factory=list)


class Proxy:
    """An object that answers for another."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)


class Recorded(type):
    """A metaclass."""

    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.by = cls.__name__
        return made


class Thing(metaclass=Recorded):
    """What it makes."""

    __slots__ = ("by", "n")

    def __init__(self, n: int) -> None:
        self.n = n


class Celsius:
    """A descriptor."""

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return self if obj is None else obj.kelvin - 273

    def __set__(self, obj: Any, value: int) -> None:
        obj.kelvin = value + 273


class Weather:
    """Its owner."""

    celsius = Celsius()

    @functools.cached_property
    def cold(self) -> bool:
        return self.celsius < 5


def arguments(*args: Any, k: int = 2, **kwargs: Any) -> Any:
    return args, k, kwargs


@row
def comprehensions() -> Any:
    y = [i * 2 for i in range(5)]
    return (
        sum(y),
        {i % 3 for i in y},
        {i: -i for i in y},
        [*map(str, y)],
        [(a, b) for a in y for b in y if a < b],
    )


@row
def handlers() -> Any:
    out = []
    try:
        try:
            raise ValueError("a")
        finally:
            out.append("finally")
    except (KeyError, ValueError) as error:
        out.append(str(error))
    else:
        out.append("else")
    for i in range(3):
        try:
            if i == 1:
                continue
            out.append(i)
        finally:
            out.append("f")
    return out


@row
def chained() -> Any:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError as error:
        return repr(error.__context__), error.__cause__


@row
def generators() -> Any:
    def inner() -> Any:
        x = yield 1
        try:
            y = yield x
        except KeyError:
            y = "caught"
        return y

    def outer() -> Any:
        result = yield from inner()
        yield ("result", result)

    it = outer()
    out = [next(it), it.send(5)]
    out.append(it.throw(KeyError("z")))
    return out, list(it), list(range(3))


@row
def generator_that_is_closed() -> Any:
    out = []

    def numbers() -> Any:
        try:
            yield from itertools.count()
        finally:
            out.append("closed")

    it = numbers()
    next(it)
    it.close()
    return out


@row
def generators_left_where_closing_them_runs_nothing() -> Any:
    def counted() -> Any:
        try:
            try:
                yield from itertools.count()
            except (IndexError, KeyError):
                out.append("not this")
        except ValueError as error:
            out.append(str(error))

    out: list[Any] = []
    return list(zip("ab", Tens(), strict=False)), 20 in Tens(), next(counted()), out


@row
def stop_iteration_inside() -> Any:
    def bad() -> Any:
        yield 1
        raise StopIteration

    return list(bad())


@row
def objects() -> Any:
    a, b = Amount.made(3), Larger(4)
    with a as same:
        raise KeyError
    return (
        repr(a + b), sum([a, b], Amount(0)), a == Amount(3), b.scaled(), Amount.doubled(4), list(a),
        bool(Amount(0)), f"{a!r:>10} {b}", same is a, max(a, b), sorted([b, a]), a in [b, Amount(3)],
    )  # fmt: skip


@row
def calls() -> Any:
    y = (3, 4)
    d = {"a": 1}
    return arguments(*y, **d), arguments(1, k=3), arguments(*y, *y, k=1, **d), [lambda q=7: q][0]()


@row
def unpacking() -> Any:
    x, *y, z = range(5)
    (a, b), c = [(1, 2), 3]
    return x, y, z, a, b, c, [*y, *y], {"a": 1, "b": 2}


@row
def too_many_values() -> Any:
    values: list[int] = [1, 2, 3]
    a, b = values
    return a, b


@row
def patterns() -> Any:
    def kind(v: Any) -> Any:
        match v:
            case [1, x, *rest]:
                return ("sequence", x, rest)
            case {"k": z, **others}:
                return ("mapping", z, others)
            case Point(x=q) if q > 2:
                return q
            case Amount(x=q):
                return ("amount", q)
            case Colour.RED:
                return "red"
            case int() | float():
                return "number"
            case str(text):
                return text
        return None

    values = [
        [1, 2, 3],
        {"k": 1, "j": 2},
        Point(5),
        Point(1),
        Amount(3),
        Colour.RED,
        2.5,
        "s",
        None,
    ]
    return [kind(v) for v in values]


@row
def closures() -> Any:
    x = 1

    def bump(by: int = 1) -> int:
        nonlocal x
        x += by
        return x

    bump()
    bump(3)
    return x, [f() for f in [lambda i=i: i + x for i in range(3)]]


@row
def containers() -> Any:
    values = [3, 1, 2]
    values.sort(key=lambda v: -v)
    values += [5]
    del values[0]
    values[1:2] = [7, 8]
    d = collections.OrderedDict(a=1)
    d.update(b=2)
    d.move_to_end("a")
    groups = collections.defaultdict(list)
    groups["x"].append(1)
    line = collections.deque([1, 2, 3], maxlen=3)
    line.append(4)
    line.rotate(1)
    counts = collections.Counter("abca")
    counts.update("zz")
    return (
        values,
        list(d),
        dict(groups),
        list(line),
        counts.most_common(2),
        values[::-1],
        8 in values,
    )


@row
def protocols() -> Any:
    proxy = Proxy(Amount(2))
    proxy.x = 9
    weather = Weather()
    weather.celsius = 3
    thing = Thing(4)
    return (
        proxy.more,
        weather.kelvin,
        weather.cold,
        weather.cold,
        thing.by,
        thing.n,
        Colour(1).name,
        Point(2) < Point(3),
    )


@row
def library() -> Any:
    return (
        textwrap.fill("hello world foo bar baz " * 5, 20),
        str(fractions.Fraction(3, 9) + 1),
        statistics.mean([1, 2, 3.5]),
        statistics.median([3, 1, 2]),
        string.Template("$a and $b").substitute(a=1, b=2),
        functools.reduce(operator.add, [1, 2, 3]),
        list(itertools.chain([1], [2])),
        operator.itemgetter(1)([1, 2]),
        functools.partial(arguments, 1, k=3)(2),
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])],
    )


@row
def managers() -> Any:
    out: list[Any] = []

    @contextlib.contextmanager
    def block(name: str) -> Any:
        out.append(f"in {name}")
        try:
            yield name
        finally:
            out.append(f"out {name}")

    with block("a") as v, contextlib.suppress(ValueError):
        out.append(v)
        raise ValueError
    with contextlib.ExitStack() as stack:
        stack.enter_context(block("b"))
        stack.enter_context(block("c"))
    return out


@row
def classes() -> Any:
    class Local:
        z = 3

        def method(self) -> int:
            return self.z

    return Local().method(), Local.__name__


@row
def texts() -> Any:
    return (
        "%s %d %r" % ("a", 3, [1]),  # noqa: UP031
        f"{1} {2:>4}", ",".join(str(i) for i in range(3)),
        f"{3.14159:.2f} {'a'!r} {[Amount(1)]}", "aXb".lower().split("x"),
    )  # fmt: skip


@row
def loops() -> Any:
    for i in range(3):
        if i == 5:
            break
    else:
        i = 10
    while True:
        i += 1
        if i > 15:
            return i


@row
def missing_name() -> Any:
    return not_defined  # type: ignore[name-defined] # noqa: F821


@row
def unbound_local() -> Any:
    if len([]) > 1:
        x = 1
    return x


@row
def bad_arguments() -> Any:
    return Amount.doubled(1, 2)  # type: ignore[call-arg]


@row
def bad_operator() -> Any:
    return Amount(1) - "a"  # type: ignore[operator]


@row
def bad_attribute() -> Any:
    return Amount(1).nothing  # type: ignore[attr-defined]


@row
def deep_recursion() -> Any:
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    return down(60)


def outcome(fn: Callable[..., Any]) -> Any:
    """What a function gives, or the exception it raises: type, message, line."""
    try:
        return "value", repr(fn())
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", CORPUS)
def test_what_python_does(name: str) -> None:
    fn = CORPUS[name]
    found = observe(fn)
    if found.error is None:
        assert ("value", repr(found.result)) == outcome(fn)
    else:
        assert (type(found.error).__name__, str(found.error)) == outcome(fn)


def test_the_table_knows_every_instruction() -> None:
    pseudo = {"CACHE", "EXTENDED_ARG", "RESERVED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "INTERPRETER_EXIT"}  # fmt: skip
    named = {dis.opname[op] for op in dis.opmap.values() if op < 256}
    known = {n for n in named if not n.startswith(("INSTRUMENTED", "<"))} - pseudo
    assert known <= TABLE.keys()
    assert set(TABLES) == {(3, 11), (3, 12), (3, 13), (3, 14)}


def left_within(kind: str) -> Any:
    """A generator's first value; Python closes it where the iterator over it ends."""

    def finishing() -> Any:
        try:
            yield from itertools.count()
        finally:
            seen.append(kind)

    def catching() -> Any:
        try:
            yield 1
        except BaseException:
            seen.append(kind)
            raise

    def catching_outside() -> Any:
        try:
            try:
                yield 1
            except KeyError:
                seen.append("not this")
        except GeneratorExit:
            seen.append(kind)

    seen: list[str] = []
    made = {"finally": finishing, "except": catching, "outer": catching_outside}[kind]
    return list(zip("a", made(), strict=False)), seen


ITERATOR = (n for n in [1])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "clock": (lambda: __import__("time").time(), "time.time"),
    "file": (lambda: open(__file__).read(), "open"),  # noqa: SIM115
    "iterator": (lambda: next(ITERATOR), "from outside"),
    "code": (lambda: eval("1"), "eval"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_vouched_for_is_refused_with_its_line(name: str) -> None:
    fn, told = REFUSED[name]
    with pytest.raises(Refusal, match=rf"{told}.*test_recorder.py:\d+"):
        observe(fn)


@pytest.mark.parametrize("kind", ["finally", "except", "outer"])
def test_a_generator_whose_closing_runs_code_must_end(kind: str) -> None:
    with pytest.raises(Refusal, match="it was left before its end"):
        observe(lambda: left_within(kind))


def test_a_guard_tells_what_changed() -> None:
    rate = {"lr": 0.5}
    found = observe(lambda: rate["lr"] * 2)
    guards = found.guards()
    assert guards.holds()
    rate["lr"] = 0.25
    assert not guards.holds()
    (told,) = guards.failures()
    assert all(word in told for word in ("'lr'", "0.5", "0.25", "test_recorder.py"))


class Compiled:
    """As little of a compiler as there can be: recordings, guards, replays."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.kept: list[Any] = []
        self.recorded = 0
        self.moving: set[Any] = set()

    def __call__(self, x: Any) -> Any:
        for key, guards, replay in self.kept:
            if key == x and guards.holds():
                return replay()
        for _, guards, _ in self.kept[-1:]:
            self.moving |= {g.place for g in guards.failed() if type(g.value) in (int, float)}
        self.recorded += 1
        found = observe(self.fn, (x,), moving=self.moving)
        replay = found.replay()
        found.roll_back()
        guards = found.guards()
        assert guards.holds(), guards.failures()
        self.kept.append((x, guards, replay))
        return replay()


def check_program(seed: int) -> int:
    """Play a random program in two worlds; how often it was recorded."""
    writer = python_programs.Writer(seed)
    source = writer.source()
    plain, other = python_programs.world(source), python_programs.world(source)
    compiled = Compiled(other["f"])
    for _ in range(5):
        x = writer.random.choice([1, 1, 1, 2])
        want = python_programs.outcome(plain["f"], x)
        got = python_programs.outcome(compiled, x)
        assert python_programs.state(plain, want) == python_programs.state(other, got), source
        if writer.random.random() < 0.6:
            change = writer.change()
            for scope in (plain, other):
                exec(change, scope)
    return compiled.recorded


def test_random_programs() -> None:
    recorded = sum(check_program(seed) for seed in range(120))
    assert recorded < 5 * 120  # some calls were replayed


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs(part: int) -> None:
    for seed in range(1000 + 500 * part, 1500 + 500 * part):
        check_program(seed)
