"""What native code finds and runs small calls by (Note [small calls])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from adjoint.engine.backends.array.straight import same_arrays
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.backends.llvm.small.rows import Array, NoRow, literals_of, wanted_and_slots

# What a function is of, as native code is told: arrays, and gives arrays; tensors, and gives
# tensors, whether they are on the tape or not; tensors off the tape, and gives arrays.
Of = Literal["arrays", "tensors", "tensors to arrays"]
FUNCTIONS: dict[Of, Any] = {"arrays": None, "tensors": False, "tensors to arrays": True}
Given = tuple[
    Sequence[Any], dict[str, Any], bool
]  # operands, parameters, whether it has one result


def entry_of(
    rows: Callable[..., Any] | None,
    kernels: Callable[..., Any],
    arrays: Sequence[Array],
    given: Given,
    *,
    of: Of = "tensors",
) -> tuple[Any, ...] | None:
    """What `meet_call` compares and runs: rows where they do the same, else the kernels.

    Without rows, what is in the kernels' place is the function that `of` says.
    """
    operands, params, single = given
    native = loops.native()
    if native is None or native.meet_call is None:
        return None
    if rows is None:
        return called(kernels, operands, params, single, of)
    want = kernels(*arrays)
    try:
        walked = rows(arrays)
        results = walked.run(*arrays)
        if results is not None and same_arrays(results, want):
            entry: tuple[Any, ...] | None = walked.entry(
                operands, params, single, [True] * len(want)
            )
            return entry
    except NoRow:
        pass
    return called(kernels, operands, params, single)


def called(
    function: Callable[..., Any],
    operands: Sequence[Any],
    params: dict[str, Any],
    single: bool,
    of: Of = "arrays",
) -> tuple[Any, ...] | None:
    """The same of a function in the place of makers; in that of words, what it is a function of."""
    described = wanted_and_slots(operands, params)
    if described is None:
        return None
    wanted, slots, alive = described
    literals = literals_of(operands, slots)
    return FUNCTIONS[of], wanted, literals, (*params,), (*params.values(),), single, function, alive
