"""Jumps, loops, returns, exceptions, `with`, generators."""

from __future__ import annotations

import types
from typing import Any

from adjoint.engine.capture.python.frames import (
    GENERATOR,
    RETURNED,
    YIELDED,
    Frame,
    current_exception,
    raise_new,
)
from adjoint.engine.capture.python.language import attributes, iteration, operators
from adjoint.engine.capture.python.language.calls import call
from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.core.errors import CaptureError

from .variables import NULL


def jump(frame: Frame, target: int) -> None:
    frame.pc = target


def pop_jump_if_true(frame: Frame, target: int) -> None:
    if operators.truth(frame.recorder, frame.stack.pop()):
        frame.pc = target


def pop_jump_if_false(frame: Frame, target: int) -> None:
    if not operators.truth(frame.recorder, frame.stack.pop()):
        frame.pc = target


def pop_jump_if_none(frame: Frame, target: int) -> None:
    if frame.stack.pop() is None:
        frame.pc = target


def pop_jump_if_not_none(frame: Frame, target: int) -> None:
    if frame.stack.pop() is not None:
        frame.pc = target


def jump_if_true_or_pop(frame: Frame, target: int) -> None:
    if operators.truth(frame.recorder, frame.stack[-1]):
        frame.pc = target
    else:
        frame.stack.pop()


def jump_if_false_or_pop(frame: Frame, target: int) -> None:
    if operators.truth(frame.recorder, frame.stack[-1]):
        frame.stack.pop()
    else:
        frame.pc = target


def to_bool(frame: Frame, operand: Any) -> None:
    frame.stack[-1] = operators.truth(frame.recorder, frame.stack[-1])


def return_value(frame: Frame, operand: Any) -> str:
    frame.value = frame.stack.pop()
    return RETURNED


def return_const(frame: Frame, value: Any) -> str:
    frame.value = value
    return RETURNED


# -- iteration --------------------------------------------------------------------------------


def get_iter(frame: Frame, operand: Any) -> None:
    frame.stack[-1] = iteration.iterator(frame.recorder, frame.stack[-1])


def for_iter(frame: Frame, target: int) -> None:
    """As 3.11 has it: an iterator that ends is popped."""
    value = iteration.advance(frame.recorder, frame.stack[-1])
    if value is MISSING:
        frame.stack.pop()
        frame.pc = target
    else:
        frame.stack.append(value)


def for_iter_then_end(frame: Frame, target: int) -> None:
    """As 3.12 has it: the jump leads behind the instruction that pops the iterator."""
    value = iteration.advance(frame.recorder, frame.stack[-1])
    if value is MISSING:
        frame.stack.pop()
        frame.pc = target + 1
    else:
        frame.stack.append(value)


def for_iter_then_pop(frame: Frame, target: int) -> None:
    """As 3.13 has it: the jump leads behind END_FOR, where the iterator is popped."""
    value = iteration.advance(frame.recorder, frame.stack[-1])
    if value is MISSING:
        frame.pc = target + 1
    else:
        frame.stack.append(value)


def end_for(frame: Frame, operand: Any) -> None:
    del frame.stack[-2:]


# -- exceptions -------------------------------------------------------------------------------


def push_exc_info(frame: Frame, operand: Any) -> None:
    error = frame.stack.pop()
    frame.stack += [frame.handled, error]
    frame.handled = error


def pop_except(frame: Frame, operand: Any) -> None:
    """The end of a handler; what cannot be recorded goes on, past whatever would catch it."""
    ended, frame.handled = frame.handled, frame.stack.pop()
    if isinstance(ended, CaptureError):
        raise ended


# Where groups of exceptions that handlers were given are kept, until one is raised by name: after
# all handlers, those that are raised as they were go back to the group they are part of.
PARTS = "parts of groups"


def check_classes(wanted: Any) -> tuple[Any, ...]:
    """The classes that a handler catches."""
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(
                "catching classes that do not inherit from BaseException is not allowed"
            )
    return kinds


def check_exc_match(frame: Frame, operand: Any) -> None:
    kinds = check_classes(frame.stack.pop())
    error = frame.stack[-1]
    frame.stack.append(isinstance(error, kinds) and not isinstance(error, CaptureError))


def raise_varargs(frame: Frame, count: int) -> None:
    recorder, stack = frame.recorder, frame.stack
    cause: Any = MISSING
    if count == 2:
        cause = _exception(frame, stack.pop(), "exception causes must derive from BaseException")
    if count == 0:
        current = current_exception(recorder)
        if current is None:
            raise RuntimeError("No active exception to reraise")
        raise current
    error = _exception(frame, stack.pop(), "exceptions must derive from BaseException")
    recorder.shared.get(PARTS, {}).pop(id(error), None)
    if cause is not MISSING:
        error.__cause__ = cause
    recorder.raised = error
    raise_new(recorder, error)


