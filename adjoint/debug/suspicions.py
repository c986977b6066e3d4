"""`check`: the usual suspicions about a model and a batch, said in words."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

from adjoint.data import DataLoader, Dataset
from adjoint.debug.findings import Finding, Findings
from adjoint.debug.losses import about_loss
from adjoint.engine.core.operations.record import is_tensor
from adjoint.io.checkpoint import rng_state, set_rng_state
from adjoint.nn import Module
from adjoint.nn import functional as F
from adjoint.nn.modules.batchnorm import _NormBase

EXPLODING, VANISHING = 1e3, 1e-7  # of gradients, relative to the weights' own size
LARGE = 50.0  # inputs beyond this are hardly normalised


def check(model: Module, batch: Any, loss: Callable[[Any, Any], Any] | None = None) -> Findings:
    """Run a batch forward and backward and say what looks wrong.

    Looks for constant or unscaled inputs, NaNs, labels outside the classes or all of one class, a
    mode that does not fit, outputs that the loss does not want (probabilities where it wants
    scores, a shape that is not the targets'), parameters that get no gradient, gradients that
    explode or vanish, layers whose results are all zero. Parameters, gradients, buffers and random
    numbers are afterwards what they were.

    Args:
        model: the model.
        batch: `(inputs, targets)`, or the inputs alone.
        loss: of the outputs and targets; by default cross entropy for integer targets, mean
            squared error for others, the sum of the outputs without any.

    Example:
        >>> import adjoint as ad
        >>> model = ad.nn.Linear(4, 3)
        >>> ad.debug.check(model, (ad.randn(8, 4), ad.tensor([0, 1, 2, 0, 1, 2, 0, 7])))
        labels: the largest is 7, but the model's outputs have 3 classes (0 to 2). ...
    """
    require_model_and_batch(model, batch)
    inputs, targets = (
        batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch, None)
    )
    findings = Findings()
    findings += about_inputs(inputs)
    findings += about_mode(model)
    before = rng_state(), kept_elements(model)
    grads = [(p, p.grad) for p in model.parameters()]
    for parameter, _ in grads:
        parameter.grad = None
    zeros: dict[str, int] = {}
    shifts = Shifts()
    hooks = [(m, hook(n)) for n, m in model.named_modules() for hook in (watch(zeros), shifts.hook)]
    handles = [module.register_forward_hook(hook) for module, hook in hooks]
    try:
        outputs = model(inputs)
        if isinstance(outputs, (tuple, list)) and outputs and is_tensor(outputs[0]):
            outputs = outputs if loss is not None else outputs[0]  # as of an LSTM
        findings += about_outputs(outputs, targets)
        if not any(finding.kind == "labels" for finding in findings):
            findings += about_loss(outputs, targets, loss)
        if not any(finding.kind == "labels" for finding in findings):
            value = (loss or default_loss)(outputs, targets)
            findings += after_backward(model, value, findings, shifts.undone)
        findings += [
            Finding("dead", f"every result of {name} is zero: nothing passes through it.")
            for name in zeros
        ]
    finally:
        for handle in handles:
            handle.remove()
        for parameter, grad in grads:
            parameter.grad = grad
        set_rng_state(before[0])
        for held, old in before[1]:
            held.data.copy_(old)
    return findings


def kept_elements(model: Module) -> list[tuple[Any, Any]]:
    """Parameters and buffers with copies: an embedding's `max_norm`, or a hook that steps an
    optimizer, changes parameters too. Those that get their shape only now have nothing to keep.
    """
    held = [*model.parameters(), *model.buffers()]
    return [(t, t.detach().clone()) for t in held if not hasattr(t, "materialize")]


def require_model_and_batch(model: Any, batch: Any) -> None:
    """Raise for what people give in their place."""
    if not isinstance(model, Module):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"check: wants a model and a batch, received {what} for the model")
    if isinstance(batch, (DataLoader, Dataset)):
        raise TypeError(
            f"check: wants one batch, received a {type(batch).__name__}. Pass "
            "next(iter(DataLoader(data, batch_size=32)))"
        )
    tensors = batch if isinstance(batch, (tuple, list)) else (batch,)
    if any(is_tensor(x) and not x.numel() for x in tensors):
        raise ValueError("check: the batch is empty")


def after_backward(
    model: Module, loss: Any, so_far: Findings, undone: Container[str]
) -> Iterator[Finding]:
    """Run backward, if there is anything to go back to, and look at the gradients."""
    if not loss.requires_grad:
        yield Finding(
            "unused",
            "the loss depends on no parameter that learns: forward runs under no_grad, detaches "
            "its result, or takes argmax or item() of it.",
        )
        return
    loss.backward()
    if bool(loss.isfinite().all().item()):
        yield from about_gradients(model, undone)
    elif not any(finding.kind in ("inputs", "outputs") for finding in so_far):
        yield Finding(
            "loss", f"it is {float(loss.sum().item())}: debug.break_on_nonfinite() finds the line."
        )


def watch(zeros: dict[str, int]) -> Callable[[str], Callable[..., None]]:
    """Hooks, by a module's name, that note modules whose results are all zero."""

    def named(name: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            if is_tensor(output) and output.numel() and not bool((output != 0).any().item()):
                zeros[name or type(module).__name__] = output.numel()

        return hook

    return named


class Shifts:
    """Biases whose layer a normalisation follows, which subtracts the mean and with it the bias.

    They have no gradient, and need none.
    """

    def __init__(self) -> None:
        self.undone: set[str] = set()
        self.made: dict[int, tuple[str, Any]] = {}  # results, which are kept so that none is reused

    def hook(self, name: str) -> Callable[..., None]:
        """A hook, by a module's name, that notes what a normalisation of each channel follows."""

        def note(module: Any, args: Any, output: Any) -> None:
            by_batch = isinstance(module, _NormBase) and (
                module.training or not module.track_running_stats
            )
            if by_batch and args and id(args[0]) in self.made:
                self.undone.add(f"{self.made[id(args[0])][0]}.bias")
            self.made.setdefault(id(output), (name, output))

        return note


def default_loss(outputs: Any, targets: Any) -> Any:
    """A loss that fits the targets."""
    if targets is None:
        return outputs.float().sum()
    if targets.dtype.is_floating_point:
        return F.mse_loss(outputs, targets.reshape(outputs.shape))
    if classes_come_second(outputs, targets):
        return F.cross_entropy(outputs, targets)
    return F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))


