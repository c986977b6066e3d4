"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.elementwise.bounds import maximum
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move_quotient, new_counter, scalar
from adjoint.optim.stepping.terms import average, average_square, decay


@own_rule
class Adam(RuleOptimizer):
    r"""Adam.

    .. math::
        m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
        v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \quad
        \theta_t = \theta_{t-1}
            - \frac{\gamma \, m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon}

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: added to the gradient times the parameter.
        amsgrad: divide by the largest average so far.
        maximize: ascend.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.
        foreach, capturable, differentiable, fused: as PyTorch's; one rule serves them all.

    Example:
        >>> import adjoint as ad
        >>> w = ad.ones(1, requires_grad=True)
        >>> optimizer = ad.optim.Adam([w], lr=0.5)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.5000], requires_grad=True)
    """

    listed = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if is_tensor(lr) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if is_tensor(betas[0]) != is_tensor(betas[1]):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if is_tensor(beta) and foreach and not capturable:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if is_tensor(beta) and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        defaults = checked(
            lr=lr,
            betas=tuple(map(scalar, betas)),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, defaults)

    def refuse_sparse(self) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        state = {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }
        return state | {"max_exp_avg_sq": zeros_like(p)} if group["amsgrad"] else state

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
        step = advance(state["step"])
        grad = decay(p, grad, lr, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        average(mean, grad, beta1)
        average_square(square, grad, beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest.copy_(maximum(largest.clone() if group["differentiable"] else largest, square))
            square = largest
        # A product: quotients and roots are what this rule takes longest for.
        below = (square.sqrt() * (1 - beta2**step) ** -0.5).add(group["eps"])
        above = mean.clone() if group["differentiable"] else mean
        move_quotient(p, above, below, -lr / (1 - beta1**step))


def adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adam in place."""
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    run(
        Adam,
        params,
        grads,
        states | {"max_exp_avg_sq": max_exp_avg_sqs} if amsgrad else states,
        grad_scale=grad_scale,
        found_inf=found_inf,
        foreach=foreach,
        capturable=capturable,
        differentiable=differentiable,
        fused=fused,
        decoupled_weight_decay=decoupled_weight_decay,
        amsgrad=amsgrad,
        betas=(scalar(beta1), scalar(beta2)),
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )


def _single_tensor_adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    amsgrad: bool,
    has_complex: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
    capturable: bool,
    differentiable: bool,
    decoupled_weight_decay: bool,
) -> None:
    """`adam` of one parameter after the other, as programs that copy PyTorch's call it."""
    adam(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, False, capturable,
        differentiable, None, grad_scale, found_inf, has_complex, decoupled_weight_decay,
        amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps,
        maximize=maximize,
    )  # fmt: skip
