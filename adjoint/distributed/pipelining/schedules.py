"""The order in which stages work on the parts of a batch.

GPipe runs all parts forward, then all backward, and keeps what all of them need. 1F1B goes
backward with a part as soon as it can, so a stage keeps at most as many parts as there are stages
after it. Where a process has several stages, interleaved 1F1B takes some parts through one of them
and then through the next, which leaves less time without work. All compute the same gradients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adjoint.distributed.pipelining.stage import PipelineStage, joined, pieces
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor

Step = tuple[str, int, int]  # "F" or "B", the stage, the part


class Schedule:
    """Runs this process's stages through the parts of a batch; subclasses say in what order.

    Args:
        stages: this process's stages.
        n_microbatches: how many parts a batch is cut in.
        loss_fn: `loss_fn(output, target)`, on the last stage; None only computes.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: None only: tensors are cut and
            joined along their first dimension.
        scale_grads: whether the parts' losses are averaged.
    """

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        specs = (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)
        if any(spec is not None for spec in specs):
            raise NotImplementedError(
                f"{type(self).__name__}: batches are cut and joined along the first dimension of "
                "their tensors; args_chunk_spec, kwargs_chunk_spec and output_merge_spec are not "
                "supported. Move the batch's dimension to the front."
            )
        if n_microbatches < 1:
            raise ValueError(f"expected at least one microbatch, received {n_microbatches}")
        self.stages = {stage.stage_index: stage for stage in stages}
        self.count, self.loss_fn = n_microbatches, loss_fn
        self.scale = 1.0 / n_microbatches if scale_grads else 1.0
        self.rank, self.size = stages[0].group_rank, stages[0].group_size

    def order(self) -> Iterator[Step]:
        """What this process does, one after the other."""
        raise NotImplementedError

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """A batch forward and backward; the process of the last stage returns the output.

        The process of the first stage passes the input, that of the last the target.
        """
        return self._run(args, kwargs, target, losses, trains=self.loss_fn is not None)

    def eval(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """A batch forward only, off the tape."""
        with no_grad():
            return self._run(args, kwargs, target, losses, trains=False)

    def _run(
        self, args: Any, kwargs: Any, target: Any, losses: list[Any] | None, *, trains: bool
    ) -> Any:
        first = any(stage.is_first for stage in self.stages.values())
        last = any(stage.is_last for stage in self.stages.values())
        inputs = pieces((args, kwargs), self.count) if first else []
        given = last and self.loss_fn is not None and target is not None
        targets = pieces(target, self.count) if given else []
        if last and trains and not given:
            raise ValueError("the last stage's process must pass target= to a schedule with a loss")
        outputs: dict[int, Any] = {}
        losses_of: dict[int, Tensor] = {}
        for kind, index, number in self.order():
            stage = self.stages[index]
            if kind == "F":
                positional, named = inputs[number] if stage.is_first else ((), {})
                out = stage.forward(number, positional, named)
                if stage.is_last:
                    outputs[number] = out
                    if given and self.loss_fn is not None:
                        losses_of[number] = self.loss_fn(out, targets[number])
            elif trains:
                stage.backward(number, losses_of[number] * self.scale if stage.is_last else None)
        for stage in self.stages.values():
            stage.finish()
        if losses is not None and last:
            losses[:] = [losses_of[i].detach() for i in sorted(losses_of)]
        return joined([outputs[i] for i in sorted(outputs)]) if last else None


class _OneStage(Schedule):
    """A schedule of processes that have one stage each."""

    def __init__(
        self, stage: PipelineStage, n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None, *specs: Any, **options: Any,
    ) -> None:  # fmt: skip
        if stage.num_stages != stage.group_size:
            raise ValueError(
                f"{type(self).__name__}: {stage.num_stages} stages on {stage.group_size} "
                "processes; use ScheduleInterleaved1F1B where processes have several"
            )
        super().__init__([stage], n_microbatches, loss_fn, *specs, **options)
        self.stage = stage


class ScheduleGPipe(_OneStage):
    """All parts forward, then all backward."""

    def order(self) -> Iterator[Step]:
        index = self.stage.stage_index
        yield from (("F", index, i) for i in range(self.count))
        yield from (("B", index, i) for i in range(self.count))


class Schedule1F1B(_OneStage):
    """One part forward, one backward, after enough forwards to keep the next stages busy."""

    def order(self) -> Iterator[Step]:
        index = self.stage.stage_index
        ahead = min(self.stage.num_stages - index, self.count)
        yield from (("F", index, i) for i in range(ahead))
        for i in range(self.count):
            yield "B", index, i
            if ahead + i < self.count:
                yield "F", index, ahead + i


class _SeveralStages(Schedule):
    """A schedule of processes that have several stages each, in turn."""

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None, *specs: Any,
        use_full_backward: bool | None = None, **options: Any,
    ) -> None:  # fmt: skip
        wanted = [stages[0].group_rank + k * stages[0].group_size for k in range(len(stages))]
        if sorted(stage.stage_index for stage in stages) != wanted:
            raise ValueError(
                f"{type(self).__name__}: this process's stages are {wanted}, received "
                f"{[stage.stage_index for stage in stages]}"
            )
        if len(stages) * stages[0].group_size != stages[0].num_stages:
            raise ValueError(
                f"{type(self).__name__}: {stages[0].num_stages} stages on {stages[0].group_size} "
                f"processes, of which this one has {len(stages)}"
            )
        super().__init__(stages, n_microbatches, loss_fn, *specs, **options)


class ScheduleInterleaved1F1B(_SeveralStages):
    """1F1B for processes with several stages: the batch goes around the processes in rounds."""

    def order(self) -> Iterator[Step]:
        local, size = len(self.stages), self.size
        rounds = max(1, self.count // size)
        if self.count % rounds:
            raise ValueError(
                "Interleaved 1F1B requires the number of microbatches to be a multiple of the "
                f"number of rounds ({rounds}), but got {self.count}."
            )
        per_round = (
            self.count // rounds
        )  # parts that go through one stage before the next one's turn
        total = local * self.count
        ahead = min((local - 1) * per_round + 2 * (size - 1 - self.rank), total)
        done: Counter[tuple[str, int]] = Counter()

        def action(kind: str, step: int) -> Step:
            turn = step // per_round % local
            index = (turn if kind == "F" else local - 1 - turn) * size + self.rank
            done[kind, index] += 1
            return kind, index, done[kind, index] - 1

        for step in range(ahead):
            yield action("F", step)
        for step in range(total):
            if ahead + step < total:
                yield action("F", ahead + step)
            yield action("B", step)


class ScheduleLoopedBFS(_SeveralStages):
    """All parts forward through one stage after another, then all backward."""

    def order(self) -> Iterator[Step]:
        for index in sorted(self.stages):
            yield from (("F", index, i) for i in range(self.count))
        for index in sorted(self.stages, reverse=True):
            yield from (("B", index, i) for i in range(self.count))


class _SplitBackward(Schedule):
    """A schedule that computes gradients of inputs and of weights at different times."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__}: backward is not computed in two parts here, of inputs and of "
            "weights. ScheduleInterleaved1F1B gives the same gradients."
        )


class ScheduleInterleavedZeroBubble(_SplitBackward):
    """Refused: see `ScheduleInterleaved1F1B`."""


class ScheduleZBVZeroBubble(_SplitBackward):
    """Refused: see `ScheduleInterleaved1F1B`."""


class ScheduleDualPipeV(_SplitBackward):
    """Refused: see `ScheduleInterleaved1F1B`."""


_BY_NAME: dict[str, type[Schedule]] = {
    kind.__name__.removeprefix("Schedule").lower(): kind
    for kind in (
        *(ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS),
        *(ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble, ScheduleDualPipeV),
    )
}


def get_schedule_class(schedule_name: str) -> type[Schedule]:
    """A schedule by its name: "GPipe", "1F1B", "Interleaved1F1B" or "LoopedBFS"."""
    schedule = _BY_NAME.get(schedule_name.lower().removeprefix("schedule"))
    if schedule is None:
        raise ValueError(
            f"Unknown schedule '{schedule_name}'. The valid options are {sorted(_BY_NAME)}"
        )
    return schedule
