"""An optimizer whose state is divided among processes (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint.distributed.algorithms.join import Join, Joinable, JoinConfig, JoinHook
from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.communication.objects import gathered
from adjoint.distributed.groups.group import resolve
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.lbfgs import LBFGS
from adjoint.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Each process updates some of the parameters, keeps state for those only, and tells the rest.

    Args:
        params: parameters, the same on every process and with the same gradients.
        optimizer_class: what updates them.
        process_group: the processes; all unless given.
        parameters_as_bucket_view: accepted as PyTorch has it.
        overlap_with_ddp: not supported.
        defaults: the optimizer's own arguments.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> w = ad.nn.Parameter(ad.ones(2))
        >>> optimizer = ZeroRedundancyOptimizer([w], ad.optim.SGD, lr=1.0)
        >>> w.grad = ad.ones(2)
        >>> _ = optimizer.step()
        >>> w.tolist()
        [0.0, 0.0]
        >>> dist.destroy_process_group()
    """

    elementwise = True  # it divides by whole parameters; the optimizer inside states its own

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not supported")
        if issubclass(optimizer_class, LBFGS):
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: LBFGS takes inner products over all parameters, which "
                "no process has here; use an optimizer that updates each parameter by itself."
            )
        self.group = resolve(process_group)
        self._join_config = JoinConfig()
        self._all: dict[int, Any] | None = None  # everybody's state, on the process it was sent to
        Optimizer.__init__(self, params, defaults)
        self.owner = self._divide()
        mine = self.group.rank()
        groups = [
            {**g, "params": [p for p in g["params"] if self.owner[id(p)] == mine]}
            for g in self.param_groups
        ]
        self._own_groups = [i for i, g in enumerate(groups) if g["params"]]
        self.optim = (
            optimizer_class([groups[i] for i in self._own_groups], **defaults)
            if self._own_groups
            else None
        )

    def _divide(self) -> dict[int, int]:
        """Who updates what: the largest first, to whom has least."""
        loads = [0] * self.group.size()
        every = [p for g in self.param_groups for p in g["params"]]
        owner: dict[int, int] = {}
        for parameter in sorted(every, key=lambda p: -p.shape.numel()):
            rank = loads.index(min(loads))
            owner[id(parameter)] = rank
            loads[rank] += parameter.shape.numel()
        return owner

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's share, and exchange the results."""
        Join.notify_join_context(self)
        loss = None if closure is None else closure()
        self._share()
        return loss

    def _share(self) -> None:
        if self.optim is not None:
            for at, own_group in zip(self._own_groups, self.optim.param_groups, strict=True):
                ours = {k: v for k, v in self.param_groups[at].items() if k != "params"}
                own_group.update(ours)  # a scheduler changes the groups it knows: these
            self.optim.step()
        with no_grad():
            works = [
                broadcast(p.detach(), group=self.group, async_op=True, group_src=self.owner[id(p)])
                for g in self.param_groups
                for p in g["params"]
            ]
        for work in works:
            if work is not None:
                work.wait()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does: it updates its share and tells the others."""
        return SharedStepHook(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes that share the work."""
        return self.group

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring everybody's state together, before `state_dict` on process `to`."""
        mine: dict[int, Any] = {}
        numbers = self._numbers()
        if self.optim is not None:
            mine = {numbers[id(p)]: s for p, s in self.optim.state.items()}
        parts = gathered(self.group, mine, "consolidate_state_dict")
        whole = {k: v for part in parts for k, v in part.items()}
        self._all = whole if to == self.group.rank() else None

    def _numbers(self) -> dict[int, int]:
        every = [p for g in self.param_groups for p in g["params"]]
        return {id(p): i for i, p in enumerate(every)}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, after `consolidate_state_dict`."""
        if self._all is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: state has not been consolidated on this rank. Please "
                "call `consolidate_state_dict(to=...)` on all ranks beforehand."
            )
        plain = super().state_dict()
        plain["state"] = self._all
        return plain

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this process's part of a whole state."""
        super().load_state_dict({**state_dict, "state": {}})
        every = [p for g in self.param_groups for p in g["params"]]
        if self.optim is None:
            return
        for number, state in state_dict["state"].items():
            parameter = every[int(number)]
            if self.owner[id(parameter)] == self.group.rank():
                self.optim.state[parameter] = {
                    k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()
                }


class SharedStepHook(JoinHook):
    """A step in which a process without inputs takes part."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """A step: this process's share is updated with the gradients it has."""
        self.optimizer._share()
