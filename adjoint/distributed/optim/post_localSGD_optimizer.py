"""An optimizer after whose steps parameters are averaged now and then."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.distributed.algorithms.model_averaging.averagers import ModelAverager
from adjoint.optim.optimizer import Optimizer


class PostLocalSGDOptimizer(Optimizer):
    """Steps of another optimizer, each followed by what an averager does.

    Args:
        optim: the optimizer.
        averager: says when parameters are averaged, such as a `PeriodicModelAverager`.
    """

    elementwise = False

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The optimizer's state."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, and how many steps the averager has counted."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
            return
        warnings.warn(
            "Loaded state dict does not contain a step counter for an averager. Setting step "
            "counter to 0.",
            stacklevel=2,
        )
        self.averager.step = 0

    def step(self, closure: Any = None) -> Any:
        """A step of the optimizer, and of the averager."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters."""
        self.optim.add_param_group(param_group)
