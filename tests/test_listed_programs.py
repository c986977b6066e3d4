"""Lists of programs that native code searches, of any length (Note [listed programs])."""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops, rows
from adjoint.engine.core.operations.listing import (
    LISTED,
    PART_AT,
    PARTS,
    TOGETHER,
    every,
    with_entry,
)
from adjoint.engine.core.spec import Size, Spec

Kind = tuple[tuple[Any, ...], dict[str, Any]]  # operands and parameters
native: Any = loops.native()
needs_native = pytest.mark.skipif(
    native is None or native.meet_call is None,
    reason="objects are laid out otherwise here: nothing is met natively",
)


def number(rng: random.Random) -> int:
    return rng.choice([0, 1, 2, 3, -1, 17, 1 << 40, -(1 << 63), 1 << 70])


def group(rng: random.Random, depth: int = 2) -> Any:
    """Something that is compared and may have whole numbers in it."""
    made = rng.choice([tuple, list, Size, Spec])
    if made is Spec:
        return Spec((rng.randrange(4), 2), ad.float32, ad.device("cpu"))
    if made is Size:
        return Size([rng.randrange(4) for _ in range(rng.randrange(4))])
    plain = [number(rng), rng.choice([0.5, -0.0, True, None, "sum"])]
    items = [group(rng, depth - 1) if depth and rng.random() < 0.3 else rng.choice(plain)
             for _ in range(rng.randrange(4))]  # fmt: skip
    return made(items)


def tensor(rng: random.Random) -> Any:
    shape = [rng.randrange(1, 6) for _ in range(rng.randrange(4))]
    made = ad.zeros(shape, dtype=rng.choice([ad.float32, ad.int64]))
    made = ad.nn.Parameter(made, requires_grad=False) if rng.random() < 0.3 else made
    return made.permute((*reversed(range(made.ndim)),)) if rng.random() < 0.3 else made


def kind(rng: random.Random) -> Kind:
    others = [number(rng), group(rng), 0.25, None, "mean"]
    operands = [tensor(rng) if rng.random() < 0.6 else rng.choice(others) for _ in range(3)]
    values = rng.sample([number(rng), group(rng), "x", 1.5, False], rng.randrange(3))
    return (tensor(rng), *operands), dict(zip(("dim", "shape"), values, strict=False))


def entry_of(kind: Kind, answer: Any) -> Any:
    return rows.called(lambda *_: answer, *kind, True, of="tensors")


def listed(kinds: list[Kind]) -> tuple[Any, ...]:
    """A list of programs, each of which answers by its number."""
    programs: tuple[Any, ...] = ()
    for k, each in enumerate(kinds):
        programs = with_entry(programs, entry_of(each, k))
    return programs


def meet(programs: Any, kind: Kind) -> Any:
    return native.meet_call(programs, *kind, False)


@needs_native
@pytest.mark.parametrize("count", [1, TOGETHER, TOGETHER + 1, 400])
def test_the_newest_that_fits_is_found(count: int) -> None:
    rng = random.Random(count)
    kinds = [kind(rng) for _ in range(count)]
    programs = listed(kinds)
    alone = [*every(programs)]
    for each in [*kinds, *[kind(rng) for _ in range(50)]]:
        answers = [found for entry in alone if (found := meet((entry,), each)) is not None]
        assert meet(programs, each) == max(answers, default=None)
    found = [meet(programs, each) for each in kinds]
    least = min(count, LISTED)
    assert all(x is not None and x >= k for k, x in enumerate(found[-least:], count - least))


@needs_native
def test_programs_of_many_sizes_stay() -> None:
    kinds: list[Kind] = [((ad.zeros(n, 3), 2.0), {"dim": 1}) for n in range(1, 301)]
    kinds += [((ad.zeros(3), (n, 3)), {}) for n in range(300)]
    kinds += [((ad.zeros(3),), {"shape": Size((n, 3))}) for n in range(300)]
    programs = listed(kinds)
    assert [meet(programs, each) for each in kinds] == [*range(900)]
    parts = {int(entry[1][PART_AT]) for entry in every(programs)}
    assert parts == {*range(PARTS)}


@needs_native
def test_numbers_that_calls_give_decide_no_part() -> None:
    """Whole numbers that are operands may be any, wherever their program is."""
    kinds: list[Kind] = [((ad.zeros(n), 5), {}) for n in range(1, 100)]
    first, second = (entry_of(((ad.zeros(7), n), {}), n)[1][PART_AT] for n in (5, 900))
    assert first == second
    programs = listed(kinds)
    assert meet(programs, ((ad.zeros(7), 5), {})) == 6
    assert meet(programs, ((ad.zeros(7), 6), {})) is None


@needs_native
def test_what_does_not_vary_in_sizes_keeps_the_newest() -> None:
    kinds: list[Kind] = [((ad.zeros(2),), {"p": k / 7}) for k in range(3 * LISTED)]
    programs = listed(kinds)
    found = [meet(programs, each) for each in kinds]
    assert found == [None] * 2 * LISTED + [*range(2 * LISTED, 3 * LISTED)]


@needs_native
def test_operands_that_are_no_sequence_are_not_found() -> None:
    programs = listed([((ad.zeros(n),), {}) for n in range(1, 100)])
    assert native.meet_call(programs, {}, {}, False) is None
    assert native.meet_call((), (ad.zeros(3),), {}, False) is None
