"""What the recorder says when it cannot vouch for a recording."""

from __future__ import annotations

from adjoint.engine.core.errors import CaptureError


class Refusal(CaptureError):
    """User code did something that cannot be guarded or done again.

    >>> print(Refusal("time.time()", "it answers anew at each call", "Call it outside.", "a.py:3"))
    time.time(): it answers anew at each call (a.py:3). Call it outside.
    """

    def __init__(self, what: str, why: str, remedy: str, line: str) -> None:
        super().__init__(f"{what}: {why} ({line}). {remedy}")
        self.what, self.why, self.remedy, self.line = what, why, remedy, line


class PlainCall(CaptureError):
    """This call is Python's: it makes what outlives it, as a first call may.

    If the calls after it do so, too, the function cannot be recorded; but each may need an answer
    of a cache that nobody asked for before (`may_go_on`).
    """

    def __init__(self, why: str, may_go_on: bool = False) -> None:
        super().__init__(why)
        self.may_go_on = may_go_on


class Raised(Exception):
    """The function raises an exception: Python is to do the call (Note [exceptions])."""

    def __init__(self, error: BaseException, by_program: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.by_program = by_program  # a kernel found it in the data
