"""Short programs run through both frameworks: value, dtype, strides, gradient, exception type.

Each line of `expressions/*.txt` is statements and a last expression, separated by ';'. `m` (or
`t`) is the framework, and x y i c e s b h are tensors made by `names`.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

import adjoint as ad  # noqa: E402

HERE = Path(__file__).parent / "expressions"
KINDS = (IndexError, TypeError, ValueError, NotImplementedError, RuntimeError, Exception)


def names(m: Any) -> dict[str, Any]:
    """What an expression may use."""
    return {
        "m": m,
        "t": m,
        "math": math,
        "x": m.arange(12.0).reshape(3, 4),
        "y": m.arange(24.0).reshape(2, 3, 4),
        "i": m.arange(6).reshape(2, 3),
        "c": m.view_as_complex(m.arange(12.0).reshape(2, 3, 2)),
        "e": m.zeros(0, 3),
        "s": m.tensor(2.5),
        "b": m.tensor([True, False]),
        "h": m.arange(4).to(m.float16),
    }


def summary(value: Any, m: Any) -> Any:
    """A result in terms both frameworks share."""
    if isinstance(value, m.Tensor):
        plain = value.detach().resolve_conj() if m is torch else value.detach()
        elements = (plain.float() if plain.dtype == m.bfloat16 else plain).tolist()
        kind = str(value.dtype).rsplit(".", maxsplit=1)[-1]
        return (
            tuple(value.shape),
            kind,
            tuple(value.stride()),
            str(elements),
            value.requires_grad,
        )
    if isinstance(value, (list, tuple)):
        return tuple(summary(v, m) for v in value)
    return repr(value).replace("torch", "adjoint")


def outcome(source: str, m: Any) -> Any:
    """What a line gives in a framework: a summary, or the kind of error."""
    env = names(m)
    *before, last = source.split(";")
    try:
        for statement in before:
            exec(statement.strip(), env)
        return summary(eval(last.strip(), env), m)
    except Exception as error:
        return next(k for k in KINDS if isinstance(error, k)).__name__


def lines(path: Path) -> list[str]:
    text = path.read_text().splitlines()
    return [line for line in text if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda p: p.stem)
def test_expressions_agree(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [(line, outcome(line, torch), outcome(line, ad)) for line in lines(path)]
    wrong = [
        f"{line}\n  PyTorch {want}\n  Adjoint {got}" for line, want, got in pairs if got != want
    ]
    assert not wrong, "\n".join(wrong)
