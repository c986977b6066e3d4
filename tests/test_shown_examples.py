"""What people meet first shows how it is used: all layers and the functions of every program."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint import nn

BASES = {"Container", "Module", "RNNBase", "RNNCellBase"}
LAYERS = sorted(
    name
    for name, value in vars(nn).items()
    if isinstance(value, type) and issubclass(value, nn.Module) and name not in BASES
)
FUNCTIONS = """
    tensor as_tensor from_numpy zeros ones full empty arange linspace eye zeros_like ones_like
    full_like empty_like rand randn randint randperm rand_like randn_like manual_seed bernoulli
    multinomial normal cat stack split chunk squeeze unsqueeze reshape permute transpose flatten
    unflatten flip roll tile gather scatter index_select masked_select where nonzero
    take_along_dim repeat_interleave unbind movedim add sub mul div pow exp log log1p expm1 sqrt
    rsqrt abs neg sign sin cos tan tanh sigmoid relu clamp floor ceil round erf maximum minimum
    lerp reciprocal remainder fmod isnan isinf isfinite sum mean prod max min amax amin argmax
    argmin std var median norm logsumexp cumsum cumprod all any sort argsort topk unique bincount
    matmul mm bmm dot outer einsum tensordot addmm diag tril triu meshgrid softmax log_softmax
    eq ne lt le gt ge allclose isclose equal save load no_grad compile numel
""".split()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_show_an_example(name: str) -> None:
    assert ">>>" in (getattr(nn, name).__doc__ or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_show_an_example(name: str) -> None:
    assert ">>>" in (getattr(ad, name).__doc__ or "")
