"""DTensors: every function on parts against the same function on whole tensors."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.communication import kernels
from adjoint.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    zeros,
)
from adjoint.distributed.tensor import randn as drandn
from adjoint.distributed.tensor.placement_types import _StridedShard
from tests.ranks.checks import run, same

F = ad.nn.functional
A, B, C = (ad.arange(n).double().mul(0.37).cos().float() for n in (35, 35, 42))
X, Y, W = A.view(5, 7), (B + 1.5).view(5, 7).exp(), C.view(7, 6)
BIAS, LAST = ad.arange(6).float(), ad.arange(7).float() + 1
PLACES: list[Placement] = [Replicate(), Shard(0), Shard(1)]

ONE: dict[str, Callable[..., Any]] = {
    "relu": ad.relu, "scaled": lambda x: x * 2 + 1, "from one": lambda x: 1 - x,
    "sum": ad.sum, "rows": lambda x: x.sum(0), "columns": lambda x: x.sum(1, keepdim=True),
    "mean": lambda x: x.mean(), "mean of rows": lambda x: x.mean(dim=-1),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: F.log_softmax(x, dim=0),
    "t": lambda x: x.t(), "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0),
    "norm": lambda x: x.norm(), "max": lambda x: x.max(), "max of rows": lambda x: x.max(1).values,
    "view": lambda x: x.reshape(7, 5), "flatten": lambda x: x.flatten(), "index": lambda x: x[1:3],
    "gelu": F.gelu, "where": lambda x: ad.where(x > 0, x, x * 0.1), "chunk": lambda x: x.chunk(2, 1)[1],
    "layer_norm": lambda x: F.layer_norm(x, (7,)), "std": lambda x: x.std(), "cat": lambda x: ad.cat([x, x]),
    "clamp": lambda x: x.clamp(-0.5, 0.5), "masked": lambda x: x.masked_fill(x > 0.5, 0.0),
    "unit rows": lambda x: F.normalize(x, 2, 1), "unit columns": lambda x: F.normalize(x, 1, 0),
    "triangle": lambda x: x.tril(), "cumsum": lambda x: x.cumsum(1), "partial": lambda x: x.sum(0).relu() * 3,
}  # fmt: skip
TWO: dict[str, tuple[Callable[..., Any], ad.Tensor, ad.Tensor]] = {
    "add": (ad.add, X, Y), "div": (ad.div, X, Y), "broadcast": (ad.mul, X, LAST),
    "column": (lambda x, y: x * y.sum(1, keepdim=True), X, Y), "matmul": (ad.matmul, X, W),
    "linear": (F.linear, X, W.t().contiguous()), "where": (lambda x, y: ad.where(x > y, x, y), X, Y),
    "mse": (F.mse_loss, X, Y), "sums": (lambda x, y: x.sum(0) + y.sum(0), X, Y),
    "rmatmul": (lambda x, w: (x @ w).relu() @ w.t(), X, W), "lerp": (lambda x, y: x.lerp(y, 0.3), X, Y),
}  # fmt: skip


def close(x: ad.Tensor, y: ad.Tensor, what: str) -> None:
    try:
        same(x, y, 1e-5)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None


def mesh() -> Any:
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def compare(name: str, function: Callable[..., Any], wholes: list[ad.Tensor], places: Any) -> None:
    plain = [w.clone().requires_grad_() for w in wholes]
    parts = [
        distribute_tensor(w, mesh(), [p]).requires_grad_()
        for w, p in zip(wholes, places, strict=True)
    ]
    wanted, got = function(*plain), function(*parts)
    assert isinstance(got, DTensor), f"{name} {places}: {type(got)}"
    assert got.shape == wanted.shape, f"{name} {places}: {got.shape}"
    close(got.full_tensor(), wanted, f"{name} {places}")
    weight = ad.arange(wanted.numel()).float().sin().view(wanted.shape)
    (wanted * weight).sum().backward()
    (got * distribute_tensor(weight, mesh(), [Replicate()])).sum().backward()
    for a, b in zip(parts, plain, strict=True):
        assert b.grad is None or a.grad.placements == a.placements
        if b.grad is not None:
            close(a.grad.full_tensor(), b.grad, f"gradient of {name} {places}")


def check_functions_of_one(rank: int, size: int) -> None:
    for name, function in ONE.items():
        for place in PLACES:
            compare(name, function, [X], [place])


def check_functions_of_two(rank: int, size: int) -> None:
    for name, (function, x, y) in TWO.items():
        for a in PLACES:
            for b in PLACES[: 1 + y.ndim]:
                compare(name, function, [x, y], [a, b])


def check_linear_with_bias(rank: int, size: int) -> None:
    for a in PLACES:
        for b in PLACES:
            for c in PLACES[:2]:
                compare("linear", F.linear, [X, W.t().contiguous(), BIAS], [a, b, c])


def check_embedding(rank: int, size: int) -> None:
    index = ad.tensor([[0, 4, 2], [3, 3, 1]])
    for place in PLACES:
        compare("embedding", lambda w: F.embedding(index, w), [X], [place])
        for row in (0, 2, -1):  # one that gets no gradient
            compare(f"padding {row}", lambda w, row=row: F.embedding(index, w, row), [X], [place])
            net = lambda w, row=row: F.embedding(index, w, padding_idx=row) * 2
            compare(f"padding_idx {row}", net, [X], [place])
        with pytest.raises(IndexError, match="out of bounds"):
            F.embedding(index + 1, distribute_tensor(X, mesh(), [place])).full_tensor()


def check_each_call_is_one_message(rank: int, size: int) -> None:
    """However often a small one is met on the tape, and whatever else a process has done."""
    sent: list[str] = []
    begin = kernels._begin

    def counted(way: Any, what: str, x: Any, start: Any) -> Any:
        sent.append(what)
        return begin(way, what, x, start)

    for k in range(300 if rank == 0 else 0):  # it alone has programs for what is small
        (ad.ones(3).requires_grad_() * k).tanh().sum().backward()
    kernels._begin = counted
    try:
        for _ in range(40):
            sent.clear()
            for place in (Shard(0), Shard(1)):  # of which processes have different shapes
                x = distribute_tensor(X, mesh(), [place]).requires_grad_()
                (x.sum(0).redistribute(placements=[Replicate()]) * LAST[0]).sum().backward()
                close(x.grad.full_tensor(), ad.ones(5, 7), "gradient")
            kinds = [what.split()[0] for what in sent]
            assert kinds == ["all_reduce", *["all_gather"] * 3], sent
    finally:
        kernels._begin = begin


def check_a_followed_number(rank: int, size: int) -> None:
    """A plain tensor of one number beside divided ones gets the whole gradient."""
    for place in PLACES:
        number = ad.tensor(0.5, requires_grad=True)
        (distribute_tensor(X, mesh(), [place]) * number).sum().backward()
        close(number.grad, X.sum(), f"beside {place}")


def check_values(rank: int, size: int) -> None:
    for a in PLACES:
        x = distribute_tensor(X, mesh(), [a])
        for b in PLACES:
            other = distribute_tensor(X, mesh(), [b])
            assert ad.equal(x, other)
            assert not ad.equal(x, other + 1)
            assert ad.allclose(x, other + 1e-7)
        for got, wanted in zip(ad.where(x > 0), ad.where(X > 0), strict=True):
            close(got.full_tensor(), wanted, "where")
        with pytest.raises(IndexError, match="out of range"):
            x.sum(2)
    half = DTensor.from_local(ad.full((3,), 2.0 / size), mesh(), [Partial()])
    turned: Any
    for turned in (half.to(ad.int64), half.long(), half.type(ad.int32), half > 1.5):
        assert turned.full_tensor().tolist() == (
            [2] * 3 if turned.dtype is not ad.bool else [1] * 3
        )
    assert half.to(ad.float64).placements == (Partial(),)


def check_draws(rank: int, size: int) -> None:
    """Processes whose own generators differ draw the same for what is whole on all."""
    ad.manual_seed(rank)
    x = distribute_tensor(ad.ones(2, 3, 4, 4), mesh(), [Replicate()])
    draws: list[Callable[[], Any]] = [
        lambda: F.dropout(x), lambda: F.dropout2d(x), lambda: ad.poisson(x * 3), lambda: ad.normal(x, 1.0),
        lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), lambda: F.rrelu(-x, training=True),
        lambda: ad.binomial(x * 9, x * 0.5), lambda: ad.rrelu_(-x, training=True), lambda: x.clone().normal_(),
    ]  # fmt: skip
    for k, draw in enumerate(draws):
        mine = draw().full_tensor().detach()
        first = mine.clone()
        dist.broadcast(first, 0)
        close(mine, first, f"draw {k}")


def check_refused_writes(rank: int, size: int) -> None:
    """What would be written to a gathered copy, or what the tape would not see."""
    x = distribute_tensor(X, mesh(), [Shard(0)])
    mean, square = (distribute_tensor(t, mesh(), [Shard(0)]) for t in (ad.zeros(7), ad.ones(7)))
    with pytest.raises(NotImplementedError, match="would be lost"):
        F.batch_norm(x, mean, square, training=True)
    with pytest.raises(NotImplementedError, match="would be lost"):
        F.dropout(x, inplace=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated"):
        x.add_(distribute_tensor(Y, mesh(), [Shard(0)]).requires_grad_())


def check_redistribution(rank: int, size: int) -> None:
    for a in PLACES:
        x = distribute_tensor(X, mesh(), [a])
        for b in PLACES:
            y = x.redistribute(placements=[b])
            assert y.placements == (b,)
            assert tuple(y.to_local().shape) == y._layout.sizes()[-1]
            close(y.full_tensor(), X, f"{a} to {b}")
    partial = DTensor.from_local(ad.ones(3) * rank, mesh(), [Partial()])
    wanted = ad.ones(3) * (size * (size - 1) // 2)
    close(partial.redistribute(placements=[Shard(0)]).full_tensor(), wanted, "sum to parts")
    close(partial.full_tensor(), wanted, "sum")
    with pytest.raises(RuntimeError, match="cannot be taken apart"):
        distribute_tensor(X, mesh(), [Shard(0)]).redistribute(placements=[Partial()])


def check_two_dimensions(rank: int, size: int) -> None:
    if dist.get_world_size() != 4:
        return
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    for a in PLACES:
        for b in PLACES:
            x = distribute_tensor(X, grid, [a, b])
            close(x.full_tensor(), X, f"{a} {b}")
            close((x * 2 + x.sum(0)).full_tensor(), X * 2 + X.sum(0), f"work on {a} {b}")
            w = distribute_tensor(W, grid, [b, a])
            close((x @ w).full_tensor(), X @ W, f"product of {a} {b}")


def check_cuts_in_another_order(rank: int, size: int) -> None:
    """Parts that a later mesh dimension has cut first, beside parts cut in the mesh's order."""
    if dist.get_world_size() != 4:
        return
    grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    strided, plain = [_StridedShard(0, split_factor=2), Shard(0)], [Shard(0), Shard(0)]
    x, y = distribute_tensor(X, grid, strided), distribute_tensor(Y, grid, plain)
    assert x.placements == tuple(strided)
    rows = ad.arange(8).float()
    assert distribute_tensor(rows, grid, strided).to_local().tolist() == [
        [0, 1], [4, 5], [2, 3], [6, 7],
    ][rank]  # fmt: skip
    close(x.full_tensor(), X, "whole")
    close(x.redistribute(placements=plain).full_tensor(), X, "in the mesh's order")
    close(y.redistribute(placements=strided).full_tensor(), Y, "in the other order")
    again = DTensor.from_local(x.to_local(), grid, x.placements, shape=X.shape, stride=X.stride())
    close(again.full_tensor(), X, "from parts")
    for a, b, wanted in ((x, y, X + Y), (y, x, X + Y), (x, x, X + X)):
        close((a + b).full_tensor(), wanted, f"sum of {a.placements} and {b.placements}")
    for other in (strided, plain):
        w = distribute_tensor(W, grid, other)
        for left in (x, distribute_tensor(X, grid, plain)):
            close((left @ w).full_tensor(), X @ W, f"product of {left.placements} and {other}")
            close(F.linear(left, w.t()).full_tensor(), X @ W, f"of {left.placements}, {other}")
    x += y
    close(x.full_tensor(), X + Y, "in place")
    with pytest.raises(NotImplementedError, match="split_factor must be that"):
        distribute_tensor(X, grid, [_StridedShard(0, split_factor=3), Shard(0)])


