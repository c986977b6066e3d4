"""The arena of compiled programs: reuse in place, what explain says, and running out of memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import arena
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.memory import packing
from adjoint.engine.compiler.memory.limits import limit
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package import draft
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.nn import functional as F


def program(fn: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """A function's result and executable."""
    compiled = ad.compile(fn, options=options)
    result = compiled(*args)
    return result, compiled.latest.executable


def products(x: Any, w: Any) -> Any:
    """Products with elementwise functions between: each can work in place."""
    for _ in range(4):
        x = (x @ w).tanh() * 0.5
    return x


def test_elementwise_results_take_the_place_of_dying_operands() -> None:
    x, w = ad.randn(64, 64), ad.randn(64, 64)
    result, executable = program(products, x, w)
    np.testing.assert_allclose(result.numpy(), products(x, w).numpy(), atol=1e-4)
    plan = plan_for(executable.task, LLVM, Options())
    found = packing.blocks(plan, packing.lifetimes(plan))
    assert max(len(b.buffers) for b in found) == 2  # a product and the function of it
    assert executable.image.arena == 2 * 64 * 64 * 4  # one product's operand and its result


def test_what_is_read_elsewhere_is_not_overwritten() -> None:
    def turned(x: Any, w: Any) -> Any:
        y = x @ w
        return (y + y.t()) @ w  # y is read at two elements for each one written

    x, w = ad.randn(32, 32), ad.randn(32, 32)
    result, executable = program(turned, x, w)
    np.testing.assert_allclose(result.numpy(), turned(x, w).numpy(), rtol=1e-4, atol=1e-4)
    plan = plan_for(executable.task, LLVM, Options())
    assert all(len(b.buffers) == 1 for b in packing.blocks(plan, packing.lifetimes(plan)))


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("n", [8192, 8193, 9000])
def test_a_place_is_taken_by_one_result_of_a_kernel(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, begun = packing.blocks, []

    def blocks(plan: Any, spans: Any) -> Any:
        found = whole(plan, spans)
        begun.extend([[spans[b][0] for b in block.buffers] for block in found])
        return found

    monkeypatch.setattr(draft, "blocks", blocks)
    x = np.random.default_rng(n).integers(0, 50, n)
    values, counts = np.unique(x, return_counts=True)
    found = ad.tensor(x).mode()
    assert int(found.values) == values[counts.argmax()] == x[int(found.indices)]
    assert begun
    assert all(len({*moments}) == len(moments) for moments in begun)


def test_blocks_alive_together_do_not_overlap() -> None:
    x, w = ad.randn(16, 8, 64), ad.randn(64, 64, requires_grad=True)

    def step(x: Any) -> Any:
        y = F.layer_norm(F.gelu(x @ w), (64,))
        (g,) = ad.autograd.grad((F.softmax(y @ w, -1) * y).sum(), [w])
        return g

    _, executable = program(step, x)
    plan = plan_for(executable.task, LLVM, Options())
    found = packing.blocks(plan, packing.lifetimes(plan))
    sizes = [packing.rounded(block.nbytes) for block in found]
    starts, total = packing.pack(found, sizes, packing.together(found))
    assert max(packing.alive(found, sizes, len(plan.steps))) <= total
    for a, start, size in zip(found, starts, sizes, strict=True):
        assert start % packing.ALIGN == 0
        for b, other, room in zip(found, starts, sizes, strict=True):
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert start + size <= other or other + room <= start


def test_blocks_alive_together_are_all_found() -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 7, 60):
        spans = [sorted(span) for span in rng.integers(0, 30, (count, 2)).tolist()]
        found = [packing.ArenaBlock(1, first, last, []) for first, last in spans]
        both = [[a <= d and c <= b for c, d in spans] for a, b in spans]
        wanted = [{j for j, met in enumerate(row) if met and j != k} for k, row in enumerate(both)]
        others = packing.together(found)
        assert [set(row) for row in others] == wanted
        assert [len(row) for row in others] == [len(row) for row in wanted]  # none twice


def test_explain_shows_the_peak() -> None:
    compiled = ad.compile(products)
    compiled(ad.randn(64, 64), ad.randn(64, 64))
    text = compiled.explain()
    assert "memory: 32.8 kB for temporary values (1.000 of what is alive at once)" in text
    assert "at the peak, step" in text
    assert "float32[64, 64]  made by step" in text
    assert "computed again (remat: balanced): nothing" in text


def test_programs_above_the_limit_name_their_largest_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w = ad.randn(64, 64), ad.randn(64, 64)
    monkeypatch.setenv("ADJOINT_MEMORY_LIMIT", "20k")
    with pytest.raises(MemoryError) as caught:
        ad.compile(products)(x, w)
    text = str(caught.value)
    assert "needs 32.8 kB for temporary values, more than the 20 kB there are" in text
    assert "16.4 kB  float32[64, 64]  made by step" in text
    assert "matmul" in text
    assert re.search(r'last read by step \d+\n +test_program_memory.py:\d+, ".* @ .*"', text)
    assert "smaller batch, or compile with options={'remat': 'memory'}" in text
    with pytest.raises(MemoryError) as caught:
        ad.compile(products, options={"remat": "memory"})(x, w)
    assert str(caught.value).endswith("Take a smaller batch.")
    monkeypatch.setenv("ADJOINT_MEMORY_LIMIT", "1M")
    ad.compile(products)(x, w)


def test_memory_the_system_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    real = np.empty

    def refusing(shape: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(shape, int) and shape > 30_000:
            raise MemoryError("no")
        return real(shape, *args, **kwargs)

    monkeypatch.setattr(arena.np, "empty", refusing)
    with pytest.raises(MemoryError, match="which the system does not give"):
        ad.compile(products)(ad.randn(64, 64), ad.randn(64, 64))


def test_the_limit_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJOINT_MEMORY_LIMIT", raising=False)
    assert limit() > 10**8
    for text, value in (("4096", 4096), ("1.5M", 1_500_000), ("2GB", 2 * 10**9)):
        monkeypatch.setenv("ADJOINT_MEMORY_LIMIT", text)
        assert limit() == value
    monkeypatch.setenv("ADJOINT_MEMORY_LIMIT", "much")
    with pytest.raises(ValueError, match="number of bytes"):
        limit()
