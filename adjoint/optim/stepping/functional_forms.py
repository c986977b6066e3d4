"""Functional forms: one step of a rule on lists of parameters, gradients and state, in place.

PyTorch keeps them beside its optimizers (`torch.optim.adam.adam`), and optimizers that libraries
write call them. Each is the optimizer's own rule, applied parameter by parameter.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.stepping.rules import RuleOptimizer

Tensors = list[Tensor]
States = dict[str, list[Any]]  # by the names that the optimizer's state has


def run(
    kind: type[RuleOptimizer],
    params: Tensors,
    grads: Tensors,
    states: States,
    *,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    counter: type = Tensor,
    **options: Any,
) -> None:
    """One step of the rule of `kind`; entries of the state that the rule makes are put in lists.

    `counter` is what counts of steps are in `states["step"]`.
    """
    name = kind.__name__.lower()
    if not all(isinstance(step, counter) for step in states.get("step", ())):
        raise RuntimeError(
            f"{name}: `state_steps` argument must contain a list of "
            + ("singleton tensors" if counter is Tensor else f"{counter.__name__}s")
        )
    _check_lengths(name, params, grads, states)
    if options.get("foreach") and options.get("differentiable"):
        raise AssertionError(
            f"{name}: foreach=True does not support differentiable=True. Leave one of them out."
        )
    if grad_scale is not None or found_inf is not None:
        if not options.get("fused"):
            raise AssertionError(
                f"{name}: grad_scale and found_inf are taken with fused=True alone; received "
                f"fused={options.get('fused')}. Unscale the gradients before the step."
            )
        if found_inf is not None and found_inf.item():
            return
        if grad_scale is not None:
            for grad in grads:
                grad.div_(grad_scale)
    # The rule reads nothing else of an optimizer (Note [own rules]).
    rule = kind.__new__(kind)
    rule.state = defaultdict(dict)
    # A plain dict: numbers given to a call are those of that call, no group's to be read later.
    group: Any = {"foreach": None, "fused": None, "differentiable": False, **options}
    for i, (p, grad) in enumerate(zip(params, grads, strict=True)):
        entry = {key: of_key[i] for key, of_key in states.items() if of_key[i] is not None}
        rule.state[p] = entry
        rule._apply(p, grad, group)
        for key, value in entry.items():
            if states[key][i] is not value:
                states[key][i] = value


def _check_lengths(name: str, params: Tensors, grads: Tensors, states: States) -> None:
    lists = {"gradients": grads, **{f"entries of {key!r}": v for key, v in states.items()}}
    for what, values in lists.items():
        if len(values) != len(params):
            raise ValueError(
                f"{name}: received {len(params)} parameters and {len(values)} {what}; "
                "there must be one for each parameter."
            )