def check_in_place(rank: int, size: int) -> None:
    x = distribute_tensor(X, mesh(), [Shard(0)])
    x.add_(1.0).mul_(distribute_tensor(Y, mesh(), [Shard(1)]))
    close(x.full_tensor(), (X + 1) * Y, "in place")
    x[0] = 0.0
    close(x.full_tensor()[0], ad.zeros(7), "written")
    with ad.no_grad():
        x.normal_()
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, x.full_tensor().tolist())
    assert all(each == every[0] for each in every)
    assert len(set(x.full_tensor().flatten().tolist())) == 35
    with pytest.raises(RuntimeError, match="in place"):
        distribute_tensor(X, mesh(), [Shard(0)]).requires_grad_().mul_(2)


def check_refusals(rank: int, size: int) -> None:
    x = distribute_tensor(X, mesh(), [Shard(0)])
    with pytest.raises(RuntimeError, match="mixed torch.Tensor and DTensor"):
        x + X
    with pytest.raises(ValueError, match="placements"):
        distribute_tensor(X, mesh(), [Shard(0), Shard(1)])
    with pytest.raises(ValueError, match="Shard"):
        distribute_tensor(X, mesh(), [Shard(2)])
    with pytest.raises(TypeError, match="full_tensor"):
        ad.save({"x": x}, io.BytesIO())
    assert x.numel() == 35
    assert len(x) == 5
    assert x.sum().item() == x.full_tensor().sum().item() or dist.get_world_size() > 1


