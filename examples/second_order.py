"""Per-sample gradients and Hessians with `func`, on a logistic regression.

python examples/second_order.py [--quick]
"""

from __future__ import annotations

import argparse
from typing import Any

import adjoint as ad
from adjoint.func import grad, hessian, vmap


def loss(weight: Any, x: Any, y: Any) -> Any:
    """Logistic loss of one sample with label -1 or 1."""
    return ad.nn.functional.softplus(-y * (x @ weight))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    count = 50 if parser.parse_args().quick else 500

    ad.manual_seed(0)
    truth = ad.tensor([1.5, -2.0, 0.5])
    x = ad.randn(count, 3)
    y = ad.where(ad.rand(count) < (x @ truth).sigmoid(), 1.0, -1.0)

    def total(weight: Any) -> Any:
        return vmap(loss, (None, 0, 0))(weight, x, y).mean() + 0.01 * weight.square().sum()

    weight = ad.zeros(3)
    for step in range(8):  # Newton's method
        gradient = grad(total)(weight)
        weight = weight - ad.linalg.solve(hessian(total)(weight), gradient)
        print(
            f"step {step}  loss {total(weight).item():.6f}  |gradient| {gradient.norm().item():.2e}"
        )
    assert grad(total)(weight).norm().item() < 1e-4

    per_sample = vmap(grad(loss), (None, 0, 0))(weight, x, y)  # (count, 3): one gradient per sample
    norms = per_sample.norm(dim=1)
    print("weights", [round(w, 3) for w in weight.tolist()])
    print(
        f"per-sample gradient norms: mean {norms.mean().item():.3f}, max {norms.max().item():.3f}"
    )
    print(f"the sample that pulls hardest: {int(norms.argmax().item())}")


if __name__ == "__main__":
    main()
