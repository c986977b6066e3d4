"""Cutting a model into stages by tracing it: refused, with the way by hand."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NoReturn


class SplitPoint(Enum):
    """Where a traced model would be cut."""

    BEGINNING = auto()
    END = auto()


def pipeline(module: Any, mb_args: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not supported: stages are made by hand."""
    raise NotImplementedError(
        "pipelining.pipeline: models are not cut by tracing. Keep this process's layers in a "
        "module of their own and make PipelineStage(module, stage_index, num_stages, device) of it."
    )


def pipe_split() -> None:
    """Marks where a traced model would be cut; it does nothing when the model runs."""
