"""The Kullback-Leibler divergence: a table of pairs of distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint.engine.tensor.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
_FOUND: dict[tuple[type, type], Callable[[Any, Any], Tensor] | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Say how the divergence of two kinds of distribution is computed; a decorator.

    The most specific registered pair is used, by order of inheritance.
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):  # any class, as in PyTorch: libraries have bases of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def declare(fn: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = fn
        _FOUND.clear()
        return fn

    return declare


def _dispatch(p: type, q: type) -> Callable[[Any, Any], Tensor] | None:
    """The rule of the pair whose classes are nearest in the orders of inheritance."""
    pairs = [(a, b) for a, b in _KL_REGISTRY if issubclass(p, a) and issubclass(q, b)]
    if not pairs:
        return None
    by_p = min(pairs, key=lambda ab: (p.__mro__.index(ab[0]), q.__mro__.index(ab[1])))
    by_q = min(pairs, key=lambda ab: (q.__mro__.index(ab[1]), p.__mro__.index(ab[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({p.__name__}, {q.__name__}). Please register_kl("
            f"{by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Any, q: Any) -> Tensor:
    r"""$KL(p \| q) = \int p(x) \log (p(x) / q(x)) dx$, in closed form.

    >>> import adjoint as ad
    >>> D = ad.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    key = type(p), type(q)
    if key not in _FOUND:
        _FOUND[key] = _dispatch(*key)
    rule = _FOUND[key]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return rule(p, q)
