"""Objects of Python's in compiled functions: programs that do the same with and without."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

Wrap = Callable[..., Any]
ROWS: dict[str, Callable[[Wrap], Any]] = {}


def row(fn: Callable[[Wrap], Any]) -> Callable[[Wrap], Any]:
    """A program; `wrap` compiles its functions, or does not."""
    ROWS[fn.__name__] = fn
    return fn


@row
def notes_of_errors(wrap: Wrap) -> Any:
    outside = ValueError("outside")
    count = [0]

    def f(x: Any) -> Any:
        count[0] += 1
        inside = ValueError("inside")
        inside.add_note("a")
        outside.add_note(f"n{len(count)}")
        return x * 2, [inside.__notes__], len(outside.__notes__)

    run = wrap(f)
    found = [run(ad.ones(1)) for _ in range(4)]
    found[0][1][0].append("b")  # the caller's own list
    return [of[1:] for of in found], outside.__notes__


@row
def compiled_methods_of_objects_that_can_be_called(wrap: Wrap) -> Any:
    class Callable_:
        def __init__(self) -> None:
            self.scale = 2.0

        def times(self, x: Any) -> Any:
            return x * self.scale

        def __call__(self, x: Any) -> Any:
            return self.times(x) + 1

    Callable_.times = wrap(Callable_.times)  # type: ignore[method-assign]
    own = Callable_()
    run = wrap(lambda x: own.times(x) + own(x))
    found = []
    for own.scale in (2.0, 3.0, 4.0):
        found.append(run(ad.ones(2)).tolist())
    return found


@row
def properties_without_setters(wrap: Wrap) -> Any:
    class Own:
        pass

    Own.ready = property(lambda self: 3)  # type: ignore[attr-defined]
    own: Any = Own()

    def f(x: Any, delete: bool) -> Any:
        try:
            if delete:
                del own.ready
            else:
                own.ready = 4
        except AttributeError as error:
            return str(error)
        return x

    run = wrap(f)
    return [run(ad.ones(1), delete) for delete in (False, True, False)]


@row
def modules_imported_by_name(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        try:
            return x * 2, __import__("collections.abc", fromlist=["Sized"]).Sized.__name__
        except TypeError:
            return x

    return wrap(f)(ad.ones(1))[1]


@row
def methods_of_copied_objects(wrap: Wrap) -> Any:
    class Counter:
        def __init__(self) -> None:
            self.n, self.seen = 0.0, 0

        def count(self, x: Any) -> Any:
            self.n += 1
            return x * self.n

        def look(self, x: Any) -> Any:
            self.seen += 1
            return x + self.n

    for name in ("count", "look"):
        setattr(Counter, name, wrap(vars(Counter)[name]))
    first, x = Counter(), ad.ones(1)
    out = [first.count(x)]
    other, third = copy.copy(first), Counter()
    third.__dict__.update(first.__dict__)
    other.n, third.n = 10.0, 20.0
    for _ in range(2):
        out += [o.look(x) for o in (other, third, first)]
        out += [o.count(x) for o in (third, first, other)]
    return out, [(o.n, o.seen) for o in (first, other, third)]


@pytest.mark.parametrize("name", ROWS)
def test_objects_are_as_without_compile(name: str) -> None:
    assert ROWS[name](lambda f: f) == ROWS[name](ad.compile)
