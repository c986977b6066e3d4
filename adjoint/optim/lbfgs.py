"""L-BFGS: steps by an inverse Hessian estimated from the last changes of the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.engine.autodiff.tape.modes import enable_grad, no_grad
from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.ops.shape.reinterpret import view_as_real
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.line_search import LinePoint, StrongWolfe
from adjoint.optim.optimizer import Closure, Optimizer, ParamsT
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.scalars import scalar


class LBFGS(Optimizer):
    """L-BFGS, for deterministic losses; `step` needs a closure.

    It decides by the values it sees, so it cannot be part of a captured step; capture the closure
    instead.

    Args:
        params: parameters, in one group.
        lr: the length of a step, or the first guess of the line search.
        max_iter: iterations per step.
        max_eval: evaluations of the closure per step (default: 1.25 max_iter).
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when loss or parameters change less.
        history_size: changes of the gradient kept.
        line_search_fn: "strong_wolfe" or None.

    Example:
        >>> import adjoint as ad
        >>> w = ad.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = ad.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((w - ad.tensor([1.0, 1.0])) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w
        tensor([1.0000, 1.0000], requires_grad=True)
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = checked(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """What a captured closure depends on: the parameters, not where the search stands."""
        yield "param_groups", self.param_groups

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _numel(self) -> int:
        """How many numbers are searched; those of complex parameters count twice."""
        return sum(p.numel() * (2 if p.dtype.is_complex else 1) for p in self._params)

    def _gather_flat_grad(self) -> Tensor:
        """All gradients as one real vector."""
        parts = []
        for p in self._params:
            grad = p.new_zeros(p.shape) if p.grad is None else p.grad.to_dense()
            parts.append((view_as_real(grad) if grad.dtype.is_complex else grad).reshape(-1))
        return cat(parts, 0)

    def _add_grad(self, step_size: Any, direction: Tensor) -> None:
        """Move all parameters along a flat direction."""
        offset = 0
        for param in self._params:
            p = view_as_real(param) if param.dtype.is_complex else param
            p.add_(direction[offset : offset + p.numel()].view_as(p), alpha=step_size)
            offset += p.numel()

    def _search(self, closure: Closure, start: LinePoint, t: Any, d: Tensor, limit: int) -> Any:
        """A strong Wolfe search; the parameters stay where they are."""
        before = [p.clone() for p in self._params]

        def evaluate(t: Any) -> tuple[float, Tensor]:
            self._add_grad(t, d)
            value = float(closure())
            gradient = self._gather_flat_grad()
            for p, old in zip(self._params, before, strict=True):
                p.copy_(old)
            return value, gradient

        search = StrongWolfe(evaluate, d, start, limit=limit)
        return search.run(t), search.evaluations

    @no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Minimise for at most `max_iter` iterations; returns the loss before them."""
        if closure is None:
            raise TypeError("LBFGS.step: missing closure, a function that returns the loss")
        if CONTEXT.capture is not None:
            raise CaptureError(
                f"LBFGS.step: cannot be captured at {users_line()}: how many iterations it makes, "
                "and where its line search ends, depends on the values of the loss and of the "
                f"gradient of {len(self._params)} parameters, which are not known while tracing. "
                "Call step outside the captured function, and capture the closure instead: "
                "optimizer.step(capture(closure))."
            )
        evaluate = enable_grad()(closure)
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = self.state[self._params[0]]  # its only state, kept with the first parameter
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = evaluate()
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        self._iterate(evaluate, group, state, float(first), grad)
        return first

    def _iterate(
        self, evaluate: Closure, group: Any, state: dict[str, Any], loss: float, grad: Tensor
    ) -> None:
        lr, tiny = scalar(group["lr"]), group["tolerance_change"]
        evaluations = 1
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(grad, state, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            t = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            state["d"], state["t"] = d, t
            slope = grad.dot(d)
            if slope > -tiny:
                break
            used = 0
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                start = LinePoint(0, loss, grad, slope.item())
                limit = group["max_eval"] - evaluations
                point, used = self._search(evaluate, start, t, d, limit)
                t, loss, grad = point.t, point.value, point.gradient
                state["t"] = t
                self._add_grad(t, d)
            else:
                self._add_grad(t, d)
                if not last:
                    loss = float(evaluate())
                    grad = self._gather_flat_grad()
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if (
                last
                or evaluations >= group["max_eval"]
                or grad.abs().max() <= group["tolerance_grad"]
                or d.mul(t).abs().max() <= tiny
                or abs(loss - state["prev_loss"]) < tiny
            ):
                break

    @staticmethod
    def _direction(grad: Tensor, state: dict[str, Any], history: int) -> Tensor:
        """Minus the inverse Hessian times the gradient, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = grad - state["prev_flat_grad"], state["d"].mul(state["t"])
        curvature = y.dot(s)
        if curvature > 1e-10:
            if len(changes) == history:
                for values in (changes, steps, inverses):
                    values.pop(0)
            changes.append(y)
            steps.append(s)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y)
        factors = state.setdefault("al", [None] * history)
        q = grad.neg()
        for i in reversed(range(len(changes))):
            factors[i] = steps[i].dot(q) * inverses[i]
            q.add_(changes[i], alpha=-factors[i])
        r = q.mul(state["H_diag"])
        for i in range(len(changes)):
            r.add_(steps[i], alpha=factors[i] - changes[i].dot(r) * inverses[i])
        return r
