"""A module of the tests by Triton's interpreter, in a process of its own.

Triton decides once whether it interprets, so the tests' own process cannot do it by the way.
"""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.forking import Forking, forking

ROOT = Path(__file__).parent.parent
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))

needs_interpreter = pytest.mark.skipif(
    not HAS_TRITON, reason="the interpreter needs Triton and SciPy"
)
# What all such processes import before anything else; it takes longer than some of them run.
LOADED = (
    "adjoint.nn.functional", "ml_dtypes", "scipy.special", "triton.language",
    "triton.runtime.interpreter", "tests.cupy_stand_in",
)  # fmt: skip
_started = ExitStack()


@cache
def _interpreting(**environment: str) -> Forking:
    """A process in which Triton interprets, whose children run what is asked for."""
    return _started.enter_context(forking(*LOADED, TRITON_INTERPRET="1", **environment))


def end() -> None:
    """End such processes, if any was started."""
    _started.close()
    _interpreting.cache_clear()


def run_by_interpreter(
    module: str, *arguments: str, says: str, strict: bool = True, **environment: str
) -> None:
    """Run `python -m module arguments`, which ends well and says so; if `strict`, without warnings."""
    said = run_text_by_interpreter(
        f"import runpy, sys; sys.argv[1:] = {arguments!r}\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)",
        warnings="error" if strict else "default",
        **environment,
    )
    assert says in said


def run_text_by_interpreter(text: str, warnings: str = "ignore", **environment: str) -> str:
    """Run a program, which ends well; what it said."""
    first = f"import warnings; warnings.simplefilter({warnings!r})\n"
    status, said, errors = _interpreting(**environment).run_text(first + text)
    assert status == 0, said[-3000:] + errors[-3000:]
    return said
