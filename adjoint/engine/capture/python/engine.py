"""The seam between the recorder and what it records for: which code runs as it is, and how."""

from __future__ import annotations

import array
import hashlib
from collections.abc import Callable
from typing import Any, Protocol

from .locations import Answer
from .plain import MISSING, is_a, is_plain, same
from .symbols import Symbol, computed, value_of


class Engine(Protocol):
    """What the recorder asks about functions and objects it must not look into."""

    def begin(self, recorder: Any) -> None:
        """An observation begins."""

    def over(self) -> None:
        """The observed code has run."""

    def runs(self, fn: Any) -> bool:
        """Whether a callable is the engine's own: called natively, not followed."""

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one; functions among its arguments are followed when it calls them."""

    def owns(self, value: Any) -> bool:
        """Whether a value is the engine's (a tensor): its attributes and operators run natively."""

    def is_given(self, value: Any) -> bool:
        """Whether a value of the engine's is an argument of the call."""

    def lacks(self, value: Any, name: str) -> None:
        """An argument was found to have no such attribute of the user's."""
        ...

    def identified(self, recorder: Any, value: Any) -> None:
        """Something depends on which object an argument of the call is."""

    def given_at(self, place: Any, value: Any) -> Any:
        """What stands for the value of a place that is read at each call; MISSING: read it once."""

    def is_new(self, value: Any) -> bool:
        """Whether an engine's value was made during this recording."""

    def holds_new(self, value: Any) -> bool:
        """Whether an object of the engine's, made where nobody observes it, holds such a value."""

    def keeps(self, cls: type) -> bool:
        """Whether a class is the engine's own, and nobody changes it."""

    def attribute(self, recorder: Any, obj: Any, name: str) -> Any:
        """An attribute of one of the engine's objects."""

    def lets_in(self, obj: Any) -> bool:
        """Whether one of the engine's objects may have attributes of the user's."""

    def sets(self, recorder: Any, obj: Any, name: str, value: Any) -> bool:
        """Set an attribute of one of the engine's objects; False: it is an ordinary one."""

    def only_records(self) -> bool:
        """Whether there is no call that Python could do instead: for an export, a graph."""

    def compared(self, left: Any, right: Any) -> None:
        """It was asked whether two objects are one."""

    def length(self, value: Any) -> Any:
        """`len` of one of the engine's objects."""

    def elements(self, value: Any) -> Any:
        """The elements of an array as a plain value, None of anything else."""

    def guard_elements(self, recorder: Any, value: Any) -> None:
        """Have the elements of an array guarded."""

    def is_changed(self, value: Any) -> bool:
        """Whether the observed code wrote to the elements of an array."""

    def shares(self, value: Any) -> bool:
        """Whether a result of C shows the memory of something that was there before."""

    def stands(self, value: Any) -> bool:
        """Whether something stands for a value of each call: a symbol, or an array."""

    def same_answer(self, value: Any, again: Any) -> bool:
        """Whether an answer of C is the same when asked for again."""

    def change(self, recorder: Any, owner: Any, do: Any, args: tuple[Any, ...]) -> Any:
        """Have C change something that is not Python's own container, or refuse."""

    def keeps_function(self, fn: Any) -> bool:
        """Whether nobody gives a function other code or defaults."""

    def written(self, fn: Callable[..., Any], value: Any, *options: Any) -> Any:
        """The text of a symbol, by `str`, `repr` or `format`."""

    def joined(self, parts: list[Any]) -> Any:
        """Texts put together."""

    def of_texts(self, name: str, a: Any, b: Any) -> Any:
        """An operator on texts of which only a call's end shows one; MISSING of others."""

    def chosen(self, fn: Callable[..., Any], values: list[Any]) -> Any:
        """The least or greatest of values that only a call's end shows; MISSING of others."""

    def computed(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A function of numbers and symbols, put off to each call; MISSING if it cannot be."""

    def convert(self, cls: type, value: Any) -> Any:
        """`int` or `float` of a symbol."""

    def present(self, value: Any) -> Any:
        """The number a symbol stands for now."""

    def symbol(
        self,
        recorder: Any,
        read: Callable[[], Any],
        at_start: Callable[[], Any],
        value: Any,
        name: str,
    ) -> Any:
        """What stands for a number: `read` it now, `at_start` as it was when a call began."""

    def drawn(self, recorder: Any, draw: Any) -> Any:
        """What stands for a number that is drawn at each call."""

    def reader(self, value: Any) -> Callable[[], Any]:
        """What reads a symbol's number in a call's effects."""

    def reader_now(self, value: Any) -> Callable[[], Any]:
        """What reads a symbol's number when a call begins."""

    def is_symbol(self, value: Any) -> bool:
        """Whether a value stands for such a number."""

    def carries(self, value: Any, name: str) -> bool:
        """Whether an operator of a symbol gives another symbol."""

    def concrete(self, value: Any) -> Any:
        """The number itself, which the recording then depends on."""


class NoEngine:
    """Everything is Python's."""

    def begin(self, recorder: Any) -> None:
        pass

    def over(self) -> None:
        pass

    def runs(self, fn: Any) -> bool:
        return False

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return fn(*args, **kwargs)

    def owns(self, value: Any) -> bool:
        return False

    def only_records(self) -> bool:
        return False

    def compared(self, left: Any, right: Any) -> None:
        """It was asked whether two objects are one."""

    def is_given(self, value: Any) -> bool:
        return False

    def identified(self, recorder: Any, value: Any) -> None:
        raise _of_argument(recorder, value)

    def lacks(self, value: Any, name: str) -> None:
        """An argument was found to have no such attribute of the user's."""

    def given_at(self, place: Any, value: Any) -> Any:
        return MISSING

    def is_new(self, value: Any) -> bool:
        return False

    def holds_new(self, value: Any) -> bool:
        return False

    def keeps(self, cls: type) -> bool:
        return False

    def attribute(self, recorder: Any, obj: Any, name: str) -> Any:
        return getattr(obj, name)

    def lets_in(self, obj: Any) -> bool:
        return True

    def sets(self, recorder: Any, obj: Any, name: str, value: Any) -> bool:
        return False

    def length(self, value: Any) -> Any:
        return len(value)

    def elements(self, value: Any) -> Any:
        return elements_of(value)

    def guard_elements(self, recorder: Any, value: Any) -> None:
        if not recorder.is_fresh(value):
            recorder.guard(Answer(elements_of, (value,)), elements_of(value))

    def is_changed(self, value: Any) -> bool:
        return False

    def shares(self, value: Any) -> bool:
        return False

    def stands(self, value: Any) -> bool:
        return type(value) is Symbol

    def same_answer(self, value: Any, again: Any) -> bool:
        return value is again or (same(value, again) and is_plain(value))

    def change(self, recorder: Any, owner: Any, do: Any, args: tuple[Any, ...]) -> Any:
        raise recorder.refuse(
            f"a change to a {type(owner).__name__}",
            "it is C's, and a recording cannot undo it",
            "Change it outside.",
        )

    def keeps_function(self, fn: Any) -> bool:
        return False

    def written(self, fn: Callable[..., Any], value: Any, *options: Any) -> Any:
        return fn(self.concrete(value), *options)

    def joined(self, parts: list[Any]) -> Any:
        return "".join(parts)

    def of_texts(self, name: str, a: Any, b: Any) -> Any:
        return MISSING

    def chosen(self, fn: Callable[..., Any], values: list[Any]) -> Any:
        return MISSING

    def computed(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return computed(fn, *args)

    def convert(self, cls: type, value: Any) -> Any:
        return value if type(value.value) is cls else computed(cls, value)

    def present(self, value: Any) -> Any:
        return value_of(value)

    def symbol(
        self,
        recorder: Any,
        read: Callable[[], Any],
        at_start: Callable[[], Any],
        value: Any,
        name: str,
    ) -> Any:
        return Symbol(recorder, read, at_start, value, name)

    def drawn(self, recorder: Any, draw: Any) -> Any:
        return Symbol(
            recorder, draw.now, draw.now, draw.value, "a number that was drawn", drawn=True
        )

    def reader(self, value: Any) -> Callable[[], Any]:
        read: Callable[[], Any] = value.at_start
        return read

    def reader_now(self, value: Any) -> Callable[[], Any]:
        return self.reader(value)

    def is_symbol(self, value: Any) -> bool:
        return type(value) is Symbol

    def carries(self, value: Any, name: str) -> bool:
        return True

    def concrete(self, value: Any) -> Any:
        return value.pin() if type(value) is Symbol else value


def _of_argument(recorder: Any, value: Any) -> Any:
    return recorder.refuse(
        f"the identity of a {type(value).__name__} that is an argument",
        "it is another object at each call",
        "Compare contents, or compare outside and pass the answer.",
    )  # fmt: skip


def elements_of(value: Any) -> Any:
    """What is in an array or buffer, as a plain value; None of anything else."""
    if is_a(value, array.array):
        return value.typecode, _key_of_bytes(value.tobytes())
    if is_a(value, memoryview):
        return value.format, value.shape, _key_of_bytes(value.tobytes())
    if type(value).__module__ == "numpy.dtypes":
        return repr(value)
    if type(value).__module__ == "numpy" and hasattr(value, "__array_interface__"):
        if value.dtype.hasobject:
            return None
        return value.dtype.str, value.shape, _key_of_bytes(value.tobytes())
    return None


def _key_of_bytes(data: bytes) -> bytes:
    """What tells bytes apart: of many, their digest, so that recordings stay small."""
    return data if len(data) <= 4096 else hashlib.sha256(data).digest()
