"""Divergences of distributions of two kinds."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions.bernoulli import Bernoulli
from adjoint.distributions.beta import Beta
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.gumbel import Gumbel
from adjoint.distributions.kl import register_kl
from adjoint.distributions.laplace import Laplace
from adjoint.distributions.normal import Normal
from adjoint.distributions.pareto import Pareto
from adjoint.distributions.poisson import Poisson
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import HALF_LOG_TAU, euler_constant
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


def _infinite(x: Tensor) -> Tensor:
    return x.new_full(x.shape, math.inf)


# p has mass where q has none.
INFINITE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
PARAMETER = {
    Beta: "concentration1", ContinuousBernoulli: "probs", Exponential: "rate",
    Gamma: "concentration", Gumbel: "loc", Laplace: "loc", Normal: "loc", Pareto: "scale",
    Poisson: "rate",
}  # fmt: skip
for _p, _others in INFINITE.items():
    for _q in _others:
        register_kl(_p, _q)(lambda p, q, name=PARAMETER[_p]: _infinite(getattr(p, name)))


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_constant()


def _beta_log_mean(p: Any) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (q.concentration - 1) * _beta_log_mean(p)
    return -p.entropy() + t2 - t3 + q.rate * p.mean


def _to_normal(p: Any, q: Any) -> Tensor:
    """Any p of known entropy and variance, to a normal q."""
    z = ((p.mean - q.loc).pow(2) + p.variance) / q.scale.pow(2)
    return -p.entropy() + HALF_LOG_TAU + q.scale.log() + 0.5 * z


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(_to_normal)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return where(p.alpha <= 2, math.inf, _to_normal(p, q))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    t1 = -q.concentration * ratio.log()
    rest = ratio + q.concentration.lgamma() + q.concentration * euler_constant
    return t1 + rest - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    loc = q.loc / q.scale
    tail = loc.exp() * product / (product + 1)
    return product.log() - loc + product.reciprocal() + tail - 1


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    beta = p.rate * q.scale
    loc = q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma()
    t1 = t1 - p.concentration
    t2 = beta.log() + p.concentration / beta
    t3 = loc.exp() * (1 + beta.reciprocal()).pow(-p.concentration) - loc
    return t1 + t2 + t3


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean = p.loc / q.scale
    variance = (p.scale / q.scale).pow(2)
    loc = q.loc / q.scale
    t1 = mean - loc
    t2 = (-mean + 0.5 * variance + loc).exp()
    return t1 + t2 - (0.5 + HALF_LOG_TAU) - (p.scale / q.scale).log()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    distance = p.loc - q.loc
    z = distance / p.scale
    folded = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp()
    folded = folded + distance * (math.sqrt(0.5) * z).erf()
    return -p.scale.log() + (folded / q.scale) + (2 * q.scale).log() - (0.5 + HALF_LOG_TAU)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    product = p.scale * q.rate
    t1 = (p.alpha / product).log() - p.alpha.reciprocal()
    result = t1 + p.alpha * product / (p.alpha - 1) - 1
    return where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    common = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - common
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * common
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return where(p.alpha <= 1, math.inf, t1 + t2 + t3 + t4 - 1)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = width.log()
    t2 = (q.concentration1 - 1) * (p.high.xlogy(p.high) - p.low.xlogy(p.low) - width) / width
    high, low = 1 - p.high, 1 - p.low
    t3 = (q.concentration0 - 1) * (high.xlogy(high) - low.xlogy(low) + width) / width
    constant = (
        q.concentration1.lgamma()
        + q.concentration0.lgamma()
        - (q.concentration1 + q.concentration0).lgamma()
    )
    return where((p.high > 1) | (p.low < 0), math.inf, t3 + constant - t1 - t2)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_constant()
    return where((p.high >= 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return where(p.low < 0, math.inf, result)


def _mean_of_log(p: Any) -> Tensor:
    width = p.high - p.low
    return (p.high.xlogy(p.high) - p.low.xlogy(p.low) - width) / width


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * _mean_of_log(p)
    result = -(p.high - p.low).log() + t2 + t3 + q.rate * (p.high + p.low) / 2
    return where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    t1 = width.log() + 0.5 * (high + low)
    t2 = width * ((-high).exp() - (-low).exp())
    return t1 - t2


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    t1 = (q.alpha * q.scale.pow(q.alpha) * (p.high - p.low)).log()
    result = _mean_of_log(p) * (q.alpha + 1) - t1
    return where(p.low < q.support.lower_bound, math.inf, result)
