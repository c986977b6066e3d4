"""An optimizer whose state is divided among processes (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from adjoint.distributed.algorithms.join import Join, Joinable, JoinConfig, JoinHook
from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.communication.objects import gathered
from adjoint.distributed.groups.group import resolve
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.lbfgs import LBFGS
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.stepping.groups import ParamGroup


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
        self._make: Callable[..., Optimizer] = partial(optimizer_class, **defaults)
        self.owner: dict[int, int] = {}  # who updates what, by the parameter's id
        self._loads = [0] * self.group.size()
        self.optim: Optimizer | None = None  # what updates this process's share, if it has any
        self._divided = False
        Optimizer.__init__(self, params, defaults)
        self._divided = True
        self._divide(range(len(self.param_groups)))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, and divide its parameters as the others."""
        super().add_param_group(param_group)
        if self._divided:
            self._divide([len(self.param_groups) - 1])

    def _divide(self, groups: Iterable[int]) -> None:
        """Say who updates the parameters of groups: the largest first, to whom has least."""
        groups = list(groups)
        every = [p for at in groups for p in self.param_groups[at]["params"]]
        for parameter in sorted(every, key=lambda p: -p.shape.numel()):
            rank = self._loads.index(min(self._loads))
            self.owner[id(parameter)] = rank
            self._loads[rank] += parameter.shape.numel()
        for at in groups:
            group = self.param_groups[at]
            mine = [p for p in group["params"] if self.owner[id(p)] == self.group.rank()]
            if not mine:
                continue
            options = {**group, "params": mine}
            options.pop("param_names", None)
            if self.optim is None:
                self.optim = self._make([options])
            else:
                self.optim.add_param_group(options)
            own = self.optim.param_groups
            own[-1] = ShareOfGroup(own[-1], self, at)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's share, and exchange the results."""
        Join.notify_join_context(self)
        loss = None if closure is None else closure()
        self._share()
        return loss

    def _share(self) -> None:
        if self.optim is not None:
            for own in self.optim.param_groups:
                own.follow()  # type: ignore[attr-defined]
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


class ShareOfGroup(ParamGroup):
    """This process's parameters of a group; its options are the group's, read where they are set.

    A scheduler changes the groups it knows, which are the whole optimizer's, and a compiled step
    reads numbers where they are when it is called.
    """

    def __init__(self, own: dict[str, Any], whole: ZeroRedundancyOptimizer, at: int) -> None:
        super().__init__(own)
        self._whole, self._at = whole, at

    def __getitem__(self, key: str) -> Any:
        group = self._whole.param_groups[self._at]
        return group[key] if key != "params" and key in group else super().__getitem__(key)

    def follow(self) -> None:
        """Take over the options as they are, for those who look through a group."""
        group = self._whole.param_groups[self._at]
        dict.update(self, {k: v for k, v in group.items() if k != "params"})


class SharedStepHook(JoinHook):
    """A step in which a process without inputs takes part."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """A step: this process's share is updated with the gradients it has."""
        self.optimizer._share()
