"""Train a two-layer network on handwritten digits, with tensors and autograd alone.

python examples/digits.py
"""

from __future__ import annotations

import time

import adjoint as ad
from adjoint.datasets import digits


def initialise(fan_in: int, fan_out: int) -> tuple[ad.Tensor, ad.Tensor]:
    weight = ad.randn(fan_in, fan_out) * (2 / fan_in) ** 0.5
    return weight.requires_grad_(), ad.zeros(fan_out, requires_grad=True)


def main() -> None:
    ad.manual_seed(0)
    images, labels = digits()
    x = images.reshape(-1, 64) / 16  # (N, 64)
    order = ad.randperm(len(x))
    train, test = order[:1400], order[1400:]

    (w1, b1), (w2, b2) = initialise(64, 128), initialise(128, 10)
    parameters = [w1, b1, w2, b2]
    moments = [ad.zeros_like(p) for p in parameters]

    def logits(batch: ad.Tensor) -> ad.Tensor:
        return (batch @ w1 + b1).relu() @ w2 + b2

    def accuracy(rows: ad.Tensor) -> float:
        with ad.no_grad():
            return (logits(x[rows]).argmax(1) == labels[rows]).float().mean().item()

    start = time.perf_counter()
    for epoch in range(1, 31):
        total = 0.0
        shuffled = train[ad.randperm(len(train))]
        for rows in shuffled.split(50):
            log_probs = ad.log_softmax(logits(x[rows]), 1)
            loss = -log_probs.gather(1, labels[rows].unsqueeze(1)).mean()
            loss.backward()
            with ad.no_grad():
                for p, m in zip(parameters, moments, strict=True):
                    m.mul_(0.9).add_(p.grad)
                    p.sub_(m, alpha=0.05)
                    p.grad = None
            total += loss.item() * len(rows)
        if epoch == 1 or epoch % 5 == 0:
            print(
                f"epoch {epoch:2d}  loss {total / len(train):.4f}  "
                f"test accuracy {accuracy(test):.1%}  {time.perf_counter() - start:.1f} s"
            )
    reached = accuracy(test)
    if reached < 0.95:
        raise SystemExit(f"expected at least 95% test accuracy, reached {reached:.1%}")


if __name__ == "__main__":
    main()
