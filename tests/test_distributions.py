"""Samples of distributions against SciPy's laws, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy

import adjoint as ad

D = ad.distributions


def law(name: str, *args: float, **options: float) -> Callable[[], Any]:
    """A law of SciPy's, whose statistics take a second to load: when it is asked for."""
    return lambda: getattr(scipy.stats, name)(*args, **options)


LAWS: list[tuple[Any, Callable[[], Any]]] = [
    (lambda: D.Normal(1.0, 2.0), law("norm", 1, 2)),
    (lambda: D.Uniform(-1.0, 2.0), law("uniform", -1, 3)),
    (lambda: D.Exponential(2.0), law("expon", scale=0.5)),
    (lambda: D.Laplace(1.0, 2.0), law("laplace", 1, 2)),
    (lambda: D.Cauchy(1.0, 2.0), law("cauchy", 1, 2)),
    (lambda: D.Gamma(0.4, 2.0), law("gamma", 0.4, scale=0.5)),
    (lambda: D.Chi2(3.0), law("chi2", 3)),
    (lambda: D.Beta(0.7, 2.0), law("beta", 0.7, 2)),
    (lambda: D.StudentT(3.0), law("t", 3)),
    (lambda: D.FisherSnedecor(3.0, 5.0), law("f", 3, 5)),
    (lambda: D.Gumbel(1.0, 2.0), law("gumbel_r", 1, 2)),
    (lambda: D.HalfNormal(2.0), law("halfnorm", scale=2)),
    (lambda: D.HalfCauchy(2.0), law("halfcauchy", scale=2)),
    (lambda: D.LogNormal(0.3, 0.5), law("lognorm", 0.5, scale=1.3498588)),
    (lambda: D.Pareto(1.5, 3.0), law("pareto", 3, scale=1.5)),
    (lambda: D.GeneralizedPareto(0.0, 1.0, 0.3), law("genpareto", 0.3)),
    (lambda: D.Weibull(2.0, 1.5), law("weibull_min", 1.5, scale=2)),
    (lambda: D.InverseGamma(3.0, 2.0), law("invgamma", 3, scale=2)),
    (lambda: D.VonMises(0.0, 2.0), law("vonmises", 2)),
]


@pytest.mark.parametrize(("make", "expected"), LAWS, ids=map(str, range(len(LAWS))))
def test_samples_follow_the_law(make: Any, expected: Any) -> None:
    ad.manual_seed(3)
    sample = make().sample((4000,)).numpy()
    assert scipy.stats.kstest(sample, expected().cdf).pvalue > 1e-3


def test_bad_parameters_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="support"):
        D.Exponential(1.0).log_prob(ad.tensor(-1.0))
    with pytest.raises(ValueError, match="not both"):
        D.Bernoulli()
    with pytest.raises(NotImplementedError, match="KL"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0))


@pytest.mark.parametrize("kind", [int, np.int64, ad.tensor])
def test_numbers_of_samples_of_other_kinds(kind: Any) -> None:
    # The generator counts what is drawn: only in whole numbers of Python's own does it go on.
    categorical = D.Categorical(ad.tensor([1.0, 2.0])).expand((2,))
    mixture = D.MixtureSameFamily(categorical, D.Normal(ad.zeros(2, 2), 1.0))
    drawn = []
    for count in (3, kind(3)):
        ad.manual_seed(0)
        drawn.append(
            [
                categorical.sample((count, 2)),
                mixture.sample((count,)),
                D.Multinomial(4, ad.ones(3)).sample((count,)),
                ad.multinomial(ad.ones(2, 8), count),
                ad.rand(4),
            ]
        )
    for wanted, found in zip(*drawn, strict=True):
        ad.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert type(ad.default_generator.get_offset()) is int


