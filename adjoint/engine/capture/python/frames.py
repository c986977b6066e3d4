"""Frames: Python's functions in execution, instruction by instruction."""

from __future__ import annotations

import builtins
import types
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from adjoint.engine.core.errors import CaptureError

from .decoding import DecodedCode, plan_of
from .plain import MISSING

if TYPE_CHECKING:
    from .recorder import Recorder

RETURNED: Final = "returned"
YIELDED: Final = "yielded"
GENERATOR: Final = "generator"

# Python's own exceptions, but for those that the closing of a generator is one of.
_ERRORS: Final = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
Step = tuple[Callable[["Frame", Any], str | None], Any]


class Frame:
    """One call of a function under observation."""

    __slots__ = (
        "builtins",
        "code",
        "fast",
        "function",
        "globals",
        "handled",
        "kw_names",
        "names",
        "pc",
        "plan",
        "recorder",
        "stack",
        "value",
    )

    def __init__(
        self,
        recorder: Recorder,
        code: types.CodeType,
        variables: dict[str, Any],
        fast: list[Any],
        function: Any = None,
    ) -> None:
        self.recorder = recorder
        self.code = code
        self.plan: DecodedCode = plan_of(code)
        self.globals = variables
        self.builtins: Any = None  # looked up when needed
        self.fast = fast  # variables: locals, cells, free variables
        self.function = function
        self.stack: list[Any] = []
        self.pc = 0
        self.value: Any = None  # what is returned or yielded
        self.handled: BaseException | None = None  # the exception being handled here
        self.names: Any = None  # the namespace of a class body
        self.kw_names: tuple[str, ...] = ()

    def line(self) -> str:
        """File and line of the present instruction."""
        return f"{self.code.co_filename}:{self.line_number()}"

    def line_number(self) -> int:
        """The line of the present instruction."""
        return self.plan.line(self.code, max(self.pc - 1, 0))

    def run(self) -> str:
        """Execute until the function returns, yields, or raises."""
        recorder = self.recorder
        steps = self.plan.steps
        recorder.frames.append(self)
        try:
            while True:
                try:
                    while True:
                        at = self.pc
                        self.pc = at + 1
                        do, operand = steps[at]
                        signal = do(self, operand)
                        if signal is not None:
                            return signal
                except BaseException as error:
                    caught = error
                self.unwind(caught)
        finally:
            recorder.frames.pop()

    def unwind(self, error: BaseException) -> None:
        """Go on where an exception is handled, or raise it on."""
        if isinstance(error, CaptureError):
            self.recorder.refusal = self.recorder.refusal or error
        at = self.pc - 1
        current = current_exception(self.recorder)
        if current is not None and current is not error and error.__context__ is None:
            _set_context(error, current)
        entry = self.plan.handler(at)
        if entry is None:
            raise error
        target, depth, keeps_place = entry
        del self.stack[depth:]
        if keeps_place:
            self.stack.append(at)
        self.stack.append(error)
        self.pc = target

    # -- generators ---------------------------------------------------------------------------

    def delegate(self) -> Any:
        """The iterator a suspended `yield from` waits for, or MISSING."""
        return self.stack[-1] if self.plan.sends(self.pc - 2) else MISSING

    def generator(self) -> Generator[Any, Any, Any]:
        """A generator of Python's own that executes this frame."""
        generator: Any = _drive(self)
        generator.__name__ = self.code.co_name
        generator.__qualname__ = self.code.co_qualname
        driven: Generator[Any, Any, Any] = generator
        return driven


def current_exception(recorder: Recorder) -> BaseException | None:
    """The exception being handled by the innermost frame that handles one."""
    for frame in reversed(recorder.frames):
        if frame.handled is not None:
            return frame.handled
    return None


def _set_context(error: BaseException, context: BaseException) -> None:
    """What C does when an exception is raised while another is handled: no cycles."""
    seen: BaseException | None = context
    while seen is not None:
        if seen.__context__ is error:
            seen.__context__ = None
            break
        seen = seen.__context__
    error.__context__ = context


def raise_new(recorder: Recorder, error: BaseException) -> None:
    """Raise as the `raise` statement does."""
    current = current_exception(recorder)
    if current is not None and current is not error:
        _set_context(error, current)
    raise error


def check_closed(recorder: Recorder) -> None:
    """Refuse generators that Python would have closed by now, where that runs code."""
    for reference in list(recorder.fresh.values()):
        generator = reference() if type(reference) is weakref.ref else None
        if type(generator) is not types.GeneratorType or generator.gi_frame is None:
            continue
        frame = generator.gi_frame.f_locals["frame"]
        if generator.gi_suspended and _cleans_up(frame):
            raise recorder.refuse(
                f"the generator {generator.__qualname__}",
                "it was left before its end, within a `try` or `with`, whose end Python would have "
                "run at once",
                "Close it by its method `close`, or iterate to its end.",
            )


def _cleans_up(frame: Frame) -> bool:
    """Whether code of the user's runs if a generator is closed where it waits."""
    compared = frame.plan.handlers_of_closing(frame.pc - 1)
    return compared is None or not all(
        name in _ERRORS and frame.recorder.item(frame.globals, name) is MISSING for name in compared
    )


def _drive(frame: Frame) -> Generator[Any, Any, Any]:
    sent: Any = None
    thrown: BaseException | None = None
    while True:
        if thrown is not None:
            error, thrown = thrown, None
            signal = _throw(frame, error)
        else:
            frame.stack.append(sent)
            signal = frame.run()
        value, frame.value = frame.value, None
        if signal is RETURNED:
            return value
        try:
            sent = yield value
        except BaseException as caught:
            if frame.recorder.is_over:
                raise
            thrown = caught


def _throw(frame: Frame, error: BaseException) -> str:
    """Raise an exception where a generator waits."""
    waiting = frame.delegate()
    if waiting is not MISSING:
        try:
            if isinstance(error, GeneratorExit):
                close = getattr(waiting, "close", None)
                if close is not None:
                    close()
            elif hasattr(waiting, "throw"):
                frame.value = waiting.throw(error)
                return YIELDED
        except StopIteration as stop:
            if not frame.plan.keeps_receiver:
                frame.stack.pop()
            frame.stack.append(stop.value)
            frame.pc = frame.plan.steps[frame.pc - 2][1]
            return frame.run()
        except BaseException as other:
            error = other
    frame.recorder.frames.append(frame)
    try:
        frame.unwind(error)
    finally:
        frame.recorder.frames.pop()
    return frame.run()
