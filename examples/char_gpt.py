"""A character-level GPT that learns to write like Python's documentation.

python examples/char_gpt.py [--quick]
"""

from __future__ import annotations

import argparse

from text import batch, characters

import adjoint as ad
from adjoint.models import GPT2, GPT2Config


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small model, a few steps")
    quick = parser.parse_args().quick

    ad.manual_seed(0)
    data, alphabet = characters()
    width, layers, length, steps = (32, 1, 32, 40) if quick else (128, 4, 128, 2000)
    model = GPT2(GPT2Config(len(alphabet), length, width, layers, 4, 0.0))
    optimizer = ad.optim.AdamW(model.parameters(), lr=3e-3 if quick else 1e-3)
    first = last = 0.0
    for step in range(1, steps + 1):
        x, y = batch(data, 16, length)
        loss = ad.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = loss.item()
        first = first or last
        if step == 1 or step % (steps // 10) == 0:
            print(f"step {step}  loss {last:.3f}")
    model.eval()
    start = ad.tensor([[alphabet.index("T")]])
    out = model.generate(start, 20 if quick else 300, temperature=0.8, top_k=20)
    print("".join(alphabet[i] for i in out[0].tolist()))
    assert last < 0.9 * first


if __name__ == "__main__":
    main()