def test_second_derivative_of_a_gamma_sample_is_refused() -> None:
    a = ad.tensor([2.0], requires_grad=True)
    (g,) = ad.autograd.grad(D.Gamma(a, 1.0).rsample().sum(), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        g.sum().backward()


# A quantity of a parameter, near an end of it -> its value, of mathematics, and its slope.
NEAR_THE_ENDS: list[tuple[Callable[[Any], Any], float, float, float]] = [
    (lambda p: D.Geometric(p).entropy(), 1e-30, 70.07755, -1e30),
    (lambda p: D.Geometric(p).entropy(), 0.5, 1.3862944, -2.7725887),
    (lambda p: D.Bernoulli(p).entropy(), 1 - 2**-20, 1.4174407e-05, -13.862943),
    (lambda x: D.Bernoulli(logits=x).log_prob(ad.ones(())), 12.0, -6.1441956e-06, 6.1441768e-06),
    (lambda x: D.Bernoulli(logits=x).log_prob(ad.zeros(())), -12.0, -6.1441956e-06, -6.1441768e-06),
    (lambda x: D.Bernoulli(logits=x).log_prob(ad.ones(())), 0.0, -0.6931472, 0.5),
    (lambda x: D.ContinuousBernoulli(logits=x).mean, -1e4, 0.06272575, 0.0),
    (lambda x: D.Normal(-1e30, x).cdf(ad.zeros(())), 1e-10, 1.0, 0.0),
]


@pytest.mark.parametrize("case", NEAR_THE_ENDS, ids=map(str, range(len(NEAR_THE_ENDS))))
@pytest.mark.parametrize("compiled", [False, True])
def test_quantities_near_the_ends_of_parameters(case: Any, compiled: bool) -> None:
    quantity, at, value, slope = case
    run = ad.func.grad_and_value(quantity)
    found_slope, found = (ad.compile(run) if compiled else run)(ad.tensor(at))
    assert found.item() == pytest.approx(value, rel=2e-5)
    assert found_slope.item() == pytest.approx(slope, rel=2e-5)


def test_a_distribution_of_ones_own_expands() -> None:
    class Scaled(D.Distribution):
        arg_constraints: dict[str, Any] = {}

        def __init__(self, scale: ad.Tensor, validate_args: Any = None) -> None:
            self.scale = scale
            super().__init__(scale.shape, validate_args=validate_args)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Scaled, _instance)
            new.scale = self.scale.expand(batch_shape)
            super(Scaled, new).__init__(new.scale.shape, validate_args=False)
            return new

    class Further(Scaled):
        def __init__(self) -> None:
            super().__init__(ad.ones(2))

    assert Scaled(ad.ones(2)).expand((3, 2)).batch_shape == (3, 2)
    with pytest.raises(NotImplementedError, match="Further of Scaled"):
        Further().expand((3, 2))


def test_an_independent_of_ones_own_expands() -> None:
    class Passing(D.Independent):
        @property
        def _validate_args(self) -> Any:
            return self.base_dist._validate_args

        @_validate_args.setter
        def _validate_args(self, value: Any) -> None:
            self.base_dist._validate_args = value

    one = Passing(D.Normal(ad.zeros(2), 1.0, validate_args=False), 1, validate_args=False)
    expanded = one.expand((3,))
    assert (type(expanded), expanded.batch_shape, expanded.event_shape) == (Passing, (3,), (2,))
    assert expanded.base_dist._validate_args is False


def test_the_mode_of_a_density_without_bound() -> None:
    """Every corner of the simplex is one: the first is named, as PyTorch does."""
    rows = ad.tensor([[0.6, 0.8, 0.9], [0.8, 0.9, 0.6], [2.0, 3.0, 1.0]])
    mode = ad.distributions.Dirichlet(rows).mode
    assert mode.tolist()[:2] == [[1.0, 0.0, 0.0]] * 2
    assert mode[2].tolist() == pytest.approx([1 / 3, 2 / 3, 0.0])
    assert ad.distributions.Beta(0.7, 0.9).mode.item() == 1.0
