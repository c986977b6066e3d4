"""Running passes one after the other, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.fx.graph_module import GraphModule
from adjoint.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager"]


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[[GraphModule], PassResult]:
    """A function that changes a module in place as a pass."""

    def wrapped(graph_module: GraphModule) -> PassResult:
        result = fn(graph_module)
        return result if isinstance(result, PassResult) else PassResult(graph_module, True)

    wrapped.__name__ = getattr(fn, "__name__", type(fn).__name__)
    return wrapped


class PassManager:
    """Runs passes over a module.

    Args:
        passes: the passes, in their order.
        constraints: functions of two passes that say whether the first may come before.
        steps: how often to run them all; it ends when none changes anything.
        run_checks_after_each_pass: whether `check` and `lint` are called after each.
        suppress_check_failures: accepted as PyTorch has it.
    """

    def __init__(
        self,
        passes: Sequence[Callable[..., Any]] | None = None,
        constraints: Sequence[Callable[..., bool]] | None = None,
        steps: int = 1,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Any] = list(passes or [])
        self.constraints: list[Any] = list(constraints or [])
        self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """Add one at the end."""
        self.passes.append(_pass)

    def add_constraint(self, constraint: Callable[..., bool]) -> None:
        """Add a rule of order."""
        self.constraints.append(constraint)

    def check(self, module: GraphModule) -> None:
        """Check what a user of one's own class says must hold."""

    def _validate(self) -> None:
        for place, first in enumerate(self.passes):
            for second in self.passes[place + 1 :]:
                if not all(rule(first, second) for rule in self.constraints):
                    raise RuntimeError(
                        f"pass schedule constraint violated: {first} before {second}"
                    )

    def __call__(self, module: GraphModule) -> PassResult:
        self._validate()
        changed = False
        for _ in range(self.steps):
            again = False
            for one_pass in self.passes:
                result = pass_result_wrapper(one_pass)(module)
                module, again = result.graph_module, again or result.modified
                if self.run_checks_after_each_pass:
                    self.check(module)
                    module.graph.lint()
            module.recompile()
            changed = changed or again
            if not again:
                break
        return PassResult(module, changed)