def _exception(frame: Frame, given: Any, message: str) -> Any:
    if isinstance(given, type) and issubclass(given, BaseException):
        given = call(frame.recorder, given, (), {})
        if not isinstance(given, BaseException):
            raise TypeError(
                f"calling {given!r} should have returned an instance of BaseException, not "
                f"{type(given)}"
            )
    if given is None and "causes" in message:
        return None
    if not isinstance(given, BaseException):
        raise TypeError(message)
    return given


def reraise(frame: Frame, operand: int) -> None:
    """Handlers are looked up here, not where the exception came from."""
    error = frame.stack.pop()
    raise error


def load_assertion_error(frame: Frame, operand: Any) -> None:
    frame.stack.append(AssertionError)


# -- with -------------------------------------------------------------------------------------


def before_with(frame: Frame, operand: Any) -> None:
    recorder, stack = frame.recorder, frame.stack
    manager = stack.pop()
    enter = attributes.special(recorder, manager, "__enter__")
    leave = attributes.special(recorder, manager, "__exit__")
    if enter is MISSING or leave is MISSING:
        kind = type(manager).__qualname__
        missed = "" if enter is MISSING else " (missed __exit__ method)"
        raise TypeError(f"'{kind}' object does not support the context manager protocol{missed}")
    stack.append(leave)
    stack.append(call(recorder, enter, (), {}))


def load_special(frame: Frame, which: int) -> None:
    """As 3.14 enters `with`: a special method and what it is bound to."""
    name = ("__enter__", "__exit__", "__aenter__", "__aexit__")[which]
    manager = frame.stack.pop()
    method = attributes.special(frame.recorder, manager, name)
    if method is MISSING:
        kind = type(manager).__qualname__
        missed = " (missed __exit__ method)" if name == "__exit__" else ""
        raise TypeError(f"'{kind}' object does not support the context manager protocol{missed}")
    frame.stack += [method, NULL]


def with_except_start(frame: Frame, operand: Any) -> None:
    error, leave = frame.stack[-1], frame.stack[-4]
    args = (type(error), error, error.__traceback__)
    frame.stack.append(call(frame.recorder, leave, args, {}))


def with_except_start_null(frame: Frame, operand: Any) -> None:
    """As 3.14 has it: what the method is bound to lies above it."""
    error, leave = frame.stack[-1], frame.stack[-5]
    args = (type(error), error, error.__traceback__)
    frame.stack.append(call(frame.recorder, leave, args, {}))


# -- generators -------------------------------------------------------------------------------


def return_generator(frame: Frame, operand: Any) -> str:
    return GENERATOR


def yield_value(frame: Frame, operand: Any) -> str:
    frame.value = frame.stack.pop()
    return YIELDED


def get_yield_from_iter(frame: Frame, operand: Any) -> None:
    given = frame.stack[-1]
    if not isinstance(given, types.GeneratorType):
        frame.stack[-1] = iteration.iterator(frame.recorder, given)


def send(frame: Frame, target: int) -> None:
    """As 3.11 has it: the iterator gives way to its result."""
    finished, value = _ask(frame)
    if finished:
        frame.stack[-1] = value
        frame.pc = target
    else:
        frame.stack.append(value)


def send_keeping(frame: Frame, target: int) -> None:
    """As 3.12 has it: the iterator stays below its result."""
    finished, value = _ask(frame)
    frame.stack.append(value)
    if finished:
        frame.pc = target


def _ask(frame: Frame) -> tuple[bool, Any]:
    """What the iterator of a `yield from` gives, and whether it has ended."""
    sent, asked = frame.stack.pop(), frame.stack[-1]
    recorder = frame.recorder
    try:
        if sent is None:
            value = iteration.step(recorder, asked)
        else:
            value = call(recorder, attributes.get(recorder, asked, "send"), (sent,), {})
    except StopIteration as stop:
        return True, stop.value
    return False, value


def end_send(frame: Frame, operand: Any) -> None:
    value = frame.stack.pop()
    frame.stack[-1] = value


def cleanup_throw(frame: Frame, operand: Any) -> None:
    error = frame.stack.pop()
    if not isinstance(error, StopIteration):
        raise error
    del frame.stack[-2:]
    frame.stack += [None, error.value]


def stop_iteration_error(frame: Frame) -> None:
    """A StopIteration that leaves a generator becomes a RuntimeError."""
    error = frame.stack[-1]
    if isinstance(error, StopIteration):
        raised = RuntimeError("generator raised StopIteration")
        raised.__cause__ = raised.__context__ = error
        frame.stack[-1] = raised


def refused(frame: Frame, operand: Any) -> None:
    raise frame.recorder.refuse(
        "async, a type parameter or a template",
        "the recorder does not follow it",
        "Move it out of the function.",
    )
