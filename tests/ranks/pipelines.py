"""Pipelines whose stages are cut out of one recorded model follow one process."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.distributed.pipelining import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
    SplitPoint,
    pipe_split,
    pipeline,
)
from adjoint.distributed.pipelining.schedules import get_schedule_class
from adjoint.nn import functional as F
from tests.ranks.checks import run, same
from tests.ranks.training import gpt

PARTS = 4  # of a batch


class Skips(nn.Module):
    """Layers with marks between them; the input and an early value are needed late."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.rest = nn.ModuleList(nn.Linear(6, 6) for _ in range(count - 1))
        self.register_buffer("shift", ad.arange(6.0))

    def forward(self, x: Any, *, scale: float) -> Any:
        early = h = self.norm(self.first(x))
        for layer in self.rest:
            pipe_split()
            h = layer(h).tanh()
        return (h + early * scale + x) * self.shift


def run_schedule(
    kind: Any, pipe: Any, rank: int, size: int, x: Any, y: Any, loss: Any, **named: Any
) -> Any:
    mine = range(rank, pipe.num_stages, size)
    stages = [pipe.build_stage(at, ad.device("cpu")) for at in mine]
    single = kind in (ScheduleGPipe, Schedule1F1B)
    schedule = kind(stages[0] if single else stages, PARTS, loss_fn=loss)
    losses: list[Any] = []
    given = (x,) if rank == 0 else ()
    more = {"target": y, "losses": losses} if rank == size - 1 else {}
    out = schedule.step(*given, **(named if rank == 0 else {}), **more)
    assert (out is None) == (rank != size - 1)
    if out is not None:
        assert len(losses) == PARTS
        assert not schedule.eval(*given, **(named if rank == 0 else {})).requires_grad
    else:
        schedule.eval(*given, **(named if rank == 0 else {}))
    return out


def follows(kind: Any, count: int, rank: int, size: int) -> None:
    """The gradients of the stages that a process has, and the output, against the whole model's."""
    ad.manual_seed(7)
    whole: Any = Skips(count)
    x, y = ad.randn(8, 6), ad.randn(8, 6)
    cut = copy.deepcopy(whole)
    pipe = pipeline(cut, (x[:2],), {"scale": 0.5})
    assert pipe.num_stages == count
    wanted = []
    for part, target in zip(x.chunk(PARTS), y.chunk(PARTS), strict=True):
        wanted.append(whole(part, scale=0.5))
        (F.mse_loss(wanted[-1], target) / PARTS).backward()
    buffers = {name: b.clone() for name, b in whole.named_buffers()}
    out = run_schedule(kind, pipe, rank, size, x, y, F.mse_loss, scale=0.5)
    if out is not None:
        same(out, ad.cat(wanted), 1e-5)
    known = dict(whole.named_parameters())
    for at in range(rank, count, size):
        stage = pipe.get_stage_module(at)
        for name, p in stage.named_parameters():
            same(p.grad, known[name].grad, 1e-5)
        assert set(stage.state_dict()) <= set(whole.state_dict())
    if rank == 0:  # changed by the step, and once more by the evaluation
        assert cut.norm.num_batches_tracked == 2 * buffers["norm.num_batches_tracked"]


def check_traced_pipelines(rank: int, size: int) -> None:
    for kind in (ScheduleGPipe, Schedule1F1B):
        follows(kind, size, rank, size)
    for kind in (ScheduleInterleaved1F1B, ScheduleLoopedBFS):
        follows(kind, 2 * size, rank, size)


def check_a_traced_gpt(rank: int, size: int) -> None:
    if size != 2:
        return
    ad.manual_seed(5)
    whole = gpt()
    cut = copy.deepcopy(whole)
    x = ad.randint(0, 17, (8, 8))

    def loss(logits: Any, tokens: Any) -> Any:
        logits = logits[0] if isinstance(logits, tuple) else getattr(logits, "logits", logits)
        return F.cross_entropy(logits[:, :-1].reshape(-1, 17), tokens[:, 1:].reshape(-1))

    pipe = pipeline(cut, (x[:2],), split_spec={"transformer.h.1": SplitPoint.BEGINNING})
    loss(whole(x), x).backward()
    run_schedule(Schedule1F1B, pipe, rank, size, x, x, loss)
    known = dict(whole.named_parameters())
    mine = dict(pipe.get_stage_module(rank).named_parameters())
    tied = {"transformer.wte.weight", "lm_head.weight"}  # in both stages: each has its part
    for name, p in mine.items():
        if name not in tied:
            same(p.grad, known[name].grad, 1e-5)
    assert len(mine) > 10


def check_refused_pipelines(rank: int, size: int) -> None:
    net = nn.Sequential(*(nn.Linear(3, 3) for _ in range(size)))
    spec = {str(i): SplitPoint.BEGINNING for i in range(1, size)}
    with pytest.raises(AttributeError, match="nonexistent"):
        pipeline(net, (ad.ones(2, 3),), split_spec={"9": SplitPoint.END})
    pipe = pipeline(net, (ad.ones(2, 3),), split_spec=spec)
    with pytest.raises(ValueError, match="recorded"):
        pipe(ad.ones(4, 3))
    with pytest.raises(NotImplementedError, match="mode"):
        pipe.eval()
    with pytest.raises(ValueError, match="is not of process"):
        pipe.build_stage((rank + 1) % size)
    with pytest.raises(NotImplementedError, match="first dimension"):
        ScheduleGPipe(pipe.build_stage(rank), PARTS, None, 1)
    for name in ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"):
        with pytest.raises(NotImplementedError, match="the same gradients"):
            get_schedule_class(name)([pipe.build_stage(rank)], PARTS)
    with pytest.raises(ValueError, match="stages are"):
        ScheduleInterleaved1F1B([pipe.build_stage(rank)] * 2, PARTS)


if __name__ == "__main__":
    run(sys.modules[__name__])
