"""Samples of samplers."""

from typing import Any

import adjoint as ad
from tests.samples import S, T


def R(path: str, *args: Any, **kwargs: Any) -> S:
    """A row whose results are random."""
    return S(path, *args, _random=True, **kwargs)


CHANCES = T(2, 3, kind="positive", high=1)
ROWS = [
    R("rand", 2, 3),
    R("rand", 0, 3),
    R("rand", (), dtype=ad.float64),
    R("rand", 3, dtype=ad.complex64),
    R("randn", (2, 3)),
    R("randn", size=(2, 3), dtype=ad.bfloat16),
    R("rand_like", T(2, 3)),
    R("randn_like", T(2, 3), dtype=ad.float32),
    R("randint", 3, (2, 3)),
    R("randint", -5, 100, (4,), dtype=ad.int32),
    R("randint_like", T(2, 3), 9),
    R("randint_like", T(2, 3), -3, 9),
    R("randperm", 7),
    R("randperm", 0),
    R("normal", 0.5, 2.0, (3,)),
    R("normal", T(2, 3), 2.0),
    R("normal", 0.5, T(3, kind="positive")),
    R("normal", T(2, 3), T(3, kind="positive")),
    R("bernoulli", CHANCES),
    R("bernoulli", T(2, 3), 0.25),
    R("_standard_gamma", T(2, 3, kind="positive")),
    S("_standard_gamma_grad", T(2, 3, kind="positive"), T(2, 3, kind="positive"), _grad=False),
    R("poisson", T(2, 3, kind="positive", high=40)),
    R("binomial", T(2, 3, kind="positive", high=90), T(3, kind="positive", high=1)),
    R("multinomial", T(4, kind="positive"), 2),
    R("multinomial", T(2, 4, kind="positive"), 5, replacement=True),
    R("Tensor.multinomial", T(2, 4, kind="positive"), 1),
    R("Tensor.bernoulli", CHANCES),
    R("Tensor.uniform_", T(2, 3)),
    R("Tensor.uniform_", T(2, 0), -1, 1),
    R("Tensor.normal_", T(2, 3), 1, 2),
    R("Tensor.random_", T(2, 3), 5),
    R("Tensor.random_", T(2, 3, kind="int")),
    R("Tensor.bernoulli_", T(2, 3), 0.25),
    R("Tensor.bernoulli_", T(2, 3), T(3, kind="positive", high=1)),
    R("Tensor.cauchy_", T(2, 3)),
    R("Tensor.exponential_", T()),
    R("Tensor.geometric_", T(2, 3), 0.25),
    R("Tensor.log_normal_", T(2, 3), 0, 0.5),
    R("uniform", T(2, 3), 0, 2),
    R("cauchy", T(2, 3)),
    R("exponential", T(2, 3), 2),
    R("geometric", T(2, 3), 0.5),
    R("log_normal", T(2, 3)),
]
