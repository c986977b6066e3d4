"""A character-level GPT that learns to write like Shakespeare from eight of his plays.

python examples/char_gpt.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint.datasets import Shakespeare
from adjoint.models import GPT2, GPT2Config
from adjoint.nn import functional as F
from adjoint.utils.data import DataLoader, RandomSampler


def loss_of(model: ad.nn.Module, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@ad.no_grad()
def held_out(model: ad.nn.Module, data: Shakespeare, batches: int) -> float:
    """The mean loss on blocks of a play the model has not seen."""
    model.eval()
    blocks = range(0, 16 * batches * data.block_size, data.block_size)
    loader = DataLoader(data, batch_size=16, sampler=blocks)
    losses = [loss_of(model, x, y).item() for x, y in loader]
    model.train()
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small model, a few steps")
    quick = parser.parse_args().quick

    ad.manual_seed(0)
    width, layers, length, steps = (32, 1, 32, 150) if quick else (128, 4, 128, 2000)
    plays, macbeth = Shakespeare(length), Shakespeare(length, train=False)
    sampler = RandomSampler(plays, replacement=True, num_samples=16 * steps)
    model = GPT2(GPT2Config(plays.vocabulary_size, length, width, layers, 4, 0.0))
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-2 if quick else 1e-3)
    schedule = ad.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2 if quick else 2e-3, steps)
    for step, (x, y) in enumerate(DataLoader(plays, batch_size=16, sampler=sampler), 1):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == 1 or step % (steps // 10) == 0:
            print(f"step {step}  loss {loss.item():.3f}")
    print(f"on Macbeth {held_out(model, macbeth, 8 if quick else 40):.3f}")
    model.eval()
    start = plays.encode("MACBETH.\n").unsqueeze(0)
    out = model.generate(start, 80 if quick else 500, temperature=0.8, top_k=20)
    print(plays.decode(out[0]))


if __name__ == "__main__":
    main()
