"""Exponential families."""

from __future__ import annotations

from typing import Any

from adjoint.distributions.distribution import Distribution
from adjoint.engine.autodiff.tape.modes import enable_grad
from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.tensor.tensor import Tensor


class ExponentialFamily(Distribution):
    r"""Distributions of density $h(x) \exp(\langle t(x), \theta \rangle - F(\theta))$.

    A subclass states its natural parameters $\theta$, the log normalizer F and the mean of log h;
    entropy then follows (Nielsen, Nock 2010: Entropies and cross-entropies of exponential
    families), and the Kullback-Leibler divergence of two of one family.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self)} does not state _natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not state _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self)} does not state _mean_carrier_measure")

    def entropy(self) -> Tensor:
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*natural)
            gradients = grad(normalizer.sum(), natural, create_graph=True)
        result = -self._mean_carrier_measure + normalizer
        rank = len(self.event_shape)
        for p, g in zip(natural, gradients, strict=True):
            term = p * g
            if rank:
                term = term.reshape((*self._batch_shape, -1)).sum(-1)
            result = result - term
        return result
