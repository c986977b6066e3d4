"""Distributions against PyTorch's: log_prob, entropy, cdf, moments, divergences and gradients."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributions as TD  # noqa: E402

import adjoint as ad  # noqa: E402

pytestmark = pytest.mark.compare
AD = ad.distributions
P = np.array([[0.3, 1.5], [2.5, 7.0]])
PROB = np.array([[0.1, 0.45], [0.5, 0.9]])
REAL = np.array([[-1.2, 0.0], [0.7, 2.0]])
SIMPLEX = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
SPD = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])
TRIL = np.linalg.cholesky(SPD)
VEC = np.array([[0.1, -0.5, 0.3], [1.0, 0.0, 2.0]])
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Normal", {"loc": REAL, "scale": P}),
    ("Uniform", {"low": REAL, "high": REAL + P}),
    ("Exponential", {"rate": P}),
    ("Laplace", {"loc": REAL, "scale": P}),
    ("Cauchy", {"loc": REAL, "scale": P}),
    ("Gamma", {"concentration": P, "rate": P.T.copy()}),
    ("Chi2", {"df": P}),
    ("InverseGamma", {"concentration": P + 2, "rate": P.T.copy()}),
    ("Dirichlet", {"concentration": P + 0.5}),
    ("Dirichlet", {"concentration": np.array([[0.6, 0.8], [0.8, 0.6]])}),
    ("Beta", {"concentration1": P, "concentration0": P.T.copy()}),
    ("StudentT", {"df": P, "loc": REAL, "scale": P}),
    ("FisherSnedecor", {"df1": P + 2, "df2": P + 5}),
    ("Poisson", {"rate": P}),
    ("Bernoulli", {"probs": PROB}),
    ("Bernoulli", {"logits": REAL}),
    ("Geometric", {"probs": PROB}),
    ("Geometric", {"logits": REAL}),
    ("Binomial", {"total_count": 5, "probs": PROB}),
    ("Binomial", {"total_count": 5, "logits": REAL}),
    ("NegativeBinomial", {"total_count": P, "probs": PROB}),
    ("NegativeBinomial", {"total_count": P, "logits": REAL}),
    ("ContinuousBernoulli", {"probs": PROB}),
    ("ContinuousBernoulli", {"logits": REAL}),
    ("Categorical", {"probs": SIMPLEX}),
    ("Categorical", {"logits": REAL}),
    ("OneHotCategorical", {"probs": SIMPLEX}),
    ("OneHotCategoricalStraightThrough", {"logits": REAL}),
    ("Multinomial", {"total_count": 4, "probs": SIMPLEX}),
    ("Gumbel", {"loc": REAL, "scale": P}),
    ("HalfNormal", {"scale": P}),
    ("HalfCauchy", {"scale": P}),
    ("LogNormal", {"loc": REAL, "scale": P}),
    ("Pareto", {"scale": P, "alpha": P + 2.5}),
    # GeneralizedPareto is float32 alone in PyTorch.
    ("Weibull", {"scale": P, "concentration": P.T + 1.0}),
    ("Kumaraswamy", {"concentration1": P + 1, "concentration0": P.T + 1.0}),
    ("LogisticNormal", {"loc": REAL, "scale": P}),
    ("RelaxedBernoulli", {"temperature": np.array(0.7), "probs": PROB}),
    ("RelaxedOneHotCategorical", {"temperature": np.array(0.7), "logits": REAL}),
    ("VonMises", {"loc": REAL, "concentration": P}),
    ("MultivariateNormal", {"loc": VEC, "covariance_matrix": SPD}),
    ("MultivariateNormal", {"loc": VEC, "precision_matrix": SPD}),
    ("MultivariateNormal", {"loc": VEC, "scale_tril": TRIL}),
    ("LowRankMultivariateNormal", {"loc": VEC, "cov_factor": SPD[:, :2], "cov_diag": VEC**2 + 1}),
    ("Wishart", {"df": np.array([4.0, 6.5]), "covariance_matrix": SPD}),
    ("Wishart", {"df": np.array(5.0), "precision_matrix": SPD}),
    ("LKJCholesky", {"dim": 3, "concentration": np.array([0.5, 1.0, 3.0])}),
]  # fmt: skip
IDS = [f"{name}-{'-'.join(kwargs)}" for name, kwargs in CASES]


def build(name: str, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    theirs = {
        k: torch.tensor(v, requires_grad=True) if isinstance(v, np.ndarray) else v
        for k, v in kwargs.items()
    }
    ours = {
        k: ad.tensor(v, requires_grad=True) if isinstance(v, np.ndarray) else v
        for k, v in kwargs.items()
    }
    return getattr(TD, name)(**theirs), getattr(AD, name)(**ours), theirs, ours


def close(got: Any, want: Any, what: str, tolerance: float = 1e-7) -> None:
    got, want = got.detach().numpy(), want.detach().numpy()
    assert got.shape == want.shape, what
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=what)


def same_gradients(got: Any, want: Any, ours: Any, theirs: Any, what: str) -> None:
    names = [k for k, v in theirs.items() if isinstance(v, torch.Tensor)]
    if not want.requires_grad:
        return
    a = torch.autograd.grad(
        want.sum(), [theirs[k] for k in names], allow_unused=True, retain_graph=True
    )
    b = ad.autograd.grad(got.sum(), [ours[k] for k in names], allow_unused=True, retain_graph=True)
    for name, x, y in zip(names, a, b, strict=True):
        if x is None or y is None:
            x = torch.zeros(()) if x is None else x
            y = ad.zeros(()) if y is None else y
            assert not x.any(), f"{what}: {name}"
            assert not bool(y.any()), f"{what}: {name}"
        else:
            close(y, x, f"gradient of {what} by {name}", 1e-6)


@pytest.mark.parametrize(("name", "kwargs"), CASES, ids=IDS)
def test_values_and_gradients(name: str, kwargs: dict[str, Any]) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, got, theirs, ours = build(name, kwargs)
        assert tuple(want.batch_shape) == tuple(got.batch_shape)
        assert tuple(want.event_shape) == tuple(got.event_shape)
        assert want.has_rsample == got.has_rsample
        value = want.sample((4,))
        a, b = want.log_prob(value), got.log_prob(ad.tensor(value.numpy()))
        close(b, a, "log_prob")
        same_gradients(b, a, ours, theirs, "log_prob")
        for method in ("entropy", "mean", "mode", "variance", "stddev"):
            try:
                x = getattr(want, method)
                x = x() if callable(x) else x
            except NotImplementedError:
                continue
            y = getattr(got, method)
            y = y() if callable(y) else y
            if (name, method) == ("Kumaraswamy", "mode"):  # PyTorch's is nan wherever it exists
                continue
            close(y, x, method)
            if method == "entropy":
                same_gradients(y, x, ours, theirs, method)
        for method, at in (("cdf", value), ("icdf", torch.full(value.shape, 0.3).double())):
            try:
                x = getattr(want, method)(at)
            except NotImplementedError:
                continue
            y = getattr(got, method)(ad.tensor(at.numpy()))
            close(y, x, method)
        shape = (3, *want.batch_shape)
        close(got.expand(shape).log_prob(ad.tensor(value[:3].numpy())), want.expand(shape).log_prob(value[:3]), "expand")  # fmt: skip
        if want.has_enumerate_support:
            close(got.enumerate_support(), want.enumerate_support(), "enumerate_support")
        sample = got.sample((5,))
        assert tuple(sample.shape) == (5, *want.batch_shape, *want.event_shape)
        assert bool(got.support.check(sample).all())
        if got.has_rsample:
            drawn = got.rsample()
            assert drawn.requires_grad
            drawn.sum().backward()


KL = [
    (p, q)
    for p, q in itertools.product(CASES, CASES)
    if TD.kl._dispatch_kl(getattr(TD, p[0]), getattr(TD, q[0])) is not NotImplemented
]


@pytest.mark.parametrize("pair", KL, ids=[f"{p[0]}-{q[0]}-{i}" for i, (p, q) in enumerate(KL)])
def test_divergence(pair: Any) -> None:
    (p_name, p_kwargs), (q_name, q_kwargs) = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, our_p, theirs, ours = build(p_name, p_kwargs)
        q, our_q, *_ = build(q_name, q_kwargs)
        try:
            want = TD.kl_divergence(p, q)
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                AD.kl_divergence(our_p, our_q)
            return
        except RuntimeError:  # other numbers of categories, or batches PyTorch does not broadcast
            return
        if (p_name, q_name) == ("ContinuousBernoulli", "Uniform"):
            return  # PyTorch's is infinite where the two supports begin together
        got = AD.kl_divergence(our_p, our_q)
        close(got, want, "kl")
        if bool(torch.isfinite(want).all()):
            same_gradients(got, want, ours, theirs, "kl")
