"""Training by stages, eager and compiled, follows one process that takes the parts of a batch."""

from __future__ import annotations

import copy
import sys
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from adjoint.nn import functional as F
from tests.ranks.checks import run, same
from tests.ranks.tensor_parallel import Block

PARTS, STEPS = 4, 3  # parts of a batch; batches


def mlp(count: int) -> list[Any]:
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(count)]


def cnn(count: int) -> list[Any]:
    """Convolutions with batch norm, whose statistics are of one part of the batch at a time."""
    first = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())
    inner = [
        nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())
        for _ in range(count - 2)
    ]
    return [first, *inner, nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 5))]


def gpt(count: int) -> list[Any]:
    head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 17))
    return [nn.Embedding(17, 8), *(Block() for _ in range(count - 2)), head]


def token_loss(scores: Any, tokens: Any) -> Any:
    return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())


CASES: dict[str, Any] = {
    "mlp": (mlp, lambda: (ad.randn(STEPS, 8, 6), ad.randn(STEPS, 8, 6)), F.mse_loss),
    "cnn": (
        cnn,
        lambda: (ad.randn(STEPS, 8, 1, 4, 4), ad.randint(0, 5, (STEPS, 8))),
        F.cross_entropy,
    ),
    "gpt": (gpt, lambda: tuple(ad.randint(0, 17, (2, STEPS, 8, 4))), token_loss),
}


def alone(parts: list[Any], batches: Any, loss_of: Any) -> list[float]:
    """What one process gets, from the parts of each batch one after the other."""
    model = nn.Sequential(*parts)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in zip(*batches, strict=True):
        optimizer.zero_grad()
        for part, target in zip(x.chunk(PARTS), y.chunk(PARTS), strict=True):
            loss = loss_of(model(part), target)
            (loss / PARTS).backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def staged(
    modules: dict[int, Any], kind: Any, count: int, batches: Any, loss_of: Any
) -> list[float]:
    """The same by this process's stages of `count`; losses where the last of them is."""
    stages = [PipelineStage(module, at, count) for at, module in modules.items()]
    several = kind is ScheduleInterleaved1F1B
    schedule = kind(stages if several else stages[0], PARTS, loss_of)
    parameters = [p for module in modules.values() for p in module.parameters()]
    optimizer = ad.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses: list[float] = []
    for x, y in zip(*batches, strict=True):
        optimizer.zero_grad()
        of_parts: list[Any] = []
        last = count - 1 in modules
        given = (x,) if 0 in modules else ()
        schedule.step(*given, **({"target": y, "losses": of_parts} if last else {}))
        optimizer.step()
        losses += [loss.item() for loss in of_parts]
    return losses


def follows(name: str, kind: Any, compiled: bool, rank: int, size: int) -> None:
    make, draw, loss_of = CASES[name]
    ad.manual_seed(11)
    parts, batches = make(2 * size), draw()
    whole = copy.deepcopy(parts)
    several = kind is ScheduleInterleaved1F1B
    count = 2 * size if several else size
    stages = parts if several else [nn.Sequential(*parts[i : i + 2]) for i in range(0, 2 * size, 2)]
    plain = {at: stages[at] for at in range(rank, count, size)}
    modules = {at: ad.compile(m) if compiled else m for at, m in plain.items()}
    wanted = alone(whole, batches, loss_of)
    losses = staged(modules, kind, count, batches, loss_of)
    if rank == size - 1:
        same(losses, wanted, 2e-5)
    step = 1 if several else 2
    for at, module in plain.items():
        reference = nn.Sequential(*whole[at * step : (at + 1) * step])
        values = zip(module.state_dict().values(), reference.state_dict().values(), strict=True)
        for value, other in values:
            same(value, other, 1e-4)


def check_stages(rank: int, size: int) -> None:
    for name in CASES:
        for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
            follows(name, kind, False, rank, size)


def check_compiled_stages(rank: int, size: int) -> None:
    for name in CASES:
        for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
            follows(name, kind, True, rank, size)


if __name__ == "__main__":
    run(sys.modules[__name__])
