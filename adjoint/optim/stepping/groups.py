"""Parameter groups: dictionaries whose numbers a captured step reads anew at each call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.optim.stepping.options import CONSTANT


def _is_one_number(key: Any, value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and key not in CONSTANT


def is_number(key: Any, value: Any) -> bool:
    """Whether an option is a number (or a pair of numbers) the host may change between calls."""
    if isinstance(value, tuple):
        return bool(value) and all(_is_one_number(key, v) for v in value)
    return _is_one_number(key, value)


def _read(group: ParamGroup, key: str, recorded: Any) -> Any:
    """A number of the host's; while a function is recorded, the one it found."""
    return recorded if CONTEXT.capture is not None else dict.__getitem__(group, key)


def _part(read: Callable[[], Any], index: int) -> Any:
    return read()[index]


class ParamGroup(dict[str, Any]):
    """Parameters that share options: `{"params": [...], "lr": 0.1, ...}`.

    While a step is captured its numbers come out as `HostScalar`, so that a scheduler's change is
    seen by the recorded step. Those that the recorded function sets itself are what it set.
    """

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        capture = CONTEXT.capture
        if capture is None or is_host(value) or not is_number(key, value):
            return value
        if capture.has_assigned is not None and capture.has_assigned(self, key):
            return value  # the recorded function set it, to the same number in each call
        read = partial(_read, self, key, value)
        whole = HostScalar(read, key, key=(id(self), key), source=(dict.__getitem__, (self, key)))
        if isinstance(value, tuple):
            return tuple(
                HostScalar(
                    partial(_part, read, i),
                    f"{key}[{i}]",
                    key=(id(self), key, i),
                    source=(operator.getitem, (whole, i)),
                )
                for i in range(len(value))
            )
        return whole

    def get(self, key: str, default: Any = None) -> Any:
        """`self[key]`, or a default."""
        if key not in self:
            return default
        return self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if CONTEXT.capture is None:
            dict.__setitem__(self, key, value)
        elif CONTEXT.capture.assign is not None:
            CONTEXT.capture.assign(self, key, value)
        else:
            raise CaptureError(
                f"param_groups: {key!r} is changed while a graph or a body is recorded, where the "
                "change would happen only once. Change it outside; the step reads the new value at "
                "each call."
            )

    def capture_watch(self) -> list[tuple[Any, ...]]:
        """The same as places: what must stay identical there; of numbers, their kind."""
        kinds = [("kind" if is_number(k, v) else "item", self, k) for k, v in self.items()]
        return [("length", self), *kinds]

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """What a captured step depends on: all but the numbers it reads at each call."""
        return ((k, v) for k, v in self.items() if not is_number(k, v))
