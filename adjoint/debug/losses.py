"""Suspicions about outputs, targets and the loss between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint import nn
from adjoint.debug.findings import Finding
from adjoint.engine.core.operations.record import is_tensor
from adjoint.nn import functional as F

SAMPLES = 16  # labels of fewer may well be all of one class
CLOSE = 1e-3  # to one, of probabilities that add up

LOSSES: dict[Any, str] = {
    nn.CrossEntropyLoss: "cross entropy",
    F.cross_entropy: "cross entropy",
    nn.NLLLoss: "log-likelihood",
    F.nll_loss: "log-likelihood",
    nn.BCEWithLogitsLoss: "binary",
    F.binary_cross_entropy_with_logits: "binary",
    nn.BCELoss: "elementwise",
    F.binary_cross_entropy: "elementwise",
    nn.MSELoss: "elementwise",
    F.mse_loss: "elementwise",
    nn.L1Loss: "elementwise",
    F.l1_loss: "elementwise",
    nn.SmoothL1Loss: "elementwise",
    F.smooth_l1_loss: "elementwise",
    nn.HuberLoss: "elementwise",
    F.huber_loss: "elementwise",
}
WITHIN_ONE = (nn.BCELoss, nn.BCEWithLogitsLoss)


def about_loss(
    outputs: Any, targets: Any, loss: Callable[[Any, Any], Any] | None
) -> Iterator[Finding]:
    """Suspicions about a loss that is known; of others nothing is said."""
    if not is_tensor(outputs) or not is_tensor(targets):
        return
    kind: str | None
    if loss is None:
        kind = "elementwise" if targets.dtype.is_floating_point else "cross entropy"
    else:
        kind = LOSSES.get(type(loss)) or (LOSSES.get(loss) if callable(loss) else None)
    last = "" if outputs.grad_fn is None else outputs.grad_fn.name()
    if kind == "cross entropy" and last.startswith("SoftmaxBackward"):
        yield Finding(
            "outputs",
            "they are probabilities (softmax), of which cross entropy takes the softmax again: "
            "learning is slow. Give it the scores as they are.",
        )
    if kind == "binary" and last.startswith("SigmoidBackward"):
        yield Finding(
            "outputs",
            "they are probabilities (sigmoid), of which this loss takes the sigmoid again. Give "
            "it the scores as they are, or use BCELoss.",
        )
    if kind == "log-likelihood" and outputs.ndim > 1:
        total = outputs.detach().float().exp().sum(dim=1)
        if not bool(((total - 1).abs() < CLOSE).all().item()):
            yield Finding(
                "outputs",
                "NLLLoss wants logarithms of probabilities, and those of a sample do not add up "
                "to 1: end with log_softmax(dim=1), or use CrossEntropyLoss on the scores.",
            )
    if loss is None and kind == "elementwise" and outputs.numel() != targets.numel():
        yield Finding(
            "labels",
            f"targets {tuple(targets.shape)} of {targets.dtype.name} do not fit outputs "
            f"{tuple(outputs.shape)}: classes are whole numbers, targets.long(); numbers want as "
            "many outputs. Another loss is to be given: check(model, batch, loss).",
        )
    elif kind in ("elementwise", "binary") and outputs.shape != targets.shape:
        yield Finding(
            "shapes",
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} differ: the loss "
            "compares every output with every target. Reshape one, as with unsqueeze(1).",
        )
    if isinstance(loss, WITHIN_ONE) and not bool(((targets >= 0) & (targets <= 1)).all().item()):
        yield Finding("labels", "this loss wants targets from 0 to 1, and some are not.")
    if kind in ("cross entropy", "log-likelihood") and not targets.dtype.is_floating_point:
        values = targets[targets != -100]
        if values.numel() >= SAMPLES and bool((values == values.reshape(-1)[0]).all().item()):
            yield Finding(
                "labels",
                f"every label of the batch is {int(values.reshape(-1)[0].item())}: shuffle the "
                "data, or look at how labels are read.",
            )
