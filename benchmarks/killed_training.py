"""The training that `benchmarks.faults` kills: data parallel, a checkpoint every few steps.

Prints `STEP RANK LOSS` for each step. Started anew, it goes on from the last checkpoint.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import adjoint as ad
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as checkpoint
from adjoint.nn.parallel import DistributedDataParallel

STEPS = 60
EVERY = 7  # steps between checkpoints


def main() -> None:
    folder = Path(sys.argv[1])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (folder / f"process{rank}").write_text(str(os.getpid()))
    ad.manual_seed(0)
    model = DistributedDataParallel(
        ad.nn.Sequential(ad.nn.Linear(8, 16), ad.nn.Tanh(), ad.nn.Linear(16, 1))
    )
    optimizer = ad.optim.SGD(model.parameters(), lr=0.05)
    state = {"model": model.module.state_dict(), "step": 0}
    if (folder / "checkpoint").exists():
        checkpoint.load(state, checkpoint_id=folder / "checkpoint")
    for step in range(state["step"], STEPS):
        x = ad.randn(4, 8, generator=ad.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"{step} {rank} {loss.item()!r}\n")
        sys.stdout.flush()
        if step % EVERY == EVERY - 1:
            saved = {"model": model.module.state_dict(), "step": step + 1}
            checkpoint.save(saved, checkpoint_id=folder / "checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
