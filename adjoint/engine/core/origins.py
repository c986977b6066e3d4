"""Origins: which line of the program, and which of its modules, an operation comes from.

Nobody keeps a stack of the modules that are running: Python has one. Whoever wants to know (an
error, a recording, a trace of operations) looks for calls of modules among the frames that are
there, so that calls which nobody asks about cost nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from adjoint.engine.core.errors import announce, show_line, users_place


class Where(NamedTuple):
    """A line of the program, the module at work there, and whether this is its backward."""

    file: str
    line: int
    module: str = ""  # "GPT.blocks.0.mlp": the outermost module's class, then the dotted path
    backward: bool = False


# The code of `nn.Module.__call__`, whose first local is the module; `nn` puts it here. By identity:
# to hash code takes longer than all else here.
MODULE_CALLS: dict[int, CodeType] = {}
# Functions that execute a user's (`EXECUTING`): gives code and first local of what is executed.
EXECUTED: dict[CodeType, Callable[[FrameType], tuple[CodeType, Any]]] = {}


def modules_at_work() -> list[Any]:
    """The modules whose calls are under way in this thread, the outermost first."""
    modules: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if id(code) in MODULE_CALLS:
            modules.append(frame.f_locals["self"])
        elif code in EXECUTED:
            executed, first = EXECUTED[code](frame)
            if id(executed) in MODULE_CALLS:
                modules.append(first)
        frame = frame.f_back
    modules.reverse()
    return modules


def children(module: Any) -> dict[str, Any]:
    """A module's own modules by name."""
    modules: dict[str, Any] | None = getattr(module, "_modules", None)
    return modules or {}


def name_within(outer: Any, inner: Any) -> str | None:
    """The dotted name of a module in another one, the shortest; None where it is not in it."""
    level = [("", outer)]
    seen = {id(outer)}
    while level:
        below: list[tuple[str, Any]] = []
        for prefix, module in level:
            for name, child in children(module).items():
                if child is inner:
                    return prefix + name
                if child is not None and id(child) not in seen:
                    seen.add(id(child))
                    below.append((f"{prefix}{name}.", child))
        level = below
    return None


def module_path(stack: Sequence[Any], names: dict[tuple[int, int], str] | None = None) -> str:
    """The dotted path of the innermost of some modules at work, below the outermost one's class.

    `names` keeps what was found for pairs of modules, which stay alive as long as it does.
    """
    path = ""
    outer: Any = None
    for module in stack:
        if outer is None:
            path = type(module).__name__
        elif module is not outer:
            key = (id(outer), id(module))
            name = None if names is None else names.get(key)
            if name is None:
                name = name_within(outer, module) or type(module).__name__
                if names is not None:
                    names[key] = name
            path += f".{name}"
        outer = module
    return path


def below_root(path: str) -> str:
    """A module's path as its model would name it: without the model's own class.

    >>> below_root("GPT.blocks.0.mlp"), below_root("GPT")
    ('blocks.0.mlp', 'GPT')
    """
    root, _, rest = path.partition(".")
    return rest or root


def told_place(where: Where) -> str:
    """A place for a message: `blocks.0.mlp, model.py:12, "x = self.up(x)"`."""
    module = f"{below_root(where.module)}, " if where.module else ""
    return module + show_line(where.file, where.line) + (", backward" if where.backward else "")


def place_now() -> Where | None:
    """The program's line and module that called into the package."""
    place = users_place()
    return None if place is None else Where(*place, module_path(modules_at_work()))


def executed_modules(frames: Iterable[tuple[CodeType, Any]]) -> list[Any]:
    """The modules among calls that are executed: (code, first local), outermost first."""
    return [first for code, first in frames if id(code) in MODULE_CALLS]


def executing(code: CodeType, tell: Callable[[FrameType], tuple[CodeType, Any, int]]) -> None:
    """Announce a function that executes a user's: what it executes, the first local, the line."""
    EXECUTED[code] = lambda frame: tell(frame)[:2]

    def place(frame: FrameType) -> tuple[str, int]:
        executed, _, line = tell(frame)
        return executed.co_filename, line

    announce(code, place)
