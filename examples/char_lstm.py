"""An LSTM that reads Shakespeare in order, carrying its state from batch to batch.

python examples/char_lstm.py [--quick]
"""

from __future__ import annotations

import argparse
from math import exp
from typing import Any

import adjoint as ad
from adjoint.datasets import Shakespeare
from adjoint.models import LSTMLanguageModel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small model, a few steps")
    quick = parser.parse_args().quick

    ad.manual_seed(0)
    plays = Shakespeare()
    width, rows, length, steps = (48, 16, 16, 40) if quick else (256, 32, 64, 1000)
    columns = plays.data[: len(plays.data) // rows * rows].view(rows, -1)  # (rows, characters)
    model = LSTMLanguageModel(plays.vocabulary_size, width, layers=1)
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2 if quick else 2e-3)
    state: Any = None
    first = last = 0.0
    for step in range(steps):
        start = step * length % (columns.shape[1] - length - 1)
        stretch = columns[:, start : start + length + 1]
        scores, state = model(stretch[:, :-1], state)
        state = tuple(s.detach() for s in state)  # gradients stop at the batch's edge
        loss = ad.nn.functional.cross_entropy(scores.flatten(0, 1), stretch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = loss.item()
        first = first or last
        if step % (steps // 10) == 0:
            print(f"step {step}  perplexity {exp(last):.2f}")
    assert last < 0.9 * first


if __name__ == "__main__":
    main()
