"""Divergences of two distributions of one kind."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions.bernoulli import Bernoulli
from adjoint.distributions.beta import Beta
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.cauchy import Cauchy
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.covariance import log_diagonal
from adjoint.distributions.dirichlet import Dirichlet
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.geometric import Geometric
from adjoint.distributions.gumbel import Gumbel
from adjoint.distributions.half_normal import HalfNormal
from adjoint.distributions.independent import Independent
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.laplace import Laplace
from adjoint.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    log_det,
    low_rank_mahalanobis,
)
from adjoint.distributions.multivariate_normal import MultivariateNormal, mahalanobis
from adjoint.distributions.normal import Normal
from adjoint.distributions.one_hot_categorical import OneHotCategorical
from adjoint.distributions.pareto import Pareto
from adjoint.distributions.poisson import Poisson
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import euler_constant, softplus, sum_rightmost
from adjoint.engine.autodiff.tape.modes import enable_grad
from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.linalg.solve import solve_triangular
from adjoint.engine.tensor.tensor import Tensor


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = where(q.probs == 0, math.inf, t1)
    t1 = where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = where(q.probs == 1, math.inf, t2)
    t2 = where(p.probs == 1, 0.0, t2)
    return t1 + t2


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    p1, p0, q1, q0 = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    total_p, total_q = p1 + p0, q1 + q0
    return (
        (q1.lgamma() + q0.lgamma() + total_p.lgamma())
        - (p1.lgamma() + p0.lgamma() + total_q.lgamma())
        + (p1 - q1) * p1.digamma()
        + (p0 - q0) * p0.digamma()
        + (total_q - total_p) * total_p.digamma()
    )


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = where((q.probs == 0).expand(t.shape), math.inf, t)
    t = where((p.probs == 0).expand(t.shape), 0.0, t)
    return t.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._log_constant() + (-p.probs).log1p()
    t3 = -q._log_constant() - (-q.probs).log1p()
    return t1 + t2 + t3


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    t1 = total.lgamma() - b.sum(-1).lgamma()
    t2 = (a.lgamma() - b.lgamma()).sum(-1)
    t3 = (a - b) * (a.digamma() - total.digamma().unsqueeze(-1))
    return t1 - t2 + t3.sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    natural_p = [x.detach().requires_grad_() for x in p._natural_params]
    natural_q = q._natural_params
    with enable_grad():
        normalizer = p._log_normalizer(*natural_p)
        gradients = grad(normalizer.sum(), natural_p, create_graph=True)
    result = q._log_normalizer(*natural_q) - normalizer
    for a, b, g in zip(natural_p, natural_q, gradients, strict=True):
        result = result - sum_rightmost((b - a) * g, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = q.concentration.lgamma() - p.concentration.lgamma()
    t3 = (p.concentration - q.concentration) * p.concentration.digamma()
    t4 = (q.rate - p.rate) * (p.concentration / p.rate)
    return t1 + t2 + t3 + t4


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    loc_p, loc_q = p.loc / q.scale, q.loc / q.scale
    t1 = -ratio.log() + loc_p - loc_q
    t3 = (loc_q + (1 + ratio).lgamma() - loc_p).exp()
    return t1 + ratio * euler_constant + t3 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence: two transformed distributions must have the same transforms and events"
        )
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), more)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence: two Independents must reinterpret the same number of dimensions"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    t = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t - (4 * p.scale * q.scale).log()


def _check_events(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {type(p).__name__}s with different event shapes cannot be "
            "computed"
        )


def _trace_of_solved(factor: Tensor, other: Tensor) -> Tensor:
    """The squared Frobenius norm of L^-1 M."""
    shape = factor.shape[:-2] if factor.ndim >= other.ndim else other.shape[:-2]
    n = factor.shape[-1]
    solved = solve_triangular(
        factor.expand((*shape, n, n)), other.expand((*shape, n, other.shape[-1])), upper=False
    )
    return solved.pow(2).sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    _check_events(p, q)
    lq, lp = q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril
    trace = _trace_of_solved(lq, lp)
    m = mahalanobis(lq, q.loc - p.loc)
    return log_diagonal(lq) - log_diagonal(lp) + 0.5 * (trace + m - p.event_shape[0])


def _low_rank_trace(q: Any, root: Tensor) -> Tensor:
    """tr((W W^T + D)^-1 R R^T)."""
    w, d = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    direct = (root.pow(2) / d.unsqueeze(-1)).sum((-2, -1))
    inner = (w.mT / d.unsqueeze(-2)) @ root
    return direct - _trace_of_solved(q._capacitance_tril, inner)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    _check_events(p, q)
    wq, dq, dp = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, p._unbroadcasted_cov_diag
    t1 = log_det(dq, q._capacitance_tril) - log_det(dp, p._capacitance_tril)
    m = low_rank_mahalanobis(wq, dq, q.loc - p.loc, q._capacitance_tril)
    trace = _low_rank_trace(q, p._unbroadcasted_cov_factor) + _low_rank_trace(
        q, dp.sqrt().diag_embed()
    )
    return 0.5 * (t1 + m + trace - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_and_low_rank(p: Any, q: Any) -> Tensor:
    _check_events(p, q)
    wq, dq = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    t1 = log_det(dq, q._capacitance_tril) - 2 * log_diagonal(p._unbroadcasted_scale_tril)
    m = low_rank_mahalanobis(wq, dq, q.loc - p.loc, q._capacitance_tril)
    return 0.5 * (t1 + m + _low_rank_trace(q, p._unbroadcasted_scale_tril) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_and_full(p: Any, q: Any) -> Tensor:
    _check_events(p, q)
    lq = q._unbroadcasted_scale_tril
    dp = p._unbroadcasted_cov_diag
    t1 = 2 * log_diagonal(lq) - log_det(dp, p._capacitance_tril)
    m = mahalanobis(lq, q.loc - p.loc)
    trace = _trace_of_solved(lq, p._unbroadcasted_cov_factor) + _trace_of_solved(
        lq, dp.sqrt().diag_embed()
    )
    return 0.5 * (t1 + m + trace - p.event_shape[0])
