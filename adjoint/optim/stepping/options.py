"""The options of optimizers: what each may be, and what a captured step does with it, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.operations.record import is_tensor


@dataclass(frozen=True, slots=True)
class Option:
    """One option: PyTorch's message for a value that is refused, and which values are not.

    A number scales an update, so a captured step reads it at each call (`ParamGroup`); one that is
    `constant` shapes the computation instead, and a step is recorded for each value of it.
    """

    message: str = ""
    accepts: Callable[[Any], bool] | None = None
    constant: bool = False
    pair: bool = False  # a pair, looked at one by one: number {i}, or {n} counted from 1

    def check(self, value: Any) -> None:
        """Refuse a value, or one of a pair of values, that is not accepted."""
        if self.accepts is None:
            return
        for i, one in enumerate(value if self.pair else (value,)):
            if not self.accepts(one):
                raise ValueError(self.message.format(one, i=i, n=i + 1))


def not_negative(value: Any) -> bool:
    """Whether a number is zero or more."""
    return bool(value >= 0)


FLAG = Option()  # a truth value, a name or a count: nothing to refuse
_DECAYS = "weight_decay momentum momentum_decay alpha lr_decay initial_accumulator_value".split()
NOT_NEGATIVE = {name: Option(f"Invalid {name} value: {{}}", not_negative) for name in _DECAYS}
# An option has one meaning in all optimizers; Adafactor, Muon, ... replace rows by their own.
OPTIONS: Mapping[str, Option] = NOT_NEGATIVE | {
    "lr": Option("Invalid learning rate: {}", not_negative),
    "betas": Option(
        "Invalid beta parameter at index {i}: {}", lambda beta: 0 <= beta < 1, pair=True
    ),
    "rho": Option("Invalid rho value: {}", lambda rho: 0 <= rho <= 1),
    "eps": Option("Invalid epsilon value: {}", not_negative, constant=True),
    "etas": Option(
        "Invalid eta values: {0[0]}, {0[1]}",
        lambda etas: 0 < etas[0] < 1 < etas[1],
        constant=True,
    ),
    "step_sizes": Option(constant=True),
    "dampening": Option(),
    "lambd": Option(),
    "t0": Option(),
    "amsgrad": FLAG,
    "centered": FLAG,
    "nesterov": FLAG,
    "maximize": FLAG,
    "decoupled_weight_decay": FLAG,
    "foreach": FLAG,
    "fused": FLAG,
    "capturable": FLAG,
    "differentiable": FLAG,
    # Adafactor's
    "beta2_decay": Option("beta2_decay should be <= 0 but is: {}", lambda decay: decay <= 0),
    "d": Option("Clipping threshold d should be >= 1 but is: {}", lambda d: d >= 1, constant=True),
    # Muon's
    "ns_coefficients": Option(constant=True),
    "ns_steps": Option(constant=True),
    "adjust_lr_fn": FLAG,
    # LBFGS's
    "max_iter": Option(constant=True),
    "max_eval": FLAG,
    "tolerance_grad": FLAG,
    "tolerance_change": FLAG,
    "history_size": FLAG,
    "line_search_fn": FLAG,
}
CONSTANT = frozenset(name for name, option in OPTIONS.items() if option.constant)


def checked(own: Mapping[str, Option] = OPTIONS, /, **options: Any) -> dict[str, Any]:
    """The defaults of an optimizer's groups, each looked at as its row says.

    Args:
        own: the rows, where an optimizer words or bounds one of its own way.
        options: the optimizer's options by name.

    Example:
        >>> checked(lr=0.1, betas=(0.9, 1.5))
        Traceback (most recent call last):
            ...
        ValueError: Invalid beta parameter at index 1: 1.5
    """
    rate = options["lr"]
    if is_tensor(rate) and rate.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    for name, value in options.items():
        own[name].check(value)
    if options.get("fused") and options.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if options.get("fused") and options.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    return options
