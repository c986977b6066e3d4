"""Samples of distributions against SciPy's laws, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.stats as st

import adjoint as ad

D = ad.distributions
LAWS: list[tuple[Any, Any]] = [
    (lambda: D.Normal(1.0, 2.0), st.norm(1, 2)),
    (lambda: D.Uniform(-1.0, 2.0), st.uniform(-1, 3)),
    (lambda: D.Exponential(2.0), st.expon(scale=0.5)),
    (lambda: D.Laplace(1.0, 2.0), st.laplace(1, 2)),
    (lambda: D.Cauchy(1.0, 2.0), st.cauchy(1, 2)),
    (lambda: D.Gamma(0.4, 2.0), st.gamma(0.4, scale=0.5)),
    (lambda: D.Chi2(3.0), st.chi2(3)),
    (lambda: D.Beta(0.7, 2.0), st.beta(0.7, 2)),
    (lambda: D.StudentT(3.0), st.t(3)),
    (lambda: D.FisherSnedecor(3.0, 5.0), st.f(3, 5)),
    (lambda: D.Gumbel(1.0, 2.0), st.gumbel_r(1, 2)),
    (lambda: D.HalfNormal(2.0), st.halfnorm(scale=2)),
    (lambda: D.HalfCauchy(2.0), st.halfcauchy(scale=2)),
    (lambda: D.LogNormal(0.3, 0.5), st.lognorm(0.5, scale=1.3498588)),
    (lambda: D.Pareto(1.5, 3.0), st.pareto(3, scale=1.5)),
    (lambda: D.GeneralizedPareto(0.0, 1.0, 0.3), st.genpareto(0.3)),
    (lambda: D.Weibull(2.0, 1.5), st.weibull_min(1.5, scale=2)),
    (lambda: D.InverseGamma(3.0, 2.0), st.invgamma(3, scale=2)),
    (lambda: D.VonMises(0.0, 2.0), st.vonmises(2)),
]


@pytest.mark.parametrize(("make", "law"), LAWS, ids=[law.dist.name for _, law in LAWS])
def test_samples_follow_the_law(make: Any, law: Any) -> None:
    ad.manual_seed(3)
    sample = make().sample((4000,)).numpy()
    assert st.kstest(sample, law.cdf).pvalue > 1e-3


def test_bad_parameters_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="support"):
        D.Exponential(1.0).log_prob(ad.tensor(-1.0))
    with pytest.raises(ValueError, match="not both"):
        D.Bernoulli()
    with pytest.raises(NotImplementedError, match="KL"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0))


def test_second_derivative_of_a_gamma_sample_is_refused() -> None:
    a = ad.tensor([2.0], requires_grad=True)
    (g,) = ad.autograd.grad(D.Gamma(a, 1.0).rsample().sum(), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        g.sum().backward()
