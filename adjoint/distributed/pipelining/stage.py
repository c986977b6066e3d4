"""One stage of a pipeline: its module, and what goes to and comes from its neighbours."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.group import resolve
from adjoint.distributed.objects import recv_object_list, send_object_list
from adjoint.distributed.point_to_point import isend, recv
from adjoint.distributed.work import Work
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.autodiff.tape.reverse import backward
from adjoint.engine.core.tree import flatten
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


class PipelineStage:
    """A part of a model on one process.

    Args:
        submodule: the part; it takes what the stage before returns.
        stage_index: which part it is, which is also the process's place in the group.
        num_stages: how many there are.
        device: where tensors that are received go.
        group: the processes; all unless given.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any = "cpu",
        input_args: Any = None, output_args: Any = None, group: Any = None,
    ) -> None:  # fmt: skip
        self.group = resolve(group)
        if num_stages != self.group.size() or stage_index != self.group.rank():
            raise ValueError(
                f"PipelineStage: {num_stages} stages need a group of as many processes (it has "
                f"{self.group.size()}), and stage {stage_index} is of its member {stage_index} "
                f"(this is {self.group.rank()})"
            )
        self.submod = submodule
        self.stage_index, self.num_stages, self.device = stage_index, num_stages, device
        self.kept: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self.sending: list[tuple[Work | None, Tensor]] = []

    @property
    def is_first(self) -> bool:
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        return self.stage_index == self.num_stages - 1

    def forward(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One part of the batch through this stage."""
        if not self.is_first:
            args = tuple(self._receive(self.stage_index - 1))
        inputs = [x for x in args if isinstance(x, Tensor)]
        out = self.submod(*args, **(kwargs if self.is_first else {}))
        results = out if isinstance(out, tuple) else (out,)
        if any(not isinstance(x, Tensor) for x in results):
            raise TypeError("PipelineStage: a stage must return tensors")
        self.kept[number] = (inputs, list(results))
        if not self.is_last:
            self._send(list(results), self.stage_index + 1)
        return out

    def backward(self, number: int, loss: Tensor | None) -> None:
        """The same part backwards; the last stage begins with its loss."""
        inputs, results = self.kept.pop(number)
        if self.is_last:
            if loss is None:
                raise ValueError("PipelineStage: the last stage needs a loss to go back from")
            backward(loss)
        else:
            roots = [r for r in results if r.requires_grad]
            backward(roots, self._receive(self.stage_index + 1))
        if not self.is_first:
            grads = [
                zeros(x.shape, dtype=x.dtype) if x.grad is None else x.grad
                for x in inputs
                if x.requires_grad
            ]
            self._send(grads, self.stage_index - 1)

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        for work, _ in self.sending:
            if work is not None:
                work.wait()
        self.sending = []

    def _send(self, tensors: list[Tensor], peer: int) -> None:
        about = [(tuple(t.shape), t.dtype, t.requires_grad) for t in tensors]
        send_object_list(about, group=self.group, group_dst=peer)
        with no_grad():
            for tensor in tensors:
                sent = tensor.detach()
                self.sending.append((isend(sent, group=self.group, group_dst=peer), sent))

    def _receive(self, peer: int) -> list[Tensor]:
        about: list[Any] = []
        recv_object_list(about, group=self.group, group_src=peer)
        found = []
        for shape, dtype, requires_grad in about:
            tensor = zeros(shape, dtype=dtype, device=self.device)
            recv(tensor, group=self.group, group_src=peer)
            found.append(tensor.requires_grad_() if requires_grad else tensor)
        return found


def pieces(tree: Any, count: int) -> list[Any]:
    """A batch in parts along the first dimension of its tensors."""
    from adjoint.engine.core.tree import unflatten

    leaves, structure = flatten(tree)
    cut: list[list[Any]] = [[] for _ in range(count)]
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if leaf.shape[0] < count:
                raise ValueError(f"a batch of {leaf.shape[0]} cannot be cut in {count} parts")
            chunks = leaf.tensor_split(count)
        else:
            chunks = [leaf] * count
        for part, chunk in zip(cut, chunks, strict=True):
            part.append(chunk)
    return [unflatten(structure, part) for part in cut]
