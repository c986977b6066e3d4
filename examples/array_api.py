"""Statistics of SciPy on tensors, through the array API standard, with a gradient through them.

SCIPY_ARRAY_API=1 python examples/array_api.py
"""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # SciPy reads it when it is imported

from scipy import special, stats

import adjoint as ad


def main() -> None:
    ad.manual_seed(0)
    x = ad.randn(200, 3, dtype=ad.float64)

    skew = stats.skew(x)
    print("skewness:", [round(value, 3) for value in skew.tolist()], type(skew).__name__)

    logits = x[:5].clone().requires_grad_()
    total = special.logsumexp(logits, axis=1)
    xp = total.__array_namespace__()
    xp.sum(total).backward()
    print("gradient of logsumexp is softmax:", bool(ad.allclose(logits.grad, logits.softmax(1))))


if __name__ == "__main__":
    main()
