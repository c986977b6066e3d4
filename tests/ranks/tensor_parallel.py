"""Compiled training with divided layers: the collectives are nodes of the program."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.distributed.device_mesh import init_device_mesh
from adjoint.distributed.tensor import Replicate, Shard, distribute_tensor
from adjoint.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from adjoint.nn import functional as F
from tests.ranks.checks import run, same, usual


class FeedForward(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """A block of a GPT: attention of two heads, and a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.mlp = FeedForward()

    def forward(self, x: Any) -> Any:
        B, T = x.shape[:2]
        h = self.norm1(x)
        q, k, v = (f(h).view(B, T, -1, 2).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(B, T, -1))
        return x + self.mlp(self.norm2(x))


class Divided(nn.Module):
    """A feed-forward after a norm that each process does for some positions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(8), FeedForward()

    def forward(self, x: Any) -> Any:
        return self.mlp(self.norm(x))


class Classifier(nn.Module):
    """Convolutions with batch norm, which every process has whole, before divided layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten()
        )
        self.up, self.down = nn.Linear(3 * 32, 16), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        return self.down(F.relu(self.up(self.features(x.unsqueeze(1)))))


class Language(nn.Module):
    """A whole GPT: divided embeddings, blocks and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(16, 8), nn.Embedding(4, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 16, bias=False)

    def forward(self, x: Any) -> Any:
        tokens = (x[..., 0].abs() * 7).long().clamp(max=15)
        h = self.tokens(tokens) + self.places(ad.arange(tokens.shape[1]))
        for block in self.blocks:
            h = block(h)
        scores = self.head(self.norm(h))
        return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())


PAIR: dict[str, Any] = {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
OF_A_BLOCK = {**PAIR, **dict.fromkeys("qkv", ColwiseParallel()), "out": RowwiseParallel()}
LANGUAGE: dict[str, Any] = {
    "tokens": RowwiseParallel(input_layouts=Replicate()),
    "head": ColwiseParallel(output_layouts=Replicate()),
    **{f"blocks.*.{name}": style for name, style in OF_A_BLOCK.items()},
}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "mlp": (FeedForward, {"up": ColwiseParallel(), "down": RowwiseParallel()}),
    "block": (Block, OF_A_BLOCK),
    "cnn": (Classifier, {"up": ColwiseParallel(), "down": RowwiseParallel()}),
    "gpt": (Language, LANGUAGE),
    "sequence": (
        Divided,
        {
            "norm": SequenceParallel(),
            "mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            **PAIR,
        },
    ),
}


def train(net: Any, batches: Any, compiled: bool) -> tuple[list[float], Any]:
    optimizer = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run_step = ad.compile(step) if compiled else step
    return [run_step(x).item() for x in batches], run_step


def check_compiled_layers(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    for name in usual(CASES, "mlp", "block", "sequence"):
        make, plan = CASES[name]
        ad.manual_seed(3)
        alone, batches = make(), ad.randn(4, 2, 4, 8)
        divided = [parallelize_module(copy.deepcopy(alone), mesh, plan) for _ in range(2)]
        wanted, _ = train(alone, batches, compiled=False)
        for net, compiled in zip(divided, (False, True), strict=True):
            losses, step = train(net, batches, compiled)
            same(losses, wanted, 2e-5)
            for p, q in zip(alone.parameters(), net.parameters(), strict=True):
                same(getattr(q, "full_tensor", lambda q=q: q)(), p, 1e-4)
            if compiled:
                assert "summed" in step.explain(), name


def check_divided_losses(rank: int, size: int) -> None:
    """Cross entropy of scores divided by classes, against the whole scores'."""
    mesh = init_device_mesh("cpu", (size,))
    ad.manual_seed(1)
    for shape in ((5, 7), (2, 7, 3), (7,)):
        whole = (ad.randn(shape) * 4).requires_grad_()
        target = ad.randint(0, 7, shape[:1] + shape[2:] if len(shape) > 1 else ())
        if target.numel() > 1:
            target.view(-1)[0] = -100
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1}):
            scores = distribute_tensor(whole.detach(), mesh, [Shard(min(1, whole.ndim - 1))])
            scores.requires_grad_()
            wanted = F.cross_entropy(whole, target, **options)
            with loss_parallel():
                loss = F.cross_entropy(scores, target, **options)
                same(loss.full_tensor(), wanted, 1e-5)
                loss.sum().backward()
            (grad,) = ad.autograd.grad(wanted.sum(), whole)
            same(scores.grad.full_tensor(), grad, 1e-5)
    with loss_parallel(), pytest.raises(IndexError, match="classes"):
        F.cross_entropy(scores, ad.tensor(9))


if __name__ == "__main__":
    run(sys.modules[__name__])
