"""What `compile`'s mode and options mean to native backends, and the refusal of unknown ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state import config
from adjoint.engine.core.state.validation import validating
from adjoint.engine.graph.remat_strategies import DEFAULT, STRATEGIES


@dataclass(frozen=True, slots=True)
class Options:
    """Everything besides a task that decides its program."""

    remat: str = DEFAULT
    validate: bool = False  # whether first calls are checked against the reference interpreter


def chosen(mode: str, options: dict[str, Any]) -> Options:
    """Options from the arguments of `compile`; `max-autotune` keeps what would cost time to repeat.

    >>> chosen("default", {"remat": "memory"})
    Options(remat='memory', validate=False)
    """
    unknown = sorted(options.keys() - {"remat", "validate"})
    if unknown and config.display_name == "torch":  # settings of PyTorch's own compiler
        warn_user(
            f"compile: options {unknown} have no effect in Adjoint; see help(adjoint.compile)"
        )
    elif unknown:
        raise RuntimeError(
            f"compile: unknown option {unknown[0]!r} of the native backend. It takes: remat, "
            "validate."
        )
    remat = options.get("remat", "speed" if mode.startswith("max-autotune") else DEFAULT)
    if remat not in STRATEGIES:
        raise RuntimeError(
            f"compile: options['remat'] must be one of {', '.join(STRATEGIES)}, received {remat!r}"
        )
    validate = options.get("validate", validating())
    if not isinstance(validate, bool):
        raise RuntimeError(
            f"compile: options['validate'] must be True or False, received {validate!r}"
        )
    return Options(remat, validate)
