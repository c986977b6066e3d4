"""Graphs in files: what comes back is what was saved, and bad files say so.

Every operation's: `tests/conformance/test_graph_forms.py`.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.graph import cond, scan, while_loop
from adjoint.nn import functional as F
from tests.graph_checks import bits


def saved(graph: Any, tmp_path: Path) -> Any:
    path = tmp_path / "model.graph"
    graph.save(path)
    return ad.Graph.load(path)


def test_module(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    x = ad.randn(2, 1, 4, 4)
    graph = model.to_graph(x)
    loaded = saved(graph, tmp_path)
    assert repr(loaded) == repr(graph)
    assert loaded.tensors["4.weight"].equal(model[4].weight)
    assert loaded.tensors["4.weight"].requires_grad
    assert loaded(x).equal(graph(x))
    assert loaded.tensors["1.running_mean"].equal(model[1].running_mean)
    assert loaded.text() == graph.text()


@pytest.mark.parametrize(
    "dtype",
    [ad.bool, ad.uint8, ad.int16, ad.int64, ad.float16, ad.bfloat16, ad.float64, ad.complex64],
)
def test_variables_of_every_dtype(dtype: Any, tmp_path: Path) -> None:
    with ad.Graph() as g:
        g.variable(ad.tensor([[0, 1], [2, 3]]).to(dtype).T.contiguous(), "a")
        g.variable(ad.zeros(0, 3).to(dtype), "empty")
        g.variable(ad.ones(()).to(dtype), "scalar")
    loaded = saved(g, tmp_path)
    for name, tensor in g.tensors.items():
        assert loaded.tensors[name]._spec == tensor._spec
        assert loaded.tensors[name].equal(tensor)


def test_training_goes_on_after_loading(tmp_path: Path) -> None:
    with ad.Graph() as g:
        x = g.placeholder((2,), name="x")
        w = g.variable([1.0, 2.0], "w")
        loss = g.name((w * x).sum(), "loss")
        (slope,) = ad.autograd.grad(loss, [w])
        g.assign(w, w - slope * 0.5, "train")
    loaded = saved(g, tmp_path)
    for graph in (g, loaded):
        session = ad.Session(graph)
        losses = [session.run(["loss", "train"], {"x": [1.0, 2.0]})[0].item() for _ in range(3)]
        assert losses == [5.0, 2.5, 0.0]
    assert loaded.tensors["w"].equal(w)
    assert loaded.tensors["w"].requires_grad


def test_a_loaded_model_can_be_trained(tmp_path: Path) -> None:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1))
    x, y = ad.randn(5, 3), ad.randn(5, 1)
    loaded = saved(model.to_graph(x), tmp_path)
    with loaded:
        target = ad.placeholder((5, 1), name="target")
        loss = F.mse_loss(loaded["output"], target)
        slopes = ad.autograd.grad(loss, list(loaded.tensors.values()))
        steps = [
            loaded.assign(w, w - 0.1 * slope)
            for w, slope in zip(loaded.tensors.values(), slopes, strict=True)
        ]
    session = ad.Session(loaded)
    opt = ad.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        expected = F.mse_loss(model(x), y)
        opt.zero_grad()
        expected.backward()
        opt.step()
        got = session.run([loss, *steps], {"input": x, target: y})[0]
        assert got.item() == pytest.approx(expected.item(), rel=1e-5)


def test_control_flow_and_composites(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            last, all_ = scan(lambda c, t: (F.softmax(c + t, 0), c * t), x[0], x)
            chosen = cond(x.sum() > 0, lambda a: F.gelu(a), lambda a: -a, (last,))
            count, _ = while_loop(
                lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (x.new_zeros(()), chosen)
            )
            return last, all_, chosen, count

    x = ad.randn(4, 3)
    graph = Model().to_graph(x)
    loaded = saved(graph, tmp_path)
    for given in (x, -x.abs()):
        for a, b, c in zip(loaded(given), graph(given), Model()(given), strict=True):
            assert a.equal(b)
            assert a.equal(c)


def test_draws(tmp_path: Path) -> None:
    with ad.Graph() as g:
        x = g.placeholder((3,), name="x")
        g.set_results((x + ad.rand(3), x * ad.randn(3)))
    loaded = saved(g, tmp_path)
    got = []
    for graph in (g, loaded):
        ad.manual_seed(5)
        got.append([graph([0.0, 1.0, 2.0]) for _ in range(2)])
    for (a, b), (c, d) in zip(*got, strict=True):
        assert a.equal(c)
        assert b.equal(d)


def test_numbers_of_the_host_are_kept(tmp_path: Path) -> None:
    w = ad.tensor([1.0], requires_grad=True)
    opt = ad.optim.SGD([w], lr=0.5)
    with ad.Graph() as g:
        g.variable(w, "w")
        with g.update("train"):
            (w * 2).sum().backward()
            opt.step()
    loaded = saved(g, tmp_path)
    opt.param_groups[0]["lr"] = 100.0
    ad.Session(loaded).run("train")
    assert loaded.tensors["w"].item() == 0


def test_special_numbers(tmp_path: Path) -> None:
    with ad.Graph() as g:
        x = g.placeholder((2,), ad.float64, name="x")
        inf = float("inf")
        g.set_results([x * inf, x - inf, x + float("nan"), x + -0.0, x * 1e-310, x * (1 + 0.1j)])
    loaded = saved(g, tmp_path)
    for a, b in zip(loaded([-0.0, 1.0]), g([-0.0, 1.0]), strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


def test_equal_graphs_make_equal_files(tmp_path: Path) -> None:
    graph = nn.Linear(2, 2).to_graph(ad.ones(1, 2))
    graph.save(tmp_path / "a")
    graph.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# -- what cannot be saved, and bad files ---------------------------------------------------------


def test_a_generator_of_its_own_cannot_be_saved(tmp_path: Path) -> None:
    with ad.Graph() as g:
        g.name(ad.rand(3, generator=ad.Generator()), "r")
    with pytest.raises(TypeError, match="a generator of its own"):
        g.save(tmp_path / "g")


def test_a_gradient_from_outside_cannot_be_saved(tmp_path: Path) -> None:
    w = ad.tensor([1.0], requires_grad=True)
    w.grad = ad.ones(1)
    with ad.Graph() as g, g.update("step"):
        (w * 2).sum().backward()  # adds to the gradient that is there
        with ad.no_grad():
            w.sub_(w.grad)
    ad.Session(g).run("step")
    assert w.item() == -2
    with pytest.raises(TypeError, match="the gradient of a tensor outside the graph"):
        g.save(tmp_path / "g")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "g"
    path.write_text("old")
    with ad.Graph() as g:
        g.name(ad.rand(3, generator=ad.Generator()), "r")
    with pytest.raises(TypeError):
        g.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def rewritten(path: Path, change: Any) -> Path:
    """A copy of a file with its data changed."""
    out = path.with_suffix(".changed")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "graph.json":
                data = json.loads(content)
                change(data)
                content = json.dumps(data).encode()
            new.writestr(name, content)
    return out


def _set(*path: Any) -> Any:
    def change(data: Any) -> None:
        *keys, last, value = path
        for key in keys:
            data = data[key]
        data[last] = value

    return change


BAD: dict[str, tuple[Any, str]] = {
    "another format": (_set("format", "x"), "is no graph file"),
    "a later version": (_set("version", 99), "is of version 99, this Adjoint reads up to 2"),
    "no version": (_set("version", None), "is of version None"),
    "an unknown operation": (
        _set("graph", "nodes", 0, "op", "os.system"),
        "an operation this version does not know, 'os.system'",
    ),
    "a value used before": (
        _set("graph", "nodes", 0, "inputs", [{"value": "nowhere"}]),
        "'nowhere' is used before it is defined",
    ),
    "a name that is code": (
        _set("graph", "nodes", 0, "outputs", 0, 0, "x): import os"),
        "cannot be the name of a value",
    ),
    "another shape": (
        _set("graph", "nodes", 0, "outputs", 0, 1, 0, [5]),
        "damaged",
    ),
    "an unknown kind": (_set("graph", "nodes", 0, "params", "x", {"pickle": "cos"}), "'pickle'"),
    "a short array": (_set("graph", "inputs", 0, 1, 0, [7]), "damaged"),
    "a missing array": (_set("inputs", 1, "array", 77), "damaged"),
    "an unknown input": (_set("inputs", 1, {"url": "x"}), "damaged"),
    "no nodes": (_set("graph", 3), "damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    path = tmp_path / "g"
    nn.Linear(2, 3).to_graph(ad.ones(1, 2)).save(path)
    with pytest.raises(RuntimeError, match=message) as caught:
        ad.Graph.load(rewritten(path, change))
    assert str(path) in str(caught.value)


def test_truncated_files(tmp_path: Path) -> None:
    path = tmp_path / "g"
    nn.Linear(20, 30).to_graph(ad.ones(1, 20)).save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(RuntimeError, match=r"Graph.load: .* no graph file, or damaged"):
            ad.Graph.load(path)


def test_flipped_bytes(tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph = nn.Linear(4, 5).to_graph(ad.ones(1, 4))
    graph.save(path)
    whole = path.read_bytes()
    x = ad.ones(1, 4)
    for i in range(0, len(whole), 41):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :])
        try:
            loaded = ad.Graph.load(path)
        except RuntimeError as error:
            assert "Graph.load" in str(error)  # noqa: PT017
        else:  # a byte that carries nothing, such as a time
            assert loaded(x).equal(graph(x))


def test_nesting_without_end(tmp_path: Path) -> None:
    path = tmp_path / "g"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graph.json", "[" * 100_000)
    with pytest.raises(RuntimeError, match="cannot be read.*nests deeper than 1000"):
        ad.Graph.load(path)


def test_loading_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph = nn.Linear(2, 3).to_graph(ad.ones(1, 2))
    graph.save(path)
    moved = rewritten(path, _set("graph", "inputs", 0, 1, 2, "cuda:3"))
    loaded = ad.Graph.load(moved, device="cpu")
    assert all(v.spec.device == ad.device("cpu") for v in loaded.body.inputs)
    assert loaded(ad.ones(1, 2)).equal(graph(ad.ones(1, 2)))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ad.Graph.load(tmp_path / "none")
