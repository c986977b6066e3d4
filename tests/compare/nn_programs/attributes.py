"""Registration, attributes, containers, printing."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

from tests.compare.nn_programs import data, fill, message, program


def sample(t: Any) -> Any:
    nn = t.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.scale = nn.Parameter(t.ones(4))
            self.register_buffer("mean", t.zeros(4))
            self.register_buffer("cache", t.zeros(2), persistent=False)
            self.register_parameter("absent", None)
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Identity()])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2, bias=False)})
            self.tied = self.first

        def forward(self, x: Any) -> Any:
            x = self.first(x) * self.scale - self.mean
            for layer in self.layers:
                x = layer(x).tanh()
            return self.heads["a"](x) + self.heads["b"](x)

    return fill(t, Net())


@program
def names(t: Any) -> Any:
    net = sample(t)
    return [
        [n for n, _ in net.named_parameters()],
        [n for n, _ in net.named_parameters(remove_duplicate=False)],
        [n for n, _ in net.named_parameters(prefix="p", recurse=False)],
        [n for n, _ in net.named_buffers()],
        [n for n, _ in net.named_modules()],
        [n for n, _ in net.named_modules(prefix="m", remove_duplicate=False)],
        [n for n, _ in net.named_children()],
        len(list(net.parameters())),
        len(list(net.modules())),
        list(net.state_dict()),
        list(net.state_dict(prefix="x.")),
        {k: dict(v) for k, v in net.state_dict()._metadata.items()},
    ]


@program
def printing(t: Any) -> Any:
    nn = t.nn
    odd = nn.Sequential(OrderedDict([("in", nn.Linear(1, 2)), ("out", nn.Sequential())]))
    lists = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.Identity(), nn.Linear(1, 1), odd])
    return [
        repr(sample(t)),
        repr(odd),
        repr(lists),
        repr(nn.ModuleList()),
        repr(nn.ModuleDict()),
        repr(nn.Module()),
        repr(nn.ParameterList([t.ones(2, 3), 5, nn.Parameter(t.ones(1))])),
        repr(nn.ParameterDict({"a": t.ones(2), "b": "text"})),
        repr(nn.Parameter(t.ones(2))),
        repr(nn.Parameter(t.ones(2), requires_grad=False)),
        repr(nn.LazyLinear(3)),
        repr(nn.Bilinear(2, 3, 4)),
    ]


@program
def forward_and_gradients(t: Any) -> Any:
    net = sample(t)
    net(data(t, 5, 3)).square().sum().backward()
    return [p.grad for p in net.parameters()]


@program
def registration_errors(t: Any) -> Any:
    nn = t.nn

    class Early(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, what: Any) -> None:
            self.what = what
            super().__init__()

    m = nn.Linear(2, 2)
    return [
        message(lambda: Early(nn.Parameter(t.ones(1)))),
        message(lambda: Early(nn.Identity())),
        message(lambda: Early(3)),
        message(lambda: setattr(m, "weight", 3)),
        message(lambda: setattr(m, "weight", t.ones(2, 2))),
        message(lambda: setattr(nn.Sequential(m), "0", 3)),
        message(lambda: m.register_parameter("a.b", nn.Parameter(t.ones(1)))),
        message(lambda: m.register_parameter("", nn.Parameter(t.ones(1)))),
        message(lambda: m.register_parameter("forward", nn.Parameter(t.ones(1)))),
        message(lambda: m.register_parameter(3, nn.Parameter(t.ones(1)))),
        message(lambda: m.register_parameter("q", 3)),
        message(lambda: m.register_parameter("q", nn.Parameter(t.ones(1)) * 2)),
        message(lambda: m.register_buffer("a.b", t.ones(1))),
        message(lambda: m.register_buffer("", t.ones(1))),
        message(lambda: m.register_buffer("weight", t.ones(1))),
        message(lambda: m.register_buffer("q", 3)),
        message(lambda: m.add_module("a.b", m)),
        message(lambda: m.add_module("", m)),
        message(lambda: m.add_module("weight", m)),
        message(lambda: m.add_module("q", 3)),
        message(lambda: m.no_such),
        message(lambda: delattr(m, "no_such")),
        message(lambda: nn.Module()(1)),
        message(lambda: nn.Module(3)),
        message(lambda: nn.Module(a=3)),
        message(lambda: nn.Linear(2, 2).train(3)),
        message(lambda: m.to(t.int64)),
    ]


@program
def buffer_assignment(t: Any) -> Any:
    nn = t.nn
    m = nn.Module()
    m.a = nn.Buffer(t.ones(1))
    m.b = nn.Buffer(t.ones(1), persistent=False)
    m.register_buffer("c", None)
    m.c = t.ones(2)
    m.d = t.ones(3)
    before = (list(m.state_dict()), [n for n, _ in m.named_buffers()])
    m.a = None
    m.b = t.zeros(1)
    m.p = nn.Parameter(t.ones(1))
    m.p = None
    m.d = nn.Parameter(t.ones(1))
    errors = message(lambda: setattr(m, "c", 3))
    del m.c
    return [before, list(m.state_dict()), [n for n, _ in m.named_buffers()], errors,
            list(m._parameters), isinstance(nn.Buffer(t.ones(1)), nn.Buffer)]  # fmt: skip


@program
def paths(t: Any) -> Any:
    net = sample(t)
    nn = t.nn
    net.set_submodule("layers.1", nn.Identity())
    return [
        repr(net.get_submodule("layers.1")),
        repr(net.get_submodule("heads.a")),
        net.get_parameter("heads.a.bias"),
        net.get_buffer("mean"),
        message(lambda: net.get_submodule("layers.9")),
        message(lambda: net.get_submodule("scale")),
        message(lambda: net.get_parameter("mean")),
        message(lambda: net.get_parameter("nothing")),
        message(lambda: net.get_buffer("scale")),
        message(lambda: net.set_submodule("", nn.Identity())),
        message(lambda: net.set_submodule("absent_one", nn.Identity(), strict=True)),
        message(lambda: net.set_submodule("layers.1", 3)),
    ]


@program
def sequential_edits(t: Any) -> Any:
    nn = t.nn
    s = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 2), nn.Linear(2, 3))
    s.append(nn.Identity())
    s.insert(1, nn.Linear(1, 1))
    del s[0]
    s[0] = nn.Identity()
    popped = s.pop(-1)
    s.extend(nn.Sequential(nn.Linear(3, 4)))
    both = s + nn.Sequential(nn.Identity())
    twice = nn.Sequential(nn.Identity()) * 2
    s += nn.Sequential(nn.Identity())
    return [
        repr(s), repr(popped), repr(both), repr(twice), repr(s[1:3]), repr(s[-1]), len(s),
        message(lambda: s[9]), message(lambda: s + 3), message(lambda: s * "a"),
        message(lambda: s * 0), message(lambda: s.insert(40, nn.Identity())),
        message(lambda: nn.Sequential(3)), message(lambda: s.append(3)),
    ]  # fmt: skip


@program
def list_and_dict_edits(t: Any) -> Any:
    nn = t.nn
    m = nn.ModuleList([nn.Linear(1, 1)])
    m.extend([nn.Identity(), nn.Linear(1, 2)])
    m.insert(1, nn.Linear(5, 5))
    del m[0]
    m[1] = nn.Linear(7, 7)
    more = m.__add__([nn.Identity()])
    d = nn.ModuleDict([["x", nn.Linear(1, 1)]])
    d.update({"y": nn.Identity()})
    d["z"] = nn.Identity()
    gone = d.pop("x")
    return [
        repr(m), repr(more), repr(m[:2]), repr(m.pop(0)), repr(d), repr(gone), list(d),
        "y" in d, len(d), [k for k, _ in d.items()],
        message(lambda: m[8]), message(lambda: m.extend(3)), message(lambda: m.append(3)),
        message(lambda: d.update(3)), message(lambda: d["q"]), message(lambda: m(1)),
        message(lambda: nn.ModuleDict([[1, 2, 3]])),
    ]  # fmt: skip


@program
def parameter_containers(t: Any) -> Any:
    nn = t.nn
    p = nn.ParameterList([t.ones(2), t.ones(3)])
    p.append(t.ones(4))
    p[0] = t.zeros(2)
    p += [t.ones(1)]
    d = nn.ParameterDict({"a": t.ones(2), "n": 5})
    d["b"] = nn.Parameter(t.ones(1))
    d.setdefault("c", t.ones(1))
    e = d | {"z": t.ones(1)}
    return [
        [n for n, _ in p.named_parameters()], len(p), p[-1], p[0], repr(p[1:]),
        list(d.keys()), list(e.keys()), d.get("missing", 1), d.pop("a"), list(d.state_dict()),
        d.popitem()[0], list(reversed(d)), "b" in d,
        message(lambda: p[9]), message(lambda: d["q"]), message(lambda: p.extend(3)),
        message(lambda: p()), message(lambda: d[3]),
        list(nn.ParameterDict().fromkeys(["u", "v"], 1).items()),
    ]  # fmt: skip


@program
def parameters(t: Any) -> Any:
    p = t.nn.Parameter(t.ones(2, 2))
    q = copy.deepcopy(p)
    r = pickle.loads(pickle.dumps(p))
    shared = t.ones(2)
    s = t.nn.Parameter(shared)
    with t.no_grad():
        shared.add_(1)
    return [
        isinstance(p + 1, t.nn.Parameter), isinstance(p.data, t.nn.Parameter),
        isinstance(q, t.nn.Parameter), isinstance(r, t.nn.Parameter), q.requires_grad,
        r.requires_grad, p.is_leaf, s, t.nn.Parameter(s * 2).is_leaf,
        t.nn.Parameter().shape[0], isinstance(p.detach(), t.nn.Parameter),
        t.nn.Parameter(t.ones(2, dtype=t.int64), requires_grad=False).dtype == t.int64,
        message(lambda: t.nn.Parameter(t.ones(2, dtype=t.int64)))[:12],
    ]  # fmt: skip


@program
def conversions(t: Any) -> Any:
    net = sample(t)
    weight = net.first.weight
    net(data(t, 1, 3)).sum().backward()
    net.register_buffer("count", t.zeros((), dtype=t.int64))
    net.float()
    seen = [str(p.dtype).split(".")[1] for p in [*net.parameters(), *net.buffers()]]
    return [
        weight is net.first.weight, str(weight.grad.dtype).split(".")[1], seen,
        str(net.half().scale.dtype).split(".")[1], str(net.bfloat16().mean.dtype).split(".")[1],
        str(net.to(t.float64).count.dtype).split(".")[1],
        str(net.to("cpu", t.float32).scale.dtype).split(".")[1],
        str(net.to(t.ones(1, dtype=t.float64)).scale.dtype).split(".")[1],
        str(net.type(t.float32).count.dtype).split(".")[1],
    ]  # fmt: skip


@program
def flags(t: Any) -> Any:
    net = sample(t)
    net.eval()
    first = [m.training for m in net.modules()]
    net.train()
    net.layers[0].eval()
    net.requires_grad_(False)
    net.heads.requires_grad_()
    net(data(t, 1, 3)).sum().backward()
    had = [p.grad is None for p in net.parameters()]
    net.zero_grad(set_to_none=False)
    zeros = [p.grad for p in net.heads.parameters()]
    net.zero_grad()
    order: list[str] = []
    net.apply(lambda m: order.append(type(m).__name__))
    return [first, [m.training for m in net.modules()], had, zeros,
            [p.grad is None for p in net.parameters()], order]  # fmt: skip


@program
def copies(t: Any) -> Any:
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    fill(t, net)
    twin = copy.deepcopy(net)
    loaded = pickle.loads(pickle.dumps(net))
    shallow = copy.copy(net)
    with t.no_grad():
        net[0].weight.zero_()
    return [
        twin[0].weight is twin[1].weight, loaded[0].weight is loaded[1].weight,
        twin[0].weight, loaded[0].weight, shallow[0] is net[0], repr(loaded),
    ]  # fmt: skip


@program
def lazy(t: Any) -> Any:
    nn = t.nn
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyLinear(2))
    before = repr(net), net[0].has_uninitialized_params(), list(net.state_dict())
    errors = [message(lambda: net[0].weight.shape)[:12], message(lambda: net[0].weight + 1)[:10]]
    out = net(t.ones(3, 5))
    other = nn.LazyLinear(2)
    other.load_state_dict(nn.Linear(7, 2).state_dict())
    other(t.ones(1, 7))
    return [before, errors, tuple(out.shape), repr(net), repr(other),
            type(net[0]).__name__, isinstance(net[0].weight, nn.Parameter),
            message(lambda: nn.Linear(1, 1).load_state_dict(nn.LazyLinear(1).state_dict()))[:30],
            [p.requires_grad for p in net.parameters()]]  # fmt: skip
