"""Plans for many sizes as they lie on disk: two lines each, what changes and what does not.

What changes are the sizes between which a plan was believed. Nothing here needs the planner.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.backends.llvm.program import running
from adjoint.engine.backends.llvm.program.sized_plan import Sized
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.compiler.package.image import TEST
from adjoint.engine.compiler.package.kept_draft import KeptDraft, draft_rows
from adjoint.engine.core.files.budget import Budget, FileRefusal, read_json
from adjoint.engine.graph.sizes.kept_sizes import scope_of_rows, scope_rows

# What reading bytes that are no plans comes to.
DAMAGED: tuple[type[Exception], ...] = (
    KeyError, IndexError, TypeError, ValueError, OverflowError, FileRefusal, AttributeError,
    ImportError, ZeroDivisionError,
)  # fmt: skip


def lines_of(plans: Sequence[Sized]) -> list[bytes]:
    """The lines of plans; `NotKept` where they have none."""
    lines = []
    for plan in plans:
        plan.kept = plan.kept or json.dumps(_rows(plan)).encode()
        lines += [json.dumps({"low": plan.low, "high": plan.high}).encode(), plan.kept]
    return lines


def _rows(plan: Sized) -> dict[str, Any]:
    return {
        "sizes": dict(plan.sizes),
        "reference": dict(plan.reference),  # of symbols that the recording computes, too
        "scope": scope_rows(plan.scope),
        "draft": draft_rows(plan.draft),
        "modules": sorted({function.module for function in plan.functions.values()}),
    }


def bounds_of(line: bytes, budget: Budget) -> tuple[dict[str, int], dict[str, int]]:
    """The sizes between which a plan was believed, by the first of its lines."""
    bounds = read_json(line, budget)
    low, high = sizes_of(bounds["low"]), sizes_of(bounds["high"])
    if low.keys() != high.keys():
        raise ValueError("bounds of other sizes")
    return low, high


def plan_of(
    bounds: bytes, rest: bytes, budget: Budget, again: Callable[[Any, Any], Any]
) -> Sized | None:
    """The plan of two lines; None where its code is gone.

    `again` makes it anew, given the sizes that it was made at and for.
    """
    low, high = bounds_of(bounds, budget)
    rows = read_json(rest, budget)
    sizes, reference = sizes_of(rows["sizes"]), sizes_of(rows["reference"])
    if not reference.keys() >= sizes.keys() == low.keys():
        raise ValueError("sizes of other symbols")
    scope = scope_of_rows(rows["scope"])
    draft = KeptDraft(rows["draft"], sizes, scope, lambda: again(sizes, reference))
    names = {name for part in draft.segments for name, _, _ in part or ()} - {TEST}
    try:
        if draft.symbols:  # few plans have some
            address_named = importlib.import_module(running.SYMBOLS).address_of
            for _, name in draft.symbols:
                address_named(name)
        functions = library.load(dict.fromkeys(names, running.gone), map(str, rows["modules"]))
    except (KeyError, library.UnknownSymbol):  # removed, or kept beside another NumPy or SciPy
        return None
    return Sized(draft, scope, sizes, reference, functions, low, high, kept=rest)


def sizes_of(rows: Any) -> dict[str, int]:
    """Sizes by their symbols."""
    return {str(s): int(n) for s, n in rows.items()}
