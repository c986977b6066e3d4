"""Parameter names, order and keyword-only-ness against those PyTorch documents."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

from adjoint.engine import assembly  # noqa: E402
from adjoint.engine.core.operations.public import PUBLIC  # noqa: E402

# Parameters PyTorch documents that mean nothing here, or spells in more than one way.
LOOSE = {"size", "shape", "sizes", "dims", "tensors", "operands", "layout", "pin_memory"}

# Where PyTorch's own documentation is not what its functions accept.
MISDOCUMENTED = frozenset(
    """
    cholesky_inverse cholesky_solve full_like histogramdd lu_solve matrix_exp orgqr qr randint
    randint_like searchsorted squeeze std_mean triangular_solve true_divide unsafe_split var_mean
    """.split()
)


def documented(fn: Any) -> list[tuple[list[str], list[str]]]:
    """(positional, keyword-only) parameter names of each signature in a docstring."""
    found = []
    for line in (fn.__doc__ or "").strip().splitlines():
        match = re.match(
            r"^\s*(?:torch\.|linalg\.|fft\.|special\.)*(\w+)\((.*?)\)\s*(->.*)?$", line
        )
        if match is None or match.group(1) != fn.__name__.split(".")[-1]:
            continue
        positional: list[str] = []
        keyword: list[str] = []
        target = positional
        for part in re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", match.group(2)).split(","):
            name = part.split("=")[0].split(":")[0].strip()
            if name == "*":
                target = keyword
            elif name and name != "/":
                target.append(name.lstrip("*"))
        found.append((positional, keyword))
    return found


def mismatch(name: str, ours: Any, out: bool, theirs: Any) -> str | None:
    parameters = inspect.signature(inspect.unwrap(ours)).parameters.values()
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] + (["out"] if out else [])
    takes_any = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    signatures = documented(theirs)
    if not signatures or takes_any:
        return None
    problems = []
    for want, only in signatures:
        missing = [n for n in (*want, *only) if n not in (*positional, *keyword) and n not in LOOSE]
        order = [n for n in positional if n in want]
        if missing or order != [n for n in want if n in positional]:
            problems.append(
                f"{name}: PyTorch has {want} * {only}, we have {positional} * {keyword}"
            )
        else:
            return None
    return problems[0]


def test_signatures() -> None:
    assembly.load_lazy()
    wrong = []
    for (space, name), public in sorted(PUBLIC.items()):
        theirs: Any = torch
        for part in (*filter(None, space.split(".")), name):
            theirs = getattr(theirs, part, None)
        if theirs is not None and callable(theirs):
            found = mismatch(f"{space}.{name}".lstrip("."), public.fn, public.out, theirs)
            if found is not None and name not in MISDOCUMENTED:
                wrong.append(found)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
