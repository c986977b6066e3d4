"""Limiting gradients by their joint norm or element by element."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.backends.array.lists.many import bundles, for_each, join, update_many
from adjoint.engine.core.dtype import float32, float64
from adjoint.engine.core.state.loading import brought
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.utils.clip_on_device import clip_norm_at_once, clip_values_at_once, factor_for

Tensors = Tensor | Iterable[Tensor]
_EXACT = (float32, float64)


def _listed(tensors: Tensors, what: str = "") -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    if hasattr(tensors, "parameters") and not hasattr(tensors, "__iter__"):
        raise TypeError(
            f"expected tensors, received {type(tensors).__name__}: pass its parameters()"
        )
    generator = isinstance(tensors, types.GeneratorType)
    listed = list(tensors)
    if what and generator and not listed:
        warnings.warn(
            f"`{what}` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    return listed


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of tensors taken together, as if they were one vector.

    Of tensors that processes have parts of (DTensors) it is the norm of the whole ones, a DTensor
    too; every process calls it.

    Args:
        tensors: a tensor or several.
        norm_type: the order of the norm; may be inf.
        error_if_nonfinite: whether a norm of nan or infinity is an error.
        foreach: False computes one norm for each tensor; otherwise small ones share one.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.utils.get_total_norm([ad.tensor([3.0]), ad.tensor([4.0])])
        tensor(5.)
    """
    listed = _listed(tensors)
    if not listed:
        return zeros(())
    if any(hasattr(tensor, "to_local") for tensor in listed):
        return _norm_over_processes(listed, float(norm_type), error_if_nonfinite, foreach)
    with no_grad():
        where = listed[0].device
        parts = listed if foreach is False else _joined(listed, float(norm_type))
        norms = for_each(lambda t: t.norm(float(norm_type)).to(where), [[t] for t in parts])
        alone = len(norms) == 1 and norm_type > 0
        total: Tensor = norms[0] if alone else stack(norms).norm(float(norm_type))
        if error_if_nonfinite and not bool(total.isfinite()):
            raise RuntimeError(
                f"The total norm of order {float(norm_type)} for gradients from `parameters` is "
                "non-finite, so it cannot be clipped. To disable this error and scale the "
                "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
            )
        return total


def _joined(tensors: list[Tensor], norm_type: float) -> list[Tensor]:
    """The tensors, or vectors that hold many of them, where that gives the same norm."""
    if norm_type <= 0:  # the number of nonzero norms is not that of nonzero elements
        return tensors
    together, alone = bundles(tensors)
    exact = [tensors[rows[0]].dtype in _EXACT for rows in together]  # halves round each norm
    alone += [i for rows, e in zip(together, exact, strict=True) if not e for i in rows]
    joined = [
        join([tensors[i] for i in rows]) for rows, e in zip(together, exact, strict=True) if e
    ]
    return joined + [tensors[i] for i in alone]


def _apply(rule: Callable[[Tensor], Any], grads: list[Tensor], foreach: bool | None) -> None:
    """An element by element rule on every gradient, in place."""
    if foreach is not False:
        update_many(rule, grads)
        return
    for_each(rule, [[grad] for grad in grads], elementwise=True)


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by `max_norm / total_norm` where that is less than one."""
    grads = [grad for p in _listed(parameters) if (grad := p.grad) is not None]
    if not grads:
        return
    grads = [g.to_local() if hasattr(g, "to_local") else g for g in grads]
    total_norm = total_norm.full_tensor() if hasattr(total_norm, "full_tensor") else total_norm
    with no_grad():
        # Multiplying by one costs little, and spares a branch on a tensor's value.
        factor = factor_for(total_norm, float(max_norm))
        here = factor.device
        _apply(
            lambda grad: grad.mul_(factor if grad.device == here else factor.to(grad.device)),
            grads,
            foreach,
        )


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their joint norm is at most `max_norm`.

    Args:
        parameters: the tensors whose gradients are meant.
        max_norm: the largest norm allowed.
        norm_type: the order of the norm; may be inf.
        error_if_nonfinite: whether a norm of nan or infinity is an error.
        foreach: False goes tensor by tensor; otherwise small gradients are scaled at once.

    Returns:
        The norm before clipping.

    Example:
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.zeros(2))
        >>> p.grad = ad.tensor([3.0, 4.0])
        >>> ad.nn.utils.clip_grad_norm_(p, 1.0)
        tensor(5.)
        >>> p.grad
        tensor([0.6000, 0.8000])
    """
    listed = _listed(parameters, "parameters")
    grads = [grad for p in listed if (grad := p.grad) is not None]
    if foreach is not False and not error_if_nonfinite and norm_type > 0:
        with no_grad():
            norm = clip_norm_at_once(grads, float(max_norm), float(norm_type))
        if norm is not None:
            return norm
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(listed, max_norm, total, foreach)
    return total


def _norm_over_processes(
    tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool, foreach: bool | None
) -> Tensor:
    """The joint norm of tensors some of which are DTensors, cut over their `split_over` groups."""
    if norm_type <= 0:
        raise NotImplementedError(
            f"get_total_norm: of tensors that processes have parts of, the norm must be of a "
            f"positive order or inf, received {norm_type}"
        )
    parts: dict[Any, list[Tensor]] = {}
    first: Any = None
    for tensor in tensors:
        each: Any = tensor.detach()
        if not hasattr(each, "to_local"):
            parts.setdefault((), []).append(each)
            continue
        first = each if first is None else first
        if any(placement.is_partial() for placement in each.placements):
            parts.setdefault((), []).append(each.full_tensor())
        else:
            parts.setdefault(each.split_over, []).append(each.to_local())
    norms = []
    largest = norm_type == float("inf")
    operations = brought("adjoint.distributed.communication.operations")
    combine = operations.RedOpType.MAX if largest else operations.RedOpType.SUM
    for groups, local in parts.items():
        filled = [part for part in local if part.numel()]  # a process may have no rows
        none = local[0].new_zeros(())
        norm = get_total_norm(filled, norm_type, False, foreach) if filled else none
        with no_grad():
            for group in groups:
                # In doubles: powers of a norm that a half can hold are beyond what it can.
                power = norm if largest else norm.double() ** norm_type
                power = operations.all_reduce(power, combine, group)
                norm = power if largest else (power ** (1.0 / norm_type)).to(norm.dtype)
        norms.append(norm)
    return first.replicated(get_total_norm(norms, norm_type, error_if_nonfinite))


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place."""
    bound = float(clip_value)
    grads = [grad for p in _listed(parameters) if (grad := p.grad) is not None]
    with no_grad():
        if foreach is not False and clip_values_at_once(grads, bound):
            return
        _apply(lambda grad: grad.clamp_(min=-bound, max=bound), grads, foreach)
