"""Every sample's graph, forward and backward, is the same to the bit after the passes: once
composites are inlined, which may round otherwise than their kernels."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.core.spec import UnknownShapeError
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.pipeline import run_passes
from tests.conformance.cases import Case, firsts, make, rows
from tests.graph_checks import graph_of, same_results
from tests.samples import S


def backward(case: Case, tensors: tuple[Any, ...]) -> list[Any]:
    """Gradients of the sums of the results."""
    outs = [out for out in case.floats(tensors) if out.requires_grad]
    if not outs:
        return case.fn(*tensors)
    wanted = [tensors[i] for i in case.wanted]
    seeds = [ad.ones_like(out) for out in outs]
    return [g for g in ad.autograd.grad(outs, wanted, seeds, allow_unused=True) if g is not None]


@pytest.mark.parametrize("row", firsts(rows()))
def test_passes_change_nothing(row: S) -> None:
    case = make(row, ad.float64)
    for fn in (lambda *ts: case.fn(*ts), lambda *ts: backward(case, ts)):
        tensors = [x.detach().clone() for x in case.tensors]
        for i in case.wanted:
            tensors[i].requires_grad_()
        try:
            graph, inputs = graph_of(fn, *tensors)
        except (UnknownShapeError, RuntimeError, NotImplementedError) as error:
            pytest.skip(f"not captured: {error}")
        better = run_passes(graph, verify=True)
        same_results(inline(graph), better, inputs)
        same_results(graph, better, inputs, rtol=1e-9)  # a composite may have a kernel of its own
