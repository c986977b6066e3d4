"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import concrete_values
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor


class MixtureSameFamily(Distribution):
    """One of K components, chosen by a categorical distribution.

    Args:
        mixture_distribution: a Categorical over K.
        component_distribution: a distribution whose last batch dimension is K.

    Example:
        >>> import adjoint as ad
        >>> D = ad.distributions
        >>> mix = D.Categorical(ad.tensor([0.5, 0.5]))
        >>> D.MixtureSameFamily(mix, D.Normal(ad.tensor([-1.0, 1.0]), ad.ones(2))).mean
        tensor(0.)
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                "torch.distributions.Distribution"
            )
        inner = component_distribution.batch_shape
        for a, b in zip(
            reversed(mixture_distribution.batch_shape), reversed(inner[:-1]), strict=False
        ):
            if a != 1 and b != 1 and a != b:
                raise ShapeValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is "
                    f"not compatible with `component_distribution.batch_shape`({inner[:-1]})"
                )
        mixed = mixture_distribution.logits.shape[-1]
        if inner and mixed != inner[-1]:
            raise ShapeValueError(
                f"`mixture_distribution component` ({mixed}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({inner[-1]})"
            )
        self._num_component = inner[-1]
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(inner[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = self._like(batch_shape, _instance)
        inner = Size((*batch_shape, self._num_component))
        expanded._component_distribution = self._component_distribution.expand(inner)
        expanded._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        expanded._num_component = self._num_component
        expanded._event_ndims = self._event_ndims
        return expanded

    @constraints.dependent_property
    def support(self) -> Any:
        """The components' support."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution over components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _probs(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._probs() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """By the law of total variance."""
        probs, dim = self._probs(), -1 - self._event_ndims
        within = (probs * self.component_distribution.variance).sum(dim)
        spread = self.component_distribution.mean - self._pad(self.mean)
        return within + (probs * spread.pow(2)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        x = self._pad(x)
        return (self.component_distribution.cdf(x) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args and concrete_values():
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        return (log_prob + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            dim = samples.ndim - self._event_ndims - 1
            shape = (*samples.shape[:dim], 1, *self._event_shape)
            index = chosen.expand(samples.shape[:dim]).reshape(
                (*samples.shape[:dim], 1, *(1,) * self._event_ndims)
            )
            return samples.gather(dim, index.expand(shape)).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
