"""The base of all distributions."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.utils import concrete_values, lazy_property
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor


class Distribution:
    """A probability distribution, or a batch of them.

    A sample has shape sample_shape + batch_shape + event_shape: draws, independent distributions,
    and the dimensions of one (multivariate) value.

    Args:
        batch_shape: how many distributions there are.
        event_shape: the shape of one value.
        validate_args: whether parameters and values are checked; by default they are.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Any = {}
    support: Any = None
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check their arguments."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected a bool, received {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and concrete_values():
            self._check_parameters()
        super().__init__()  # a class may be a Module too

    def _check_parameters(self) -> None:
        for name, constraint in self._constraints().items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _constraints(self) -> dict[str, Any]:
        return self.arg_constraints

    def _like(self, batch_shape: Any, instance: Any, cls: Any = None) -> Any:
        """A bare distribution of the same kind, for `expand`."""
        bare = instance if instance is not None else type(self).__new__(cls or type(self))
        bare._batch_shape = Size(batch_shape)
        bare._event_shape = self._event_shape
        bare._validate_args = self._validate_args
        return bare

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """What a class's `expand` fills in: a bare distribution of this kind."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with a larger batch; parameters are views."""
        batch_shape = Size(batch_shape)
        expanded = self._like(batch_shape, _instance)
        for name, constraint in self._constraints().items():
            if name in self.__dict__:
                value = self.__dict__[name]
                rank = value.ndim - self._event_rank(name, constraint)
                expanded.__dict__[name] = value.expand((*batch_shape, *value.shape[rank:]))
        self._expand_rest(expanded, batch_shape)
        return expanded

    def _event_rank(self, name: str, constraint: Any) -> int:
        return int(constraint.event_dim)

    def _expand_rest(self, expanded: Any, batch_shape: Size) -> None:
        """Give an expanded distribution what is not a parameter."""

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self)} does not implement mean")

    @property
    def mode(self) -> Tensor:
        """The mode."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self)} does not implement variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples that differentiate by the parameters."""
        raise NotImplementedError(f"{type(self)} does not implement rsample")

    def sample_n(self, n: int) -> Tensor:
        """n samples; `sample((n,))` is the present form."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at a value."""
        raise NotImplementedError(f"{type(self)} does not implement log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        raise NotImplementedError(f"{type(self)} does not implement cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value at which the cdf is a probability."""
        raise NotImplementedError(f"{type(self)} does not implement icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a finite support, along a new first dimension."""
        raise NotImplementedError(f"{type(self)} does not implement enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self)} does not implement entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        rank = len(self._event_shape)
        if tuple(value.shape[value.ndim - rank :]) != tuple(self._event_shape):
            raise ShapeValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        expected = Size((*self._batch_shape, *self._event_shape))
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ShapeValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {expected}."
                )
        if not concrete_values():
            return
        try:
            support = self.support
        except NotImplementedError:
            support = None
        if support is None:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        names = [name for name in self._constraints() if name in self.__dict__]
        shown = ", ".join(f"{name}: {_show(self.__dict__[name])}" for name in names)
        return f"{type(self).__name__}({shown})"


def _show(value: Any) -> str:
    return f"{value}" if value.numel() == 1 else f"{value.shape}"
