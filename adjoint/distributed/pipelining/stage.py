"""One stage of a pipeline: its module, and what goes to and comes from its neighbours."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from adjoint.distributed.communication.point_to_point import isend, recv
from adjoint.distributed.communication.work import Work
from adjoint.distributed.groups.group import resolve
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.autodiff.tape.reverse import backward
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module

ABOUT = 4096  # bytes of what announces the tensors of a message


class PipelineStage:
    """A part of a model on one process.

    Args:
        submodule: the part; it takes what the stage before returns.
        stage_index: which part it is. Stages lie on processes in turn: stage i on process i, or,
            where processes have several, on the one whose place is i modulo their number.
        num_stages: how many there are.
        device: where tensors that are received go.
        group: the processes; all unless given.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any = "cpu",
        input_args: Any = None, output_args: Any = None, group: Any = None, dw_builder: Any = None,
    ) -> None:  # fmt: skip
        self.group = resolve(group)
        if dw_builder is not None:
            raise NotImplementedError("PipelineStage: dw_builder is not supported")
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if num_stages % self.group_size or stage_index % self.group_size != self.group_rank:
            raise ValueError(
                f"PipelineStage: {num_stages} stages on a group of {self.group_size} processes: "
                "their number must be a multiple of the processes', and stage i lies on process i "
                f"modulo theirs. Stage {stage_index} is not of process {self.group_rank}."
            )
        self.submod = submodule
        self.stage_index, self.num_stages, self.device = stage_index, num_stages, device
        self.chunks: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self.sending: list[tuple[Work | None, Tensor]] = []

    @property
    def is_first(self) -> bool:
        """Whether no stage comes before."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether no stage comes after."""
        return self.stage_index == self.num_stages - 1

    def forward(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One part of the batch through this stage."""
        if not self.is_first:
            args = tuple(self._receive(-1))
        inputs = [x for x in args if isinstance(x, Tensor)]
        out = self.submod(*args, **(kwargs if self.is_first else {}))
        results = out if isinstance(out, tuple) else (out,)
        if not self.is_last:
            if any(not isinstance(x, Tensor) for x in results):
                raise TypeError("PipelineStage: a stage must return tensors")
            self._send(list(results), 1)
        tensors = [x for x in flatten(out)[0] if isinstance(x, Tensor)]
        self.chunks[number] = (inputs, tensors)
        return out

    def backward(self, number: int, loss: Tensor | None) -> None:
        """The same part backwards; the last stage begins with its loss."""
        inputs, results = self.chunks.pop(number)
        if self.is_last:
            if loss is None:
                raise ValueError("PipelineStage: the last stage needs a loss to go back from")
            backward(loss)
        else:
            grads = self._receive(1)
            roots = [r for r in results if r.requires_grad]
            if roots:
                backward(roots, grads)
        if not self.is_first:
            self._send(
                [
                    zeros(x.shape, dtype=x.dtype, device=x.device) if x.grad is None else x.grad
                    for x in inputs
                    if x.requires_grad
                ],
                -1,
            )

    def finish(self) -> None:
        """Wait until all that was sent has left; forget parts that nobody went back with."""
        for work, _ in self.sending:
            if work is not None:
                work.wait()
        self.sending = []
        self.chunks.clear()

    # -- messages ----------------------------------------------------------------------------------

    def _peer(self, way: int) -> int:
        return (self.stage_index + way) % self.group_size

    def _send(self, tensors: list[Tensor], way: int) -> None:
        grad = CONTEXT.grad_enabled
        about = [(tuple(t.shape), t.dtype.name, grad and t.requires_grad) for t in tensors]
        text = pickle.dumps(about)
        if len(text) > ABOUT:
            raise ValueError(f"PipelineStage: a stage hands on {len(tensors)} tensors, too many")
        line = from_numpy(np.frombuffer(text.ljust(ABOUT, b"\0"), np.uint8).copy())
        tag = _tag(self.stage_index + way, way)
        with no_grad():
            for tensor in (line, *tensors):
                sent = tensor.detach()
                work = isend(sent, group=self.group, group_dst=self._peer(way), tag=tag)
                self.sending.append((work, sent))

    def _receive(self, way: int) -> list[Tensor]:
        line = zeros(ABOUT, dtype=dt.uint8)
        tag, peer = _tag(self.stage_index, -way), self._peer(way)
        recv(line, group=self.group, group_src=peer, tag=tag)
        received = []
        for shape, dtype, requires_grad in pickle.loads(line.numpy().tobytes()):
            tensor = zeros(shape, dtype=dt.named(dtype), device=self.device)
            recv(tensor, group=self.group, group_src=peer, tag=tag)
            received.append(tensor.requires_grad_() if requires_grad else tensor)
        return received


def _tag(receiver: int, way: int) -> int:
    """Different for each receiving stage and direction: parts follow one another in each."""
    return 2 * receiver + (way > 0)


def pieces(tree: Any, count: int) -> list[Any]:
    """A batch in parts along the first dimension of its tensors."""
    leaves, structure = flatten(tree)
    cut: list[list[Any]] = [[] for _ in range(count)]
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if leaf.shape[0] < count:
                raise ValueError(f"a batch of {leaf.shape[0]} cannot be cut in {count} parts")
            chunks = [*leaf.tensor_split(count)]
        else:
            chunks = [leaf] * count
        for part, chunk in zip(cut, chunks, strict=True):
            part.append(chunk)
    return [unflatten(structure, part) for part in cut]


def joined(parts: list[Any]) -> Any:
    """What the parts of a batch gave, as one: tensors along their first dimension."""
    leaves, structure = flatten(parts[0])
    columns = zip(*(flatten(part)[0] for part in parts), strict=True)
    whole = [
        cat([t.detach() for t in column]) if isinstance(first, Tensor) and first.ndim else first
        for first, column in zip(leaves, columns, strict=True)
    ]
    return unflatten(structure, whole)
