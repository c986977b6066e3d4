"""What `compile`'s mode and options mean to the native backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.graph.passes.recompute import DEFAULT, STRATEGIES


@dataclass(frozen=True, slots=True)
class Options:
    """Everything besides a task that decides its program."""

    remat: str = DEFAULT


def chosen(mode: str, options: dict[str, Any]) -> Options:
    """Options from the arguments of `compile`; `max-autotune` keeps what would cost time to repeat.

    >>> chosen("default", {"remat": "memory"})
    Options(remat='memory')
    """
    unknown = sorted(options.keys() - {"remat"})
    if unknown:
        raise RuntimeError(
            f"compile: unknown option {unknown[0]!r} of the native backend. It takes: remat."
        )
    remat = options.get("remat", "speed" if mode.startswith("max-autotune") else DEFAULT)
    if remat not in STRATEGIES:
        raise RuntimeError(
            f"compile: options['remat'] must be one of {', '.join(STRATEGIES)}, received {remat!r}"
        )
    return Options(remat)
