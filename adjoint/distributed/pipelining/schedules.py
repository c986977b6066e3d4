"""The order in which stages work on the parts of a batch.

GPipe runs all parts forward, then all backward, and keeps what all of them need. 1F1B goes
backward with a part as soon as it can, so a stage keeps at most as many parts as there are stages
after it. Both compute the same gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.distributed.pipelining.stage import PipelineStage, pieces
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor

Step = tuple[str, int]


class Schedule:
    """Runs a stage through the parts of a batch; subclasses say in what order.

    Args:
        stage: this process's stage.
        n_microbatches: how many parts a batch is cut in.
        loss_fn: `loss_fn(output, target)`, on the last stage; None only computes.
        scale_grads: whether the parts' losses are averaged.
    """

    def __init__(
        self, stage: PipelineStage, n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None, scale_grads: bool = True, **_: Any,
    ) -> None:  # fmt: skip
        if n_microbatches < 1:
            raise ValueError(f"expected at least one microbatch, received {n_microbatches}")
        self.stage, self.count, self.loss_fn = stage, n_microbatches, loss_fn
        self.scale = 1.0 / n_microbatches if scale_grads else 1.0

    def order(self) -> Iterator[Step]:
        """("F", part) and ("B", part), as this stage does them."""
        raise NotImplementedError

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """A batch forward and backward; the last stage returns the output.

        The first stage passes the input, the last the target.
        """
        stage, trains = self.stage, self.loss_fn is not None
        cut = pieces((args, kwargs), self.count) if stage.is_first else [((), {})] * self.count
        targets = pieces(target, self.count) if stage.is_last and trains else []
        outputs: dict[int, Any] = {}
        found: dict[int, Tensor] = {}
        for kind, number in self.order():
            if kind == "F":
                given, named = cut[number]
                outputs[number] = stage.forward(number, given, named)
                if stage.is_last and self.loss_fn is not None:
                    found[number] = self.loss_fn(outputs[number], targets[number])
            elif trains:
                loss = found[number] * self.scale if stage.is_last else None
                stage.backward(number, loss)
        stage.finish()
        if losses is not None:
            losses[:] = [found[i].detach() for i in sorted(found)]
        if not stage.is_last:
            return None
        return cat([outputs[i].detach() for i in sorted(outputs)])


class ScheduleGPipe(Schedule):
    """All parts forward, then all backward."""

    def order(self) -> Iterator[Step]:
        yield from (("F", i) for i in range(self.count))
        yield from (("B", i) for i in range(self.count))


class Schedule1F1B(Schedule):
    """One part forward, one backward, after enough forwards to keep the next stages busy."""

    def order(self) -> Iterator[Step]:
        ahead = min(self.stage.num_stages - self.stage.stage_index, self.count)
        yield from (("F", i) for i in range(ahead))
        for i in range(self.count):
            yield "B", i
            if ahead + i < self.count:
                yield "F", ahead + i
