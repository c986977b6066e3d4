"""Programs whose numbers were written down as PyTorch 2.13 gives them, in `numbers/`.

Each is a function of a library: of Adjoint in every run of the tests, of PyTorch where it is
installed (`tests/compare/test_recorded.py`), which is how the records stay true. After adding a
program, `python -m tests.recorded.write` in an environment with PyTorch writes its numbers down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Program = Callable[[Any], Any]  # of a library: torch or adjoint
NUMBERS = Path(__file__).parent / "numbers"
DIGITS = 12
# A list that begins with such a kind is of numbers that round so.
COARSE = {"float32": 1e-5, "complex64": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
KINDS = (
    "AssertionError", "IndexError", "KeyError", "NotImplementedError", "TypeError", "ValueError",
    "RuntimeError", "Warning", "Exception",
)  # fmt: skip
ABSENT = "PyTorch has no such call"
TOPICS = ("schedules", "optimizers", "laws", "calls", "modules", "pieces")


def programs_of(topic: str) -> dict[str, Program]:
    """The programs of a topic, by name."""
    from importlib import import_module

    programs: dict[str, Program] = import_module(f"tests.recorded.{topic}").PROGRAMS
    return programs


def numbers_of(topic: str) -> dict[str, Any]:
    """What was written down of them."""
    numbers: dict[str, Any] = json.loads((NUMBERS / f"{topic}.json").read_text(encoding="utf-8"))
    return numbers


def plain(x: Any) -> Any:
    """A program's result as lists of numbers and words, which files can hold."""
    if hasattr(x, "detach"):
        x = x.detach()
        x = [x.real.tolist(), x.imag.tolist()] if x.is_complex() else x.tolist()
    if isinstance(x, dict):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, float):
        return float(f"{x:.{DIGITS}g}")
    if isinstance(x, complex):
        return [plain(x.real), plain(x.imag)]
    if isinstance(x, str | int | None):
        return x
    if isinstance(x, Iterable):
        return [plain(value) for value in x]
    raise TypeError(f"{type(x).__name__} is not written down")


def refusal(call: Callable[[], Any], *, warned: bool = False) -> str:
    """The kind of error that a call ends with, or 'none'."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error" if warned else "ignore")
        try:
            call()
        except (AssertionError, LookupError, RuntimeError, TypeError, ValueError, Warning) as error:
            ours = {kind.__name__ for kind in type(error).__mro__}
            return next(kind for kind in KINDS if kind in ours)
    return "none"


def different(got: Any, want: Any, relative: float, absolute: float, where: str = "") -> list[str]:
    """Where two plain results differ."""
    if want == ABSENT:
        return []
    if isinstance(want, dict) and isinstance(got, dict):
        if got.keys() != want.keys():
            return [f"{where}: keys {sorted(got)} and {sorted(want)}"]
        return [
            d for k in want for d in different(got[k], want[k], relative, absolute, f"{where}.{k}")
        ]
    if isinstance(want, list) and isinstance(got, list):
        if want and isinstance(want[0], str):
            relative = absolute = max(relative, COARSE.get(want[0], 0.0))
        if len(got) != len(want):
            return [f"{where}: {len(got)} and {len(want)} entries"]
        pairs = enumerate(zip(got, want, strict=True))
        return [
            d for k, (g, w) in pairs for d in different(g, w, relative, absolute, f"{where}[{k}]")
        ]
    number = lambda x: isinstance(x, int | float) and not isinstance(x, bool)
    if number(want) and number(got):
        same = got == want or (got != got and want != want)
        same = same or abs(got - want) <= absolute + relative * abs(want)
        return [] if same else [f"{where}: {got!r} and {want!r}"]
    return [] if got == want and type(got) is type(want) else [f"{where}: {got!r} and {want!r}"]
