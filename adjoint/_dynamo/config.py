"""`torch._dynamo.config`: one setting has a meaning here, and the others say that they have none.

`recompile_limit` (also `cache_size_limit`) is the number of recordings of one function after which
a warning tells what varies; there is no limit on the recordings themselves. The others stand in
`core.state.switches`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from adjoint.engine.capture.recordings import retracing
from adjoint.engine.core.state.switches import SwitchModule, route

LIMITS = ("cache_size_limit", "recompile_limit")


class Settings(SwitchModule):
    """The module's class, for the sake of assignments to its attributes."""

    def __getattr__(self, name: str) -> Any:
        return retracing.LIMIT if name in LIMITS else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in LIMITS:
            retracing.LIMIT = int(value)
        else:
            super().__setattr__(name, value)


@contextlib.contextmanager
def patch(changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
    """A `with` block in which settings are others."""
    config: Any = sys.modules[__name__]
    wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
    wanted |= named
    before = {name: getattr(config, name) for name in wanted}
    for name, given in wanted.items():
        setattr(config, name, given)
    try:
        yield
    finally:
        for name, old in before.items():
            setattr(config, name, old)


route(__name__, Settings)
