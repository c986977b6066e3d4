"""Graphs made by hand, and sessions that run them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.graph import Task, Update, interpreted, verify
from adjoint.nn import functional as F


def simple() -> tuple[Any, Any, Any]:
    """A graph, its placeholder and what it computes."""
    with ad.Graph() as g:
        x = ad.placeholder((3,), name="x")
        y = g.name(x * 2 + 1, "y")
    return g, x, y


def test_fetches_by_tensor_name_and_structure() -> None:
    g, x, y = simple()
    session = ad.Session(g)
    data = ad.tensor([1.0, 2.0, 3.0])
    assert session.run(y, {x: data}).tolist() == [3, 5, 7]
    assert session.run("y", {"x": data}).tolist() == [3, 5, 7]
    got = session.run({"a": [y, "x"], "b": (x, {"c": "y"})}, {x: data})
    assert got["a"][0].tolist() == got["b"][1]["c"].tolist() == [3, 5, 7]
    assert isinstance(got["b"], tuple)
    assert got["a"][1].tolist() == got["b"][0].tolist() == [1, 2, 3]
    assert session.run([], {}) == []


def test_feeds_of_every_kind() -> None:
    g, x, y = simple()
    session = ad.Session(g)
    for data in ([0, 1, 2], (0.0, 1.0, 2.0), np.arange(3, dtype=np.float32), ad.arange(3.0)):
        assert session.run(y, {x: data}).tolist() == [1, 3, 5]
    strided = ad.arange(6.0)[::2]
    assert session.run(y, {x: strided}).tolist() == [1, 5, 9]


def test_feeding_a_value_in_the_middle() -> None:
    with ad.Graph() as g:
        x = g.placeholder((2,), name="x")
        inner = x.exp()
        y = inner * 2
    assert ad.Session(g).run(y, {inner: [1.0, 2.0]}).tolist() == [2, 4]


def test_only_what_is_needed_runs() -> None:
    with ad.Graph() as g:
        x = g.placeholder((2,), name="x")
        unfed = g.placeholder((2,), name="unfed")
        y = x * 2
        _ = (unfed + y).exp()
    seen: list[Task] = []

    def watching(task: Task) -> Any:
        seen.append(task)
        return interpreted(task)

    session = ad.Session(g, executor=watching)
    assert session.run(y, {x: [1.0, 2.0]}).tolist() == [2, 4]
    session.run(y, {x: [1.0, 3.0]})
    assert len(seen) == 1  # prepared once
    assert [node.record.name for node in seen[0].graph] == ["mul"]
    verify(seen[0].graph)


@pytest.mark.parametrize(
    ("fetch", "feeds", "kind", "message"),
    [
        ("y", {}, ValueError, r"placeholder 'x' \(float32\[3\]\) is needed and was not fed"),
        ("z", {}, KeyError, "nothing called 'z'. Names: x, y"),
        ("y", {"z": 1}, KeyError, "cannot feed this.*nothing called 'z'"),
        ("y", {"x": [1.0]}, ValueError, r"'x' is float32\[3\], received float32\[1\]"),
        ("y", {"x": np.zeros(3)}, ValueError, r"'x' is float32\[3\], received float64\[3\]"),
        (3, {}, TypeError, "expected a tensor or a name, received int"),
        ("y", {3: 1}, TypeError, "cannot feed this"),
    ],
)
def test_refusals(fetch: Any, feeds: Any, kind: Any, message: str) -> None:
    g, _, _ = simple()
    with pytest.raises(kind, match=message):
        ad.Session(g).run(fetch, feeds)


def test_numbers_that_would_be_cut_are_refused() -> None:
    with ad.Graph() as g:
        y = g.placeholder((2,), ad.int32, "i") + 1
        z = g.placeholder((), ad.complex64, "c") * 2
    session = ad.Session(g)
    assert session.run(y, {"i": [1, 2]}).tolist() == [2, 3]
    assert session.run(z, {"c": 1.5}).item() == 3
    with pytest.raises(ValueError, match=r"'i' is int32\[2\], received float32\[2\]"):
        session.run(y, {"i": [1.5, 2.0]})


def test_tensors_of_other_graphs_are_refused() -> None:
    g, x, _ = simple()
    _, other, _ = simple()
    session = ad.Session(g)
    with pytest.raises(ValueError, match="belongs to another graph"):
        session.run(other, {x: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="is not part of this graph"):
        session.run(ad.ones(2))
    with pytest.raises(TypeError, match="fed for 'x': a tensor of a graph"):
        session.run("y", {"x": other})
    with g, pytest.raises(RuntimeError, match="used outside it"):
        _ = x + other


def test_closed_session() -> None:
    g, x, y = simple()
    with ad.Session(g) as session:
        session.run(y, {x: [1.0, 2.0, 3.0]})
    with pytest.raises(RuntimeError, match="closed"):
        session.run(y, {x: [1.0, 2.0, 3.0]})


def test_runs_are_refused_inside_captures() -> None:
    g, x, y = simple()
    session = ad.Session(g)
    with pytest.raises(RuntimeError, match="inside a capture"):
        ad.graph.capture(lambda d: session.run(y, {x: d}))(ad.ones(3))
    with g:  # but inside a graph that is open nothing is being captured
        got = session.run(y, {x: [1, 1, 1]})
    assert got.tolist() == [3, 3, 3]


def test_placeholder_needs_a_graph_and_sizes() -> None:
    with pytest.raises(RuntimeError, match="no graph is open"):
        ad.placeholder((2,))
    with ad.Graph() as g:
        with pytest.raises(ValueError, match="received -1 as a size. Give whole numbers"):
            g.placeholder((-1, 2))
        g.placeholder(2, name="a")
        with pytest.raises(ValueError, match="already something called 'a'"):
            g.placeholder(2, name="a")
        unnamed = g.placeholder(2, ad.int64)
        assert unnamed.dtype is ad.int64


# -- variables and updates -----------------------------------------------------------------------


def test_variables_keep_their_values_between_runs() -> None:
    with ad.Graph() as g:
        count = g.variable(ad.zeros(()), "count")
        add = g.assign(count, count + 1, "add")
    session = ad.Session(g)
    assert session.run(["count", add])[0].item() == 0  # the value at the start of the run
    assert session.run([count, "add"])[0].item() == 1
    assert count.item() == 2  # an ordinary tensor
    count.fill_(10)
    assert session.run(count).item() == 10


def test_updates_read_the_start_of_the_run() -> None:
    with ad.Graph() as g:
        a, b = g.variable(1.0, "a"), g.variable(2.0, "b")
        swap = [g.assign(a, b), g.assign(b, a)]
    ad.Session(g).run(swap)
    assert (a.item(), b.item()) == (2, 1)


def test_assigning_to_part_of_a_variable() -> None:
    with ad.Graph() as g:
        table = g.variable(ad.zeros(2, 3), "table")
        x = g.placeholder((3,), name="x")
        put = g.assign(table[1], x)
    ad.Session(g).run(put, {x: [1.0, 2.0, 3.0]})
    assert table.tolist() == [[0, 0, 0], [1, 2, 3]]


def test_two_updates_of_one_tensor_clash() -> None:
    with ad.Graph() as g:
        a = g.variable(1.0, "a")
        first, second = g.assign(a, a + 1, "first"), g.assign(a, a * 2, "second")
    with pytest.raises(ValueError, match="'first' and 'second' write the same tensor"):
        ad.Session(g).run([first, second])
    assert a.item() == 1


def test_a_failed_run_writes_nothing() -> None:
    with ad.Graph() as g:
        a = g.variable(ad.ones(2), "a")
        x = g.placeholder((2, 2), name="x")
        step = [g.assign(a, a * 2), x.inverse()]
    with pytest.raises(RuntimeError):
        ad.Session(g).run(step, {x: [[0.0, 0.0], [0.0, 0.0]]})
    assert a.tolist() == [1, 1]


def test_writes_in_place_are_refused_outside_updates() -> None:
    outside = ad.ones(2)
    with ad.Graph() as g:
        x = g.placeholder((2,), name="x")
        with pytest.raises(RuntimeError, match="placeholder 'x' is written in place"):
            x.add_(1)
        with pytest.raises(RuntimeError, match="State it as an update"):
            outside.add_(x)
        y = (x * 2).add_(1)  # the graph's own may be written
    assert ad.Session(g).run(y, {x: [1.0, 2.0]}).tolist() == [3, 5]
    assert outside.tolist() == [1, 1]


def test_updates_do_not_nest() -> None:
    a = ad.ones(2)
    with ad.Graph() as g, pytest.raises(RuntimeError, match="do not nest"), g.update():
        g.assign(a, a + 1)


# -- gradients, training -------------------------------------------------------------------------


def test_gradients_in_the_graph() -> None:
    with ad.Graph() as g:
        x = g.placeholder((2,), name="x", requires_grad=True)
        w = g.variable([3.0, 4.0], "w")
        loss = (w * x * x).sum()
        by_x, by_w = ad.autograd.grad(loss, [x, w], create_graph=True)
        (second,) = ad.autograd.grad(by_x.sum(), [x])
    got = ad.Session(g).run([by_x, by_w, second], {x: [1.0, 2.0]})
    assert [t.tolist() for t in got] == [[6, 16], [1, 4], [6, 8]]


def train(step: Any, model: Any) -> list[Any]:
    losses = []
    for i in range(5):
        rng = np.random.default_rng(i)
        x = ad.tensor(rng.normal(size=(8, 4)).astype(np.float32))
        losses.append(step(x, ad.tensor(rng.integers(0, 3, 8))).item())
    return [*losses, *[p.detach().clone() for p in (*model.parameters(), *model.buffers())]]


def model_and_optimizer() -> tuple[Any, Any]:
    ad.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return model, ad.optim.AdamW(model.parameters(), lr=0.05)


def test_training_by_a_session_equals_eager() -> None:
    model, opt = model_and_optimizer()

    def eager(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    expected = train(eager, model)
    model, opt = model_and_optimizer()
    with ad.Graph() as g:
        x, y = g.placeholder((8, 4), name="x"), g.placeholder((8,), ad.int64, "y")
        with g.update("train"):
            loss = g.name(F.cross_entropy(model(x), y), "loss")
            opt.zero_grad()
            loss.backward()
            opt.step()
    assert all(p.grad is None for p in model.parameters())
    session = ad.Session(g)
    got = train(lambda x, y: session.run(["loss", "train"], {"x": x, "y": y})[0], model)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-7)


def test_executors_by_name() -> None:
    g, x, y = simple()
    assert {"interpret", "native", "triton"} <= {*ad.compiler.list_backends()}
    for name in ("interpret", "native"):  # Triton runs on GPUs; others may have been added
        assert ad.Session(g, executor=name).run(y, {x: [1.0, 2.0, 3.0]}).tolist() == [3, 5, 7]
    with pytest.raises(RuntimeError, match="no backend 'abacus'"):
        ad.Session(g, executor="abacus")


def test_training_by_native_code() -> None:
    losses = []
    for name in ("interpret", "native"):
        model, opt = model_and_optimizer()
        with ad.Graph() as g:
            x, y = g.placeholder((8, 4), name="x"), g.placeholder((8,), ad.int64, "y")
            with g.update("train") as step:
                loss = F.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
        session = ad.Session(g, executor=name)
        feeds = {"x": ad.linspace(-1, 1, 32).reshape(8, 4), "y": [0, 1, 2, 0, 1, 2, 0, 1]}
        losses.append([session.run([loss, step], feeds)[0].item() for _ in range(5)])
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert losses[1][-1] < losses[1][0]


def test_a_rate_the_host_changes() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    opt = ad.optim.SGD([w], lr=0.5)
    with ad.Graph() as g, g.update("train") as step:
        (w * 2).sum().backward()
        opt.step()
    assert isinstance(step, Update)
    session = ad.Session(g)
    session.run("train")
    assert w.item() == 0
    opt.param_groups[0]["lr"] = 0.25
    session.run(step)
    assert w.item() == -0.5


def test_draws_are_anew_at_each_run_and_follow_the_seed() -> None:
    with ad.Graph() as g:
        x = g.placeholder((4,), name="x")
        noisy, plain = x + ad.rand(4), x * 1
        dropped = F.dropout(x, 0.5)
    session = ad.Session(g)
    feeds = {x: [1.0, 2.0, 3.0, 4.0]}
    ad.manual_seed(3)
    first, second = session.run(noisy, feeds), session.run(noisy, feeds)
    assert not first.equal(second)
    ad.manual_seed(3)
    session.run(plain, feeds)  # draws nothing
    assert session.run(noisy, feeds).equal(first)
    ad.manual_seed(3)
    x = ad.tensor([1.0, 2.0, 3.0, 4.0])
    expected = x + ad.rand(4), F.dropout(x, 0.5)
    ad.manual_seed(3)
    got = session.run([noisy, dropped], feeds)
    assert got[0].equal(expected[0])
    assert got[1].equal(expected[1])


def test_a_graph_built_for_other_gradients() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    with ad.Graph() as g, g.update("step"):
        (w * 2).sum().backward()
        with ad.no_grad():
            w.sub_(w.grad)
    session = ad.Session(g)
    session.run("step")
    assert w.item() == -1
    w.grad = ad.ones(1)
    with pytest.raises(RuntimeError, match=r"built for a gradient of None, which has changed"):
        session.run("step")


# -- recorded modules ----------------------------------------------------------------------------


def test_to_graph() -> None:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = ad.randn(5, 3)
    graph = model.to_graph(x)
    assert graph.arguments == ["input"]
    assert set(graph.tensors) == set(dict(model.named_parameters()))
    assert graph.tensors["0.weight"] is model[0].weight
    assert graph(x).equal(model(x))
    assert graph(input=x * 2).equal(model(x * 2))
    with ad.no_grad():
        model[2].bias.add_(1)
    assert graph(x).equal(model(x))
    with pytest.raises(TypeError, match="takes 1 tensors"):
        graph(x, x)
    with pytest.raises(ValueError, match=r"'input' is float32\[5, 3\]"):
        graph(x[:2])


def test_to_graph_of_structures_and_statics() -> None:
    class Model(nn.Module):
        def forward(self, pair: Any, *, scale: float, mask: Any = None) -> Any:
            a, b = pair
            return {"sum": (a + b) * scale, "parts": [a, None], "mask": mask}

    a, b = ad.ones(2), ad.arange(2.0)
    graph = Model().to_graph((a, b), scale=3.0, mask=a > 0)
    assert graph.arguments == ["pair_0", "pair_1", "mask"]
    assert graph.results["sum"] == "output"
    assert graph.results["parts"] == ["pair_0", None]
    got = graph(b, b, ad.tensor([True, False]))
    assert got["sum"].tolist() == [0, 6]
    assert got["parts"][0].tolist() == [0, 1]
    assert got["parts"][1] is None
    assert got["mask"].tolist() == [True, False]


def test_to_graph_carries_out_effects() -> None:
    norm: Any = nn.BatchNorm1d(2)
    x = ad.arange(6.0).reshape(3, 2)
    graph = norm.to_graph(x)
    assert norm.num_batches_tracked.item() == 0
    expected: Any = nn.BatchNorm1d(2)
    for _ in range(2):
        assert graph(x).equal(expected(x))
    assert norm.running_mean.equal(expected.running_mean)
    assert norm.num_batches_tracked.item() == 2


def test_to_graph_in_evaluation_mode() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2)).eval()
    x = ad.randn(3, 2)
    graph = model.to_graph(x)
    assert not graph.effects
    assert graph(x).equal(model(x))


def test_extending_a_recorded_graph() -> None:
    model = nn.Linear(2, 1)
    graph = model.to_graph(ad.ones(4, 2))
    with graph:
        target = ad.placeholder((4, 1), name="target")
        loss = graph.name(F.mse_loss(graph["output"], target), "loss")
        (slope,) = ad.autograd.grad(loss, [graph["weight"]])
    feeds = {"input": ad.ones(4, 2), target: ad.zeros(4, 1)}
    got, by_weight = ad.Session(graph).run([loss, slope], feeds)
    expected = (model(ad.ones(4, 2)) ** 2).mean()
    assert got.item() == pytest.approx(expected.item())
    expected.backward()
    np.testing.assert_allclose(by_weight.numpy(), model.weight.grad.numpy(), rtol=1e-6)


def test_a_graph_without_results_cannot_be_called() -> None:
    g, _, y = simple()
    with pytest.raises(RuntimeError, match="set_results"):
        g([1.0, 2.0, 3.0])
    g.set_results({"y": y})
    assert g([1.0, 2.0, 3.0])["y"].tolist() == [3, 5, 7]


def test_nested_graphs_and_text() -> None:
    g, x, y = simple()
    assert "def graph(x):" in g.text()
    assert "y = ops.add(" in g.text()
    with g:  # open again
        z = y * x
    assert ad.Session(g).run(z, {x: [1.0, 2.0, 3.0]}).tolist() == [3, 10, 21]
    assert repr(g) == "<Graph (x: float32[3]), 0 variables, 3 nodes>"
