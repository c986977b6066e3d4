"""Calls that cannot be recorded and run as Python instead: `compile(fullgraph=False)`.

PyTorch splits such a function where it breaks; here the whole call is left to Python, as it was
written, and the warning says why, so that the cause can be moved out of the function.
"""

from __future__ import annotations

import traceback
import types
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adjoint.engine.capture.python.errors import PlainCall
from adjoint.engine.capture.recordings.retracing import LATEST, LOG
from adjoint.engine.capture.signature import signature
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import TreeDef

_PACKAGE = str(Path(__file__).resolve().parents[2])
_PLAIN_CALLS = 3  # in a row are taken for a beginning: the first call makes an optimizer
_LIMIT = 8  # kinds of arguments that are tried before none is any more


class RecordingFailed(Exception):
    """A recording failed; the error that says why is `__cause__`."""


class LeftToPython(Exception):
    """A recording of this call would not be used again, as those before it were not."""


class Breaks:
    """Which calls of a function run as Python because they could not be recorded."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn = fn
        self.name = name
        self.keys: set[Any] = set()  # signatures; None stands for arguments that have none
        self.warned = False
        self.plain_calls = 0  # since the latest recording
        self.reasons: list[str] = []  # why calls ran as Python, those of late

    def count(self, error: BaseException, fullgraph: bool) -> None:
        """Count calls that make what outlives them, and are Python's; refuse if they go on."""
        if not isinstance(error, PlainCall):
            return
        self.plain_calls += 1
        if self.plain_calls > _PLAIN_CALLS and fullgraph and not error.may_go_on:
            raise error
        self.tell("Python does this call", error)
        if self.plain_calls > _PLAIN_CALLS and not self.warned:
            self.warned = True
            warn_user(f"compile: {self.name} runs as Python again and again: {error}")

    def tell(self, what: str, error: BaseException) -> None:
        """Keep and log why calls were not recorded."""
        LOG.info("compile: %s: %s: %s", self.name, what, error)
        if str(error) not in self.reasons:
            self.reasons.append(str(error))
            del self.reasons[:-LATEST]

    def covers(self, leaves: Sequence[Any], structure: TreeDef) -> bool:
        """Whether arguments like these were refused before."""
        if not self.keys:
            return False
        return len(self.keys) > _LIMIT or key_of(leaves, structure) in self.keys

    def note(self, key: Any, error: BaseException) -> None:
        """Remember a call that was refused and then went well, by its key; warn the first time."""
        self.keys.add(key)
        self.tell("Python does such calls", error)
        if not self.warned:
            self.warned = True
            warn_user(
                f"compile: {self.name} runs as Python for arguments like these, because it cannot "
                f"be recorded{self._where(error)}: {error} (fullgraph=True makes this an error.)"
            )

    def _where(self, error: BaseException) -> str:
        """The line that the recording stopped at, or that the function starts at."""
        owner = getattr(self.fn, "__self__", None)
        fn = getattr(owner, "forward", self.fn) if hasattr(owner, "_call_impl") else self.fn
        code = getattr(getattr(fn, "__func__", fn), "__code__", None)
        places = [] if code is None else [(code.co_filename, code.co_firstlineno)]
        places += [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
        own = [place for place in places if not place[0].startswith(_PACKAGE)]
        place = f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else ""
        file_named = place.rpartition(":")[0] + ":"  # the message names a line of the file already
        return "" if not place or file_named in str(error) else f" ({place})"


def key_of(leaves: Sequence[Any], structure: TreeDef) -> Any:
    """What tells calls apart, without holding their objects: these end when Python lets them."""
    try:
        return signature([_weakly(leaf) for leaf in leaves], structure)
    except TypeError:  # an argument that cannot be hashed
        return None


def _weakly(leaf: Any) -> Any:
    """A reference to an object that may be referred to weakly; anything else as it is."""
    if is_tensor(leaf) or isinstance(leaf, (type, types.FunctionType, frozenset)):
        return leaf
    try:
        return weakref.ref(leaf)
    except TypeError:
        return leaf
