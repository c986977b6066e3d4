"""What kernels report: an error by its number, and the call that it was found in.

A code is a word's low bits (`compiler.package.status`): the number of an error, above the low bits
of the number of the call. Numbers are given out once and stay, since kernels and captured graphs
have them; there are so many, and no more. Calls are told apart as long as no more than `CALLS` of
them came after: of older ones nobody knows the line any more, and the message says so.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.compiler.package.status import CODE_BITS
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.ops.common.checks import ERRORS, NUMBER

CALL_BITS = CODE_BITS // 2  # of a code: which of the latest calls it was
CALLS = 1 << CALL_BITS
KNOWN = (1 << (CODE_BITS - CALL_BITS)) - 1  # errors that have numbers
UNTOLD = (
    f"a kernel found that {NUMBER} is wrong (which check it was is not known any more: this "
    "process has met too many kinds of errors)"
)

Error = tuple[str, str]  # the name of an exception, and its message


class ErrorNumbers:
    """Errors that kernels of a device may report, by number.

    The first ones are what is left to say when there are no numbers any more: one for each type.
    """

    def __init__(self) -> None:
        self.known: list[Error] = [(kind, UNTOLD) for kind in ERRORS]  # by number - 1
        self.numbers = {error: k + 1 for k, error in enumerate(self.known)}

    def number(self, error: Error) -> int:
        """The number of an error; 0 where there are too many."""
        number = self.numbers.get(error)
        if number is None:
            if len(self.known) >= KNOWN:
                return 0
            self.known.append(error)
            number = self.numbers[error] = len(self.known)
        return number

    def some_number(self, error: Error) -> int:
        """The same; where there are too many, that of its type, without the message."""
        return self.number(error) or self.numbers[error[0], UNTOLD]

    def error(self, number: int) -> Error:
        """What a number says."""
        return self.known[number - 1]


class CodedDraft(Draft):
    """A draft that knows where the codes of errors are."""

    def __init__(self, plan: Plan) -> None:
        self.codes: list[int] = []
        super().__init__(plan)

    def word(self, word: Any, at: int) -> int:
        if isinstance(word, Fault):
            self.codes.append(at)
        return super().word(word, at)
