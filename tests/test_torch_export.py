"""Exported graphs and `make_fx`: the module itself is the oracle."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import export, nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.graphs.exporting import export as exported
from adjoint.fx.experimental.proxy_tensor import make_fx


class Block(nn.Module):
    """Normalised, with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.line(x).relu()) + x


class Tied(nn.Module):
    """A block called twice, and a weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.last = nn.Linear(4, 4)
        self.last.weight = self.first.line.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(self.second(self.first(x)))) * self.second.line.bias


class Sized(nn.Module):
    """Computes with its sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(6, 2)

    def forward(self, x: Tensor, y: Tensor, *, times: int = 2) -> Any:
        b = x.shape[0]
        flat = x.reshape(b, -1)
        return {
            "line": self.line(flat),
            "mean": flat.mean(0) + y.sum() / b * times,
            "halves": (flat[: b // 2], flat.std()),
            "none": None,
        }


def attention() -> nn.Module:
    """A layer of a transformer."""
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "line": (lambda: nn.Linear(4, 2), (3, 4)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)), (2, 2, 5, 5)),
    "attention": (attention, (2, 5, 8)),
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    "tied": (Tied, (3, 4)),
}


def same(a: Any, b: Any) -> None:
    """The same numbers in the same structure."""
    ad.testing.assert_close(a, b)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("training", [True, False])
def test_programs_do_what_modules_do(name: str, training: bool) -> None:
    make, shape = CASES[name]
    module = make().train(training)
    twin = copy.deepcopy(module)
    program = exported(module, (ad.randn(shape),))
    program.validate()
    for run in (program.module(), export.unflatten(program)):
        x = ad.randn(shape)
        same(run(x), twin(x))
        for (_, a), (_, b) in zip(module.named_buffers(), twin.named_buffers(), strict=True):
            same(a, b)


def test_gradients_reach_the_modules_own_parameters() -> None:
    module = Tied()
    twin, x = copy.deepcopy(module), ad.randn(3, 4)
    exported(module, (x,)).module()(x).square().sum().backward()
    twin(x).square().sum().backward()
    for a, b in zip(module.parameters(), twin.parameters(), strict=True):
        same(a.grad, b.grad)


def test_sizes_may_change_within_their_range() -> None:
    module = Sized()
    shapes = {"x": {0: export.Dim("b", max=9)}, "y": {0: export.Dim.AUTO}, "times": None}
    given = (ad.randn(4, 3, 2), ad.randn(4))
    program = exported(module, given, {"times": 3}, dynamic_shapes=shapes)
    file = io.BytesIO()
    export.save(program, file, extra_files={"note": "hello"})
    file.seek(0)
    notes: dict[str, Any] = {}
    loaded = export.load(file, extra_files=notes)
    assert notes == {"note": "hello"}
    assert program.range_constraints["b"].upper == 9
    for run in (program.module(), loaded.module(), export.unflatten(loaded)):
        for b, n in ((4, 4), (7, 3), (2, 9)):
            x, y = ad.randn(b, 3, 2), ad.randn(n)
            same(run(x, y, times=3), module(x, y, times=3))
        with pytest.raises(RuntimeError, match=r"x.size\(\)\[0\] is 12"):
            run(ad.randn(12, 3, 2), given[1], times=3)
        # PyTorch's guards raise AssertionError
        with pytest.raises(AssertionError, match="Guard failed: times is 2"):
            run(*given, times=2)
        with pytest.raises(ValueError, match="another structure"):
            run(*given)


def test_a_batch_of_one_is_taken_where_it_means_the_same() -> None:
    plain, sized = nn.Linear(3, 2), Broadcast()
    for module, takes in ((plain, True), (sized, False)):
        program = exported(
            module, (ad.randn(4, 3),), dynamic_shapes=({0: export.Dim("b")},)
        ).module()
        x = ad.randn(1, 3)
        if takes:
            same(program(x), module(x))
        else:
            with pytest.raises(RuntimeError, match="at least 2"):
                program(x)


class Broadcast(nn.Module):
    """Does something else with one row."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[0] == 1 else x + x.sum(0, keepdim=True)


class Refused(nn.Module):
    """Does what no graph can, by name."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.count = how, 0
        self.memory = ad.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "attribute":
            self.count += 1
        if self.how == "draw":
            return x + ad.rand(2)
        if self.how == "tensor":
            self.memory.add_(1)
        return x * 2


@pytest.mark.parametrize(
    ("how", "told"),
    [("attribute", "one call only"), ("draw", "random numbers"), ("tensor", "no buffer")],
)
def test_what_cannot_be_exported_is_told(how: str, told: str) -> None:
    module = Refused(how)
    with pytest.raises(export.ExportError, match=told):
        exported(module, (ad.zeros(2),))
    assert module.count == 0
    same(module.memory, ad.zeros(2))


class OfContainers(nn.Module):
    """Reads its tensors out of dicts and lists, by key, in turn and by spreading them."""

    def forward(self, batch: dict[str, Any], *, more: dict[str, Tensor]) -> dict[str, Tensor]:
        first, second = batch["pair"]
        total = sum(batch["list"], first * batch["x"].shape[0])
        return {"total": total, **{k: v + second for k, v in more.items()}, "last": batch.get("no")}


