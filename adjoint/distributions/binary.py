"""Distributions whose parameter is a probability, or its logit."""

from __future__ import annotations

from typing import Any

from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import (
    all_numbers,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from adjoint.engine.tensor.tensor import Tensor


class Binary(Distribution):
    """What has `probs` and `logits`, of which one is given and the other follows."""

    def _set_parameter(self, probs: Any, logits: Any) -> tuple[int, ...]:
        """Keep the one given; returns its batch shape."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        (value,) = broadcast_all(given)
        self.__dict__["logits" if probs is None else "probs"] = value
        return () if all_numbers(given) else tuple(value.shape)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        probs = self.__dict__.get("probs")
        return self.logits if probs is None or not self._by_probs else probs

    @property
    def _by_probs(self) -> bool:
        names = [name for name in self.__dict__ if name in ("probs", "logits")]
        return bool(names) and names[0] == "probs"

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)
