"""Where a recording is: the user's line that is executed, and the module at work there."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.frames import Frame
from adjoint.engine.core.errors import is_ours
from adjoint.engine.core.origins import (
    MODULE_CALLS,
    Where,
    executed_modules,
    executing,
    module_path,
)


class ExecutedLines:
    """The lines and modules of one recording, as they were met."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.names: dict[tuple[int, int], str] = {}  # of modules within modules
        self.paths: dict[int, str] = {}  # of modules, by the frame of their call
        self.wheres: dict[
            tuple[int, int, int], Where
        ] = {}  # by line's frame, place, module's frame
        self.placed: list[Frame | None] = []  # those frames, so that their identities stay theirs
        self.roots: dict[int, Callable[[], Any]] = {}  # outermost modules, weakly

    def locate(self) -> Where | None:
        """The user's line that is executed, and the module at work there."""
        frames: list[Frame] = self.recorder.frames
        line = module = None
        for frame in reversed(frames):
            code = frame.code
            if id(code) in MODULE_CALLS:
                module = frame
                break
            if line is None and not is_ours(code):
                line = frame
        if line is None:
            line = next((f for f in reversed(frames) if not is_ours(f.code)), None)
            if line is None:
                return None
        key = (id(line), line.pc, id(module))
        where = self.wheres.get(key)
        if where is None:
            path = "" if module is None else self._path(module)
            where = Where(line.code.co_filename, line.line_number(), path)
            self.wheres[key] = where
            self.placed += (line, module)
        return where

    def _path(self, call: Frame) -> str:
        """The dotted path of the module that a frame is the call of."""
        path = self.paths.get(id(call))
        if path is None:
            calls = [(f.code, f.fast[0] if f.fast else None) for f in self.recorder.frames]
            stack = executed_modules(calls)
            self.roots.setdefault(id(stack[0]), weakref.ref(stack[0]))
            path = self.paths[id(call)] = module_path(stack, self.names)
        return path

    def forget(self) -> None:
        """Let go of the frames that were met."""
        for met in (self.placed, self.wheres, self.paths, self.names):
            met.clear()


def _executing(frame: types.FrameType) -> tuple[types.CodeType, Any, int]:
    """What a frame of the recorder executes: the user's code, its first local, the line."""
    own: Frame = frame.f_locals["self"]
    return own.code, own.fast[0] if own.fast else None, own.line_number()


executing(Frame.run.__code__, _executing)
