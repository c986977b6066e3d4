"""Summaries of a run, as PyTorch's `SummaryWriter` is handed them."""

from __future__ import annotations

from typing import Any

from adjoint.training import summaries
from adjoint.training.writer import SummaryWriter as SummaryWriter

__all__ = ["hparams"]


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, Any] | None = None,
) -> tuple[Any, Any, Any]:
    """Three summaries: of an experiment, of the beginning of a run, and of its end.

    Args:
        hparam_dict: the hyperparameters.
        metric_dict: what is measured.
        hparam_domain_discrete: the values a hyperparameter may have, by its name.
    """
    experiment, start, end = summaries.hyperparameters(
        hparam_dict or {}, metric_dict or {}, hparam_domain_discrete or {}
    )
    return experiment, start, end
