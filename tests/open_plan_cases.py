"""What programs of eager mode for many sizes are compared by: plans made afresh for each size.

Run by `tests/test_open_plans.py` in a process of its own, on a stand-in for CuPy whose kernels are
planned and written but not run.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.triton.program.direct import DirectProgram
from adjoint.engine.backends.triton.program.filling import alike
from adjoint.engine.backends.triton.program.open_plans import OpenPlans, differs
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.many_sizes import open_kinds, open_recordings
from adjoint.engine.graph.eager.many_sizes.open_recordings import OpenRecording, described
from adjoint.engine.graph.sizes.extents import evaluate
from adjoint.engine.graph.sizes.sizing import FILL
from tests import cupy_stand_in
from tests.cuda_fragment_cases import over_a_length

SMALL = (2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 19, 31, 32, 33)
LARGE = (63, 64, 65, 97, 127, 128, 129, 251, 256, 500, 509, 1000, 1021, 1024, 1025, 2039, 2048)


def made(*shape: int) -> Any:
    """A tensor on the device that is differentiated."""
    return ad.tensor(np.ones(shape, np.float32), device="cuda").requires_grad_()


def products(n: int, m: int) -> list[Any]:
    """Products along sizes, across them, and of batches."""
    x, w, b = made(m, n, 24), made(40, 24), made(40)
    heads = x.reshape(m, n, 4, 6).transpose(1, 2)
    return [
        F.linear(x, w, b),
        F.gelu(F.linear(x.reshape(-1, 24), w)),
        heads @ heads.mT,
        x.mT @ x,
        F.scaled_dot_product_attention(heads, heads, heads),
    ]


def rows(n: int, m: int) -> list[Any]:
    """Sums, norms and extremes along sizes and beside them."""
    x, w = made(m, n, 8), made(8)
    return [
        F.layer_norm(x, (8,), w, w),
        F.layer_norm(x.mT, (n,)),
        x.softmax(1) + x.log_softmax(2),
        x.sum() * x.mean(0).sum(1).mean() + x.var(1).sum(),
        x.amax(1) + x.argmax(1),
        F.batch_norm(x.mT, None, None, w, w, training=True),
    ]


def moved(n: int, m: int) -> list[Any]:
    """Copies, joins, slices, and values put elsewhere."""
    x, table = made(n, m), made(11, 6)
    index = ad.tensor(np.arange(n) % 11, device="cuda")
    return [
        ad.cat([x, x * 2], 1).mT.contiguous(),
        ad.stack([x[:, 0], x[:, -1]]),
        F.embedding(index, table),
        F.pad(x, (1, 2)).tanh() + 1.5,
        x[1:] * x[:-1] - x[:1],
        F.cross_entropy(x.mT, ad.tensor(np.zeros(m, np.int64), device="cuda")),
        ad.where(x > 0, x, x.mean()),
        x.cumsum(0),
    ]


def sequences(n: int, m: int) -> list[Any]:
    """Those whose results are compared, too; they are differentiated already."""
    return [r.detach() for r in over_a_length(n, "cuda")]


FAMILIES: dict[str, Callable[[int, int], list[Any]]] = {
    "products": products, "rows": rows, "moved": moved, "sequences": sequences,
}  # fmt: skip


def run(fn: Callable[[int, int], list[Any]], n: int, m: int) -> None:
    """Everything of a family, with gradients."""
    results = [r for r in fn(n, m) if r.requires_grad]
    if results:
        sum([(r * r).sum() for r in results]).backward()


def recordings() -> Iterator[tuple[str, OpenRecording]]:
    """What was recorded for many sizes."""
    for key, family in FRAGMENTS.open.families.items():
        for found in family.recordings:
            yield getattr(key[0], "record", key[0]).name, found


COPIES: list[bool] = []  # of plans that had programs already, whether copies of these could be


def check_plan(name: str, found: OpenRecording, sizes: tuple[int, ...]) -> bool:
    """A plan made once is at any sizes it allows what one made afresh is; whether it allows them.

    So are programs that are copies of another (Note [filled programs]).
    """
    plans: OpenPlans | None = found.plans.get(FILL)
    if plans is None or found.numbers(*sizes) is None:
        return False
    filled = plans.find(sizes) or plans.added(sizes)
    if filled is None:
        return False
    difference = differs(filled[0], sizes, plans.fresh(sizes))
    assert difference == "", f"{name} at {sizes}: {difference}"
    plan, numbers = filled
    if plan.form is None:
        plan.program(plans.machine, numbers)
        return True
    copy = plan.form.program(numbers)
    COPIES.append(copy is not None)
    if copy is not None:
        full = object.__new__(DirectProgram)
        full.fill(plans.machine, plan.draft, *plan.at(numbers))
        assert alike(copy, full), f"{name} at {sizes}: {copy.__dict__} and {full.__dict__}"
    assert plan.is_copied, name
    return True


NOTED: list[tuple[Any, ...]] = []  # of each recording: operands, what it is, its scope, its pattern


def note_recordings() -> None:
    """Have what recordings are made of noted, which they do not keep."""
    holds = open_recordings.holds

    def noted(operands: Any, made: Any, plain: Any, scope: Any, pattern: Any, met: Any) -> bool:
        NOTED.append((operands, made, scope, pattern))
        return holds(operands, made, plain, scope, pattern, met)

    open_recordings.holds = noted


def check_nodes(operands: Any, made: Any, scope: Any, pattern: Any, sizes: list[int]) -> bool:
    """A recording says what is recorded at sizes without extents; whether it is for them."""
    known = dict(zip(pattern.names, sizes, strict=True))
    if not scope.allow(known):
        return False
    plain, _ = operands.recorded([evaluate(poly, known) for poly in pattern.polys])
    assert described(made, scope.complete(known)) == described(plain, {}), (made.what(), sizes)
    return True


def main(name: str, seed: int) -> None:
    """One family, with sizes drawn by a seed."""
    cupy_stand_in.connect(is_run=False)
    note_recordings()
    rng = Random(seed)
    fn = FAMILIES[name]
    first = rng.randint(5, 90)
    for k in range(open_kinds.MET):
        run(fn, first + 3 * k, 4 + k * rng.randint(0, 1))
    if name != "sequences":  # whose windows are longer
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what one element is the variance
            run(fn, 1, 4)  # which no recording is for

    def drawn(names: Sequence[str]) -> list[int]:
        return [rng.choice(rng.choice((SMALL, LARGE))) for _ in names]

    nodes = sum(check_nodes(*noted, drawn(noted[-1].names)) for noted in NOTED for _ in range(4))
    found = [*recordings()]
    plans = sum(check_plan(*one, tuple(drawn(one[1].pattern.names))) for one in found * 4)
    assert len(found) >= 8, f"{len(found)} recordings"
    assert min(nodes, plans) >= len(found), f"{nodes} recorded, {plans} planned of {len(found)}"
    assert len(COPIES) >= 8, f"{len(COPIES)} copies"
    assert all(COPIES), COPIES
    print(f"{plans} plans of {len(found)} recordings hold")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