def test_sizes_of_tensors_in_dicts_and_lists_may_change() -> None:
    def given(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        x, y, z = (ad.randn(n, 3) for _ in range(3))
        return ({"x": x, "pair": (y, z), "list": [x * 2, z]},), {"more": {"a": y * 3, "b": x}}

    rows = {0: export.Dim("n", min=2, max=50)}
    shapes = {
        "batch": {"x": rows, "pair": (rows, rows), "list": [rows, rows]},
        "more": {"a": rows, "b": rows},
    }
    model = OfContainers()
    program = exported(model, *given(5), dynamic_shapes=shapes)
    for n in (2, 7):
        args, kwargs = given(n)
        ad.testing.assert_close(program.module()(*args, **kwargs), model(*args, **kwargs))


def test_a_tensor_given_twice_is_two_arguments() -> None:
    class Sum(nn.Module):
        def forward(self, d: dict[str, Tensor]) -> Tensor:
            return d["x"] * 2 + d["y"]

    x, rows = ad.ones(5, 4), {0: export.Dim("n", min=2, max=50)}
    program = exported(Sum(), ({"x": x, "y": x},), dynamic_shapes=({"x": rows, "y": rows},))
    found = program.module()({"x": ad.ones(7, 4), "y": ad.full((7, 4), 3.0)})
    ad.testing.assert_close(found, ad.full((7, 4), 5.0))


def test_a_fixed_size_cannot_be_dynamic() -> None:
    with pytest.raises(export.ExportError, match="Constraints violated"):
        exported(nn.Linear(3, 2), (ad.zeros(4, 3),), dynamic_shapes=({1: export.Dim("n")},))
    found = exported(nn.Linear(3, 2), (ad.zeros(4, 3),), dynamic_shapes=({1: export.Dim.AUTO},))
    assert not found.range_constraints


def test_a_damaged_file_is_refused() -> None:
    file = io.BytesIO()
    ad.save({"format": "adjoint exported program", "version": 1, "program": "{}"}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="damaged"):
        export.load(file)
    with pytest.raises(RuntimeError, match="Unable to call"):
        exported(nn.Linear(3, 2), (ad.zeros(4, 3),))(ad.zeros(4, 3))


def derivative(x: Tensor) -> dict[str, Any]:
    """A gradient, with a write on the way."""
    y = x.clone()
    y.add_(1)
    return {"grad": ad.autograd.grad((y.sin() * x).sum(), x)[0], "number": 3}


def test_make_fx_writes_down_what_a_function_does() -> None:
    x = ad.randn(3, requires_grad=True)
    traced = make_fx(derivative)(x)
    traced.graph.lint()
    same(traced(x), derivative(x))
    net = nn.Linear(3, 2)
    module = make_fx(net)(x)
    assert {id(p) for p in module.parameters()} == {id(p) for p in net.parameters()}
    same(module(x), net(x))

    def write(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    z, again = ad.ones(3), ad.ones(3)
    same(make_fx(write)(ad.zeros(3))(z), write(again))
    same(z, again)


VIEWS: dict[str, Callable[[], Tensor]] = {
    "a row": lambda: ad.arange(6.0).expand(1, -1),
    "rows": lambda: ad.arange(6.0).reshape(2, 3),
    "turned": lambda: ad.arange(6.0).reshape(3, 2).t(),
    "a turned square": lambda: ad.arange(9.0).reshape(3, 3).clone().t(),
    "turned thrice": lambda: ad.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "a copy of a turned square": lambda: ad.arange(9.0).reshape(3, 3).t().clone(),
    "pixels side by side": lambda: (
        ad.arange(16.0).reshape(2, 2, 2, 2).to(memory_format=ad.channels_last)
    ),
    "pixels side by side, turned": lambda: (
        ad.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=ad.channels_last).permute(3, 1, 0, 2)
    ),
}


class Seeing(nn.Module):
    """Reads a buffer that is a view of its memory, and writes into it."""

    def __init__(self, seen: Tensor, writes: bool) -> None:
        super().__init__()
        self.register_buffer("seen", seen)
        self.writes = writes

    def forward(self, x: Tensor) -> Tensor:
        if self.writes:
            self.seen.add_(x.sum())
        return self.seen * ad.arange(float(self.seen.numel())).reshape(self.seen.shape) + x


@pytest.mark.parametrize("name", sorted(VIEWS))
@pytest.mark.parametrize("writes", [False, True])
def test_buffers_that_are_views(name: str, writes: bool) -> None:
    model, x = Seeing(VIEWS[name](), writes), ad.tensor(2.0)
    given = copy.deepcopy(model)
    assert given.seen.tolist() == VIEWS[name]().tolist()
    program = export.export(given, (x,))
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    for made in (program.module(), export.load(file).module()):
        mine = copy.deepcopy(model)
        for value in (x, x * 3):
            assert made(value).tolist() == mine(value).tolist()
        assert made.state_dict()["seen"].tolist() == mine.seen.tolist()


def test_part_of_a_larger_tensor() -> None:
    pixels = ad.arange(16.0).reshape(2, 2, 2, 2).to(memory_format=ad.channels_last)
    halves = copy.deepcopy(pixels.permute(0, 2, 3, 1).view(ad.float16))
    for seen in (ad.arange(6.0)[1:], ad.arange(3.0).expand(2, 3), halves):
        with pytest.raises(export.ExportError, match="'seen' is part of a larger tensor"):
            export.export(Seeing(seen, False), (ad.tensor(1.0),))
