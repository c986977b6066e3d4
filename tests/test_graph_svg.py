"""Pictures of graphs: well-formed, nothing overlaps, arrows lead downwards."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from itertools import combinations
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.graph.drawing.layers import Box, assign_layers, place
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.graph import capture, cond, to_svg
from adjoint.nn import functional as F
from tests.graph_checks import graph_of

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str, *, folded: bool = False) -> list[str]:
    """What is written, with what shows on demand only if asked for."""
    found: list[str] = []

    def walk(element: ElementTree.Element) -> None:
        if element.get("class") != "more" or folded:
            if element.tag == f"{SVG}text":
                found.append(element.text or "")
            for child in element:
                walk(child)

    walk(ElementTree.fromstring(svg))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_layout(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(2, 60)
    boxes = [Box(rng.uniform(20, 120), rng.uniform(10, 60)) for _ in range(n)]
    edges = sorted({(a, b) for b in range(1, n) for a in rng.choices(range(b), k=2)})
    assign_layers(boxes, edges)
    placed = place(boxes, edges)
    for a, b in combinations(boxes, 2):
        apart = abs(a.x - b.x) >= (a.width + b.width) / 2 - 1e-6
        assert apart or a.y + a.height <= b.y or b.y + b.height <= a.y
    for box in boxes:
        assert box.x - box.width / 2 >= -1e-6
        assert box.x + box.width / 2 <= placed.width + 1e-6
        assert 0 <= box.y <= placed.height - box.height + 1e-6
    for (a, b), route in zip(edges, placed.routes, strict=True):
        assert route[0] == (boxes[a].x, boxes[a].y + boxes[a].height)
        assert route[-1] == (boxes[b].x, boxes[b].y)
        assert [y for _, y in route] == sorted(y for _, y in route)


def test_a_chain_is_straight() -> None:
    boxes = [Box(50, 20) for _ in range(5)]
    edges = [(i, i + 1) for i in range(4)]
    assign_layers(boxes, edges)
    place(boxes, edges)
    assert {box.x for box in boxes} == {25.0}


def test_picture_of_a_graph() -> None:
    captured = capture(lambda x: F.softmax(x * 2, 0))
    captured(ad.ones(3))
    shown = texts(captured.svg())
    assert "x0" in shown
    assert "mul 2" in shown
    assert "softmax" in shown
    assert "exp" not in shown
    assert "exp" in texts(captured.svg(expand={"softmax"}))
    assert "exp" in texts(captured.svg(expand=True))
    assert "exp" not in texts(captured.svg(expand={"gelu"}))
    assert "exp" in texts(captured.svg(), folded=True)
    assert captured.graph._repr_svg_() == captured.svg()  # type: ignore[attr-defined]
    assert str(captured.graph) == captured.graph_text()


def test_branches_are_drawn_inside() -> None:
    graph, _ = graph_of(
        lambda x: cond(x.sum() > 0, lambda a: a.exp(), lambda a: -a, (x,)), ad.ones(2)
    )
    assert "exp" not in texts(to_svg(graph))
    shown = texts(to_svg(graph, expand={"cond"}))
    assert {"exp", "neg", "true", "false"} <= set(shown)


def test_every_fold_has_its_box_and_rule() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU())
    graph, _ = graph_of(lambda x: F.cross_entropy(model(x), x[:, 0].long()), ad.ones(2, 4))
    svg = to_svg(graph)
    root = ElementTree.fromstring(svg)
    folds = {e.get("id") for e in root.iter() if e.get("class") == "more"}
    boxes = {e.get("id") for e in root.iter() if "folded" in (e.get("class") or "").split()}
    assert len(folds) == len(boxes) >= 4
    for name in folds:
        assert name is not None
        assert f"n{name[1:]}" in boxes
        assert f"#n{name[1:]}:focus ~ #{name}," in svg
    # Each fold comes after its box under one parent, as the rule wants it.
    for parent in root.iter():
        seen = [e.get("id") for e in parent]
        for name in seen:
            if name in folds:
                assert seen.index(f"n{str(name)[1:]}") < seen.index(name)


def test_a_training_step() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    opt = ad.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    graph, _ = graph_of(step, ad.ones(2, 4), ad.tensor([0, 1]))
    graph = run_passes(graph)
    shown = texts(to_svg(graph))
    for node in graph:
        assert any(line.startswith(node.record.name) for line in shown)
    assert any(line.startswith("\u2190") for line in shown)  # a long way is a tag


def test_names_are_escaped_and_empty_graphs_drawn() -> None:
    with ad.Graph() as g:
        g.placeholder((2,), name="a<b&c")
    ElementTree.fromstring(g.svg())