def check_made(rank: int, size: int) -> None:
    z = zeros(5, 3, device_mesh=mesh(), placements=[Shard(0)])
    close(z.full_tensor(), ad.zeros(5, 3), "zeros")
    drawn = drandn(5, 3, device_mesh=mesh(), placements=[Shard(0)])
    assert drawn.full_tensor().unique().numel() == 15
    twin = copy.deepcopy(drawn)
    close(twin.full_tensor(), drawn.full_tensor(), "copied")


def check_modules(rank: int, size: int) -> None:
    ad.manual_seed(0)
    plain = ad.nn.Sequential(ad.nn.Linear(7, 6), ad.nn.ReLU(), ad.nn.Linear(6, 3))
    ours = distribute_module(
        copy.deepcopy(plain),
        mesh(),
        input_fn=lambda m, inputs, on: (DTensor.from_local(inputs[0], on, [Replicate()]),),
        output_fn=lambda m, out, on: out.full_tensor(),
    )
    assert all(isinstance(p, DTensor) and isinstance(p, ad.nn.Parameter) for p in ours.parameters())
    for net in (plain, ours):
        optimizer = ad.optim.AdamW(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(X).square().mean().backward()
            ad.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            optimizer.step()
    for (name, p), q in zip(plain.named_parameters(), ours.parameters(), strict=True):
        close(q.full_tensor(), p, name)


class Normalised(ad.optim.Optimizer):
    """An optimizer of somebody's own, that looks at whole parameters."""

    @ad.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad / p.grad.norm(), alpha=-group["lr"])
                p.mul_(1 / p.norm())


def check_an_own_optimizer(rank: int, size: int) -> None:
    plain = X.clone().requires_grad_()
    ours = distribute_tensor(X, mesh(), [Shard(0)]).requires_grad_()
    for p in (plain, ours):
        optimizer = Normalised([p], {"lr": 0.1})
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).relu().sum().backward()
            optimizer.step()
    close(ours.full_tensor(), plain, "normalised")


if __name__ == "__main__":
    run(sys.modules[__name__])
