"""Graphs with sizes that each run says: placeholders, recorded modules, passes, files."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.interpreter import evaluate
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.graph.sizes.resizing import graph_at
from adjoint.engine.graph.text import load

Fn = Callable[[Any], Any]


def rows(n: int, *rest: int, seed: int = 0) -> ad.Tensor:
    drawn = np.random.default_rng((seed, n)).standard_normal((n, *rest))
    return ad.tensor(drawn.astype(np.float32))


def same(found: Any, wanted: Any) -> None:
    found, wanted = flatten(found)[0], flatten(wanted)[0]
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-5)


def middle(x: Any) -> Any:
    return x[x.shape[0] // 2 :]


def padded(x: Any) -> Any:
    return ad.cat([x, ad.zeros(x.shape[0] + 1, x.shape[1])])


def centred(x: Any) -> Any:
    y = x.clone()
    y[:, 0] = 0
    y[:, 1].add_(x.shape[0])
    return y - y.sum(0) / x.size(0)


def pairs(x: Any) -> Any:
    return (x[:, None] - x[None]).square().sum(-1).sqrt().sum(1)


def convolved(x: Any) -> Any:
    return F.max_pool1d(F.conv1d(x.t()[None], ad.ones(2, 4, 1)), 1)


def branch(x: Any) -> Any:
    return x * 2 if x.shape[0] > 3 else x - 1


PROGRAMS: dict[str, tuple[Fn, tuple[int, ...]]] = {  # with sizes that they hold for
    "elementwise": (lambda x: (x * 2 + 1).tanh(), (1, 2, 7, 64)),
    "sum": (lambda x: x.sum(0), (1, 2, 7)),
    "mean": (lambda x: x.mean(), (1, 2, 7)),
    "by size": (lambda x: x.sum(0) / x.shape[0] + x.numel(), (1, 2, 7)),
    "softmax": (lambda x: x.softmax(0), (1, 2, 7)),
    "flat": (lambda x: x.reshape(-1), (1, 2, 7)),
    "view": (lambda x: x.view(x.shape[0], 2, 2).transpose(1, 2), (1, 2, 7)),
    "halves": (lambda x: x.reshape(-1, 2, 4), (4, 8, 30)),
    "broadcast": (lambda x: x + ad.arange(4.0), (1, 2, 7)),
    "product": (lambda x: x @ x.t(), (2, 3, 7)),
    "linear": (lambda x: F.linear(x, ad.ones(3, 4)), (1, 2, 7)),
    "order": (lambda x: x.sort(0).values, (2, 7)),
    "counted": (lambda x: ad.arange(x.shape[0]) * x[:, 0], (2, 7)),
    "norm": (lambda x: F.layer_norm(x, (4,)), (1, 2, 7)),
    "entropy": (lambda x: F.cross_entropy(x, x.argmax(1)), (1, 2, 7)),
    "cumulative": (lambda x: x.cumsum(0), (1, 2, 7)),
    "middle": (middle, (2, 3, 8)),
    "padded": (padded, (2, 7)),
    "centred": (centred, (2, 7)),
    "pairs": (pairs, (2, 7)),
    "convolved": (convolved, (2, 7)),
    "branch": (branch, (20, 50)),
}


@pytest.mark.parametrize("executor", ["interpreter", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hand_made_graph_runs_at_many_sizes(name: str, executor: str) -> None:
    fn, sizes = PROGRAMS[name]
    with ad.Graph() as g:
        x = ad.placeholder((None, 4), name="x")
        g.set_results(fn(x))
    session = ad.Session(g) if executor == "interpreter" else ad.Session(g, executor=executor)
    for n in sizes:
        given = rows(n, 4)
        same(session.run(g.results, {"x": given}), fn(given))


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_and_text_hold_at_every_size(name: str) -> None:
    fn, sizes = PROGRAMS[name]
    with ad.Graph() as g:
        x = ad.placeholder(("rows", 4), name="x")
        g.set_results(fn(x))
    passed = run_passes(g.shown(), verify=True)
    again = load(g.text())
    for n in sizes:
        given = rows(n, 4)
        known = g.sizes.complete({"s0": n})
        operands = [given, *(s.given(()) for s in g.trace.sources[1:])]
        operands = [x if isinstance(x, ad.Tensor) else ad.tensor(x) for x in operands]
        wanted = list(flatten(fn(given))[0])
        same(evaluate(graph_at(passed, known), operands), wanted)
        same(list(again(*operands)), wanted)


def test_one_name_is_one_size() -> None:
    with ad.Graph() as g:
        x, y = ad.placeholder(("b", 3), name="x"), ad.placeholder(("b", "k"), name="y")
        g.set_results(x.t() @ y)
    assert repr(g) == "<Graph (x: float32[b, 3], y: float32[b, k]), 0 variables, 2 nodes>"
    for b, k in itertools.product((1, 2, 5), (1, 4)):
        same(g(rows(b, 3), rows(b, k, seed=1)), rows(b, 3).t() @ rows(b, k, seed=1))
    with pytest.raises(ValueError, match=r"'y' is float32\[b, k\], received float32\[4, 2\]"):
        g(rows(5, 3), rows(4, 2))
    with ad.Graph(), pytest.raises(ad.ShapeError if hasattr(ad, "ShapeError") else RuntimeError):
        _ = ad.placeholder((None, 3)) * ad.placeholder((None, 3))


def test_training_at_many_batch_sizes() -> None:
    ad.manual_seed(0)
    model, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    other = ad.optim.SGD(twin.parameters(), lr=0.1)
    with ad.Graph() as g:
        x, y = ad.placeholder(("b", 3), name="x"), ad.placeholder(("b", 2), name="y")
        with g.update("train"):
            loss = g.name(F.mse_loss(model(x), y), "loss")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    session = ad.Session(g, executor="native")
    for n in (4, 1, 9, 4):
        given, target = rows(n, 3), rows(n, 2, seed=1)
        found = session.run(["loss", "train"], {"x": given, "y": target})[0]
        other.zero_grad()
        wanted = F.mse_loss(twin(given), target)
        wanted.backward()
        other.step()
        same(found, wanted)
        same(list(model.parameters()), list(twin.parameters()))


def test_a_gradient_at_many_sizes() -> None:
    with ad.Graph() as g:
        x = g.placeholder(("b", 3), name="x", requires_grad=True)
        w = g.variable([1.0, 2.0, 3.0], name="w")
        loss = ((x * w).softmax(0) ** 2).mean()
        g.set_results(ad.autograd.grad(loss, [x, w]))
    for n in (2, 5, 11):
        given = rows(n, 3).requires_grad_()
        weight = w.detach().clone().requires_grad_()
        loss = ((given * weight).softmax(0) ** 2).mean()
        same(g(given.detach()), list(ad.autograd.grad(loss, [given, weight])))


def test_draws_at_many_sizes() -> None:
    with ad.Graph() as g:
        x = g.placeholder(("b", 3), name="x")
        g.set_results(F.dropout(x, 0.5) + ad.rand(x.shape[0], 1))
    for n in (2, 5):
        ad.manual_seed(n)
        found = [g(ad.ones(n, 3)), g(ad.ones(n, 3))]
        ad.manual_seed(n)
        wanted = [F.dropout(ad.ones(n, 3), 0.5) + ad.rand(n, 1) for _ in range(2)]
        same(found, wanted)


USES: dict[str, Callable[[Any], Any]] = {
    "range": range,
    "int": int,
    "float": float,
    "hash": hash,
    "set": lambda n: n in {8, 16},
    "list": lambda n: [0] * n,
    "item": lambda n: [1, 2, 3][n],
    "array": np.zeros,
    "round": round,
    "number": lambda n: ad.zeros(2)[n.real],
    "bits": lambda n: n & 1,
    "text": lambda n: "x" * n,
    "length": lambda n: bytes(n),
    "float comparison": lambda n: n > 0.5,
    "quotient": lambda n: n / 2 > 3,
}


@pytest.mark.parametrize("name", USES)
def test_a_size_is_no_number_while_a_graph_is_built(name: str) -> None:
    with ad.Graph():
        x = ad.placeholder(("b", 3))
        with pytest.raises((TypeError, AttributeError)):
            USES[name](x.shape[0])


def test_what_a_size_is() -> None:
    with ad.Graph():
        x = ad.placeholder(("b", 3))
        n = x.shape[0]
        assert repr((n, n + 1, 2 * n - 3, n * n // 2)) == "(b, b + 1, 2*b - 3, ((b*b) // (2)))"
        assert str(x.shape) == "adjoint.Size([b, 3])"
        assert repr(x.numel()) == "3*b"
        assert n == x.size(0)
        assert n > 1
        assert n != 1
        assert n != 0
        assert bool(n)
        assert divmod(n, 1)[1] == 0
        with pytest.raises(TypeError, match="b is an unknown size"):
            len(x)
    with ad.Graph(), pytest.raises(ValueError, match="another graph"):
        ad.placeholder(("b",)) + ad.zeros(n)
    with ad.Graph(), pytest.raises(ValueError, match="another graph"):
        ad.placeholder(("b",)).shape[0] + n  # type: ignore[operator]
    assert type(ad.ones(2).shape[0]) is int
    assert len(ad.ones(2)) == 2


BAKED: dict[str, Fn] = {
    "unbind": lambda x: x.unbind(0)[0],
    "iteration": lambda x: next(iter(x)),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=1.3, mode="bilinear"),
    "a tensor of it": lambda x: x + ad.tensor([x.shape[0]]),
}


@pytest.mark.parametrize("name", BAKED)
def test_a_function_that_records_by_size_is_refused(name: str) -> None:
    with ad.Graph() as g:
        x = ad.placeholder((None, 4), name="x")
        before = len(g.body)
        with pytest.raises((ValueError, TypeError), match="size"):
            BAKED[name](x)
        assert len(g.body) <= before + 1  # what came before the call that was refused
        g.set_results(x * 2)
    same(g(rows(5, 4)), rows(5, 4) * 2)


REFUSED: dict[str, tuple[Fn, int, str]] = {
    "odd": (lambda x: x.reshape(-1, 2, 4), 7, "its operations went by"),
    "empty": (lambda x: x * 2, 0, "x_0 is 0"),
    "branch": (branch, 3, "checked at sizes from 4"),
    "single": (lambda x: x.squeeze(0), 1, "where x_0 is 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_a_graph_does_not_hold_for(name: str) -> None:
    fn, n, match = REFUSED[name]
    with ad.Graph() as g:
        x = ad.placeholder((None, 4), name="x")
        g.set_results(fn(x))
    with pytest.raises(ValueError, match=match):
        g(rows(n, 4))


def test_a_size_that_nothing_says() -> None:
    with ad.Graph() as g:
        x, y = ad.placeholder((None, 4), name="x"), ad.placeholder((None,), name="y")
        g.name(x * 2, "twice")
        g.name(ad.zeros(y.shape[0]) + 1, "ones")
    session = ad.Session(g)
    same(session.run("twice", {"x": rows(3, 4)}), rows(3, 4) * 2)
    with pytest.raises(ValueError, match="'y_0' is needed, and nothing that was fed says"):
        session.run("ones", {"x": rows(3, 4)})
    same(session.run("ones", {"y": ad.ones(3)}), ad.ones(3))


def test_what_may_stand_for_a_size() -> None:
    for wrong in (-1, 2.0, "not a name", (1, 2)):
        with ad.Graph(), pytest.raises(ValueError, match="placeholder"):
            ad.placeholder((wrong, 3))
    with ad.Graph() as g:
        ad.placeholder(("b", None), name="x")
        for clash in ("b", "x_1"):
            with pytest.raises(ValueError, match="already something called"):
                ad.placeholder((2,), name=clash)
        for clash in ("x", "v1", "y"):
            with pytest.raises(ValueError, match="which a tensor is called"):
                ad.placeholder((clash,), name="y")
    assert list(g.sizes.labels.values()) == ["b", "x_1"]


# -- recorded -----------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3 * 16, 5)

    def forward(self, x: Any, scale: Any = None) -> Any:
        h = F.relu(self.norm(self.conv(x)))
        h = self.head(F.max_pool2d(h, 2).reshape(x.shape[0], -1)) / x.shape[0]
        return h if scale is None else h * scale


def marked(x: ad.Tensor, *dims: int) -> ad.Tensor:
    ad.mark_dynamic(x, dims)
    return x


@pytest.mark.parametrize("executor", ["interpreter", "native"])
@pytest.mark.parametrize("training", [False, True])
def test_a_module_at_many_batch_sizes(training: bool, executor: str) -> None:
    ad.manual_seed(0)
    net = Net().train(training)
    graph = net.to_graph(marked(rows(4, 1, 8, 8), 0), marked(rows(4, 5), 0))
    assert str(graph).count("x_0 = x.shape[0]") == 1
    session = (
        ad.Session(graph) if executor == "interpreter" else ad.Session(graph, executor=executor)
    )
    before = {k: v.clone() for k, v in net.state_dict().items()}
    for n in (2, 4, 7):
        given = rows(n, 1, 8, 8), rows(n, 5)
        net.load_state_dict(before)
        wanted = net(*given)
        state = {k: v.clone() for k, v in net.state_dict().items()}
        net.load_state_dict(before)
        fetched = [graph.results, *graph.effects]
        same(session.run(fetched, dict(zip(("x", "scale"), given, strict=True)))[0], wanted)
        same(list(net.state_dict().values()), list(state.values()))


MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3), (5, 6, 4), (0, 1)),
    "lstm": (lambda: nn.LSTM(4, 3), (5, 2, 4), (0, 1)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), (5, 2, 4), (0, 1)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True),
        (3, 5, 4),
        (0, 1),
    ),
    "convolution": (lambda: nn.Conv1d(4, 2, 3, stride=2), (3, 4, 9), (0, 2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_unknown_sizes(name: str) -> None:
    make, shape, dims = MODULES[name]
    ad.manual_seed(0)
    module = make()
    graph = module.to_graph(marked(rows(*shape), *dims))
    for sizes in itertools.product((2, 6), (5, 11)):
        at = dict(zip(dims, sizes, strict=True))
        given = rows(*[at.get(d, n) for d, n in enumerate(shape)])
        same(graph(given), module(given))


class Loops(nn.Module):
    def forward(self, x: Any) -> Any:
        for i in range(x.shape[0]):
            x = x + i
        return x


class Asks(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] > 10 else x * 3


def test_recorded_code_that_goes_by_sizes() -> None:
    with pytest.raises(ValueError, match=r"an unknown size is fixed by the call: x_0 == 3"):
        Loops().to_graph(marked(rows(3, 2), 0))
    graph = Asks().to_graph(marked(rows(20, 2), 0))
    same(graph(rows(30, 2)), rows(30, 2) * 2)
    with pytest.raises(ValueError, match="cannot run at these sizes"):
        graph(rows(10, 2))


def test_files_keep_unknown_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with ad.Graph() as g:
        x = ad.placeholder(("b", "c"), name="x")
        w = g.variable([2.0], name="w")
        y = F.dropout(x.reshape(-1, 2, x.shape[1]).mean(1) * w / x.shape[0], 0.5)
        g.set_results(g.name(y, "y"))
    g.save(path)
    loaded = ad.Graph.load(path)
    assert repr(loaded) == repr(g)
    assert loaded.text() == g.text()
    for b, c in ((4, 3), (8, 5)):
        given = rows(b, c)
        ad.manual_seed(1)
        wanted = g(given)
        ad.manual_seed(1)
        same(loaded(given), wanted)
    with pytest.raises(ValueError, match="its operations went by"):
        loaded(rows(7, 3))
    with loaded:
        more = loaded["y"].sum(0) * loaded["x"].shape[1]
        loaded.name(more, "more")
    assert ad.Session(loaded).run("more", {"x": rows(4, 6)}).shape == (6,)
