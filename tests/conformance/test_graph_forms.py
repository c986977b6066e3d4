"""Every sample's graph, written as text and as a file has it, is the same program when read again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.core.spec import UnknownShapeError
from adjoint.engine.graph.encoding import Decoder, encode_graph
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.graph import interpret, load, to_text, verify
from tests.conformance.cases import firsts, make, rows
from tests.graph_checks import bits, graph_of
from tests.samples import S


def same(got: Any, want: Any) -> None:
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(bits(x), bits(y))


def through_a_file(graph: DataflowGraph) -> DataflowGraph:
    written = json.dumps(encode_graph(graph), allow_nan=False)
    return verify(Decoder(Budget(0, "test")).graph(json.loads(written)))


@pytest.mark.parametrize("row", firsts(rows()))
def test_every_sample_comes_back(row: S) -> None:
    case = make(row, ad.float64)
    try:
        graph, inputs = graph_of(case.fn, *[x.detach().clone() for x in case.tensors])
    except (UnknownShapeError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"not captured: {error}")
    want, text = interpret(graph, inputs), to_text(graph)
    same(load(text)(*inputs), want)
    better = run_passes(graph)
    same(load(to_text(better))(*inputs), interpret(better, inputs))
    back = through_a_file(graph)
    assert to_text(back) == text
    same(interpret(back, inputs), want)