def classes_come_second(outputs: Any, targets: Any) -> bool:
    """Whether scores are `(N, classes, ...)`, as `cross_entropy` wants them.

    Otherwise they come last, as in a language model's `(N, length, classes)`.
    """
    return outputs.ndim > 1 and (*outputs.shape[:1], *outputs.shape[2:]) == tuple(targets.shape)


def about_inputs(inputs: Any) -> Iterator[Finding]:
    """Suspicions about the inputs."""
    if not is_tensor(inputs) or not inputs.dtype.is_floating_point:
        return
    if not bool(inputs.isfinite().all().item()):
        yield Finding("inputs", "they hold NaN or infinity. Clean the data before training.")
        return
    least, most = float(inputs.min().item()), float(inputs.max().item())
    if least == most:
        yield Finding("inputs", f"every element is {least:g}: the data was not loaded, or lost.")
    elif max(abs(least), abs(most)) > LARGE:
        yield Finding(
            "inputs",
            f"they range from {least:g} to {most:g}. Networks learn best from values around "
            "-1 to 1: divide, or subtract the mean and divide by the standard deviation.",
        )
    if inputs.ndim > 1 and inputs.shape[0] > 1:
        alike = (inputs == inputs[:1]).reshape(inputs.shape[0], -1).all(dim=1)
        if bool(alike.all().item()) and least != most:
            yield Finding("inputs", "all samples of the batch are the same.")


def about_mode(model: Module) -> Iterator[Finding]:
    """Suspicions about train and eval."""
    modes = {m.training for m in model.modules()}
    if modes == {False}:
        yield Finding(
            "mode",
            "the model is in eval mode: dropout and batch norm do not train. Call model.train().",
        )
    elif len(modes) == 2:
        names = [n for n, m in model.named_modules() if n and not m.training]
        yield Finding(
            "mode", f"some modules are in eval mode, others train: {', '.join(names[:5])}."
        )
    if not any(p.requires_grad for p in model.parameters()):
        yield Finding("mode", "no parameter requires a gradient: nothing can be learnt.")


def about_outputs(outputs: Any, targets: Any) -> Iterator[Finding]:
    """Suspicions about what the model gives, and labels."""
    if is_tensor(outputs) and not bool(outputs.isfinite().all().item()):
        yield Finding(
            "outputs", "they hold NaN or infinity: debug.break_on_nonfinite() finds the operation."
        )
    if not is_tensor(outputs) or not is_tensor(targets) or targets.dtype.is_floating_point:
        return
    least, most = int(targets.min().item()), int(targets.max().item())
    classes = int(outputs.shape[1 if classes_come_second(outputs, targets) else -1])
    if most >= classes:
        yield Finding(
            "labels",
            f"the largest is {most}, but the model's outputs have {classes} classes (0 to "
            f"{classes - 1}). Count labels from 0, or give the last layer more outputs.",
        )
    if least < 0 and least != -100:
        yield Finding("labels", f"the smallest is {least}; classes count from 0 (-100 is ignored).")


def about_gradients(model: Module, undone: Container[str] = ()) -> Iterator[Finding]:
    """Suspicions about gradients, but for those of biases that have none by rights."""
    unused, exploding, vanishing = [], [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if p.grad is None:
            unused.append(name)
            continue
        size = float(p.grad.detach().float().norm().item())
        weight = float(p.detach().float().norm().item()) + 1e-12
        if not size < EXPLODING * max(weight, 1.0):
            exploding.append(f"{name} ({size:.3g})")
        elif size < VANISHING * weight and name not in undone:
            vanishing.append(f"{name} ({size:.3g})")
    if unused:
        yield Finding(
            "unused",
            f"no gradient reaches {', '.join(unused[:8])}: forward does not use it, or cuts its "
            "result off (detach, no_grad, argmax, item).",
        )
    if exploding:
        yield Finding(
            "gradients",
            f"they explode in {', '.join(exploding[:5])}: take a smaller learning rate, clip them "
            "(nn.utils.clip_grad_norm_), or add normalisation.",
        )
    if vanishing:
        yield Finding(
            "gradients",
            f"they vanish in {', '.join(vanishing[:5])}: look for saturated activations, missing "
            "normalisation or residual connections.",
        )
