"""PyTorch's first interface to sharding: a module that wraps another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from adjoint.distributed.fsdp.options import (
    FullStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from adjoint.distributed.groups.group import get_rank
from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy, fully_shard
from adjoint.distributed.sharded.offload import CPUOffloadPolicy
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor
from adjoint.distributed.tensor.fitting import as_kept
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.nn.utils.clip_grad import clip_grad_norm_

STRATEGIES = (None, ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP)


class FullyShardedDataParallel(Module):
    """Wraps a module whose parameters are divided among processes; see `fully_shard`.

    Args:
        module: the module to call.
        process_group: the processes; all unless given.
        auto_wrap_policy: `policy(module=, recurse=, nonwrapped_numel=)`, which says what inner
            modules are units of their own.
        mixed_precision: the dtypes to compute (`param_dtype`) and to reduce (`reduce_dtype`) in.
        cpu_offload: whether parts, gradients and optimizer state lie on the host.
        use_orig_params: accepted; parameters keep their names in any case.
        sharding_strategy: FULL_SHARD, or SHARD_GRAD_OP, which does not gather again in backward.
        sync_module_states: whether to begin with the first process's parameters.
        device_mesh: a mesh of one dimension, in place of the group.
        backward_prefetch, forward_prefetch, limit_all_gathers, device_id: accepted as PyTorch has
            them.
    """

    _named_as_inner = "module"  # Note [names without wrappers]
    _gathers_state = True  # unless `state_dict` is asked for the parameters themselves

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Callable[..., bool] | None = None,
        backward_prefetch: Any = None,
        mixed_precision: Any = None,
        ignored_modules: Any = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), None
        )
        if sharding_strategy not in STRATEGIES:
            raise NotImplementedError(
                f"FullyShardedDataParallel: {sharding_strategy} is not supported. Use FULL_SHARD "
                "or SHARD_GRAD_OP, or DistributedDataParallel where nothing is to be divided."
            )
        if ignored_modules or ignored_states or param_init_fn is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel: ignored_modules, ignored_states and param_init_fn are "
                "not supported"
            )
        if device_mesh is not None:
            if process_group is not None:
                raise ValueError("Cannot pass both process_group and device_mesh")
            if device_mesh.ndim != 1:
                raise NotImplementedError(
                    "FullyShardedDataParallel: a mesh of several dimensions is not supported. "
                    "Take one of them: device_mesh['name']."
                )
            process_group = device_mesh.get_group()
        offloads = bool(getattr(cpu_offload, "offload_params", cpu_offload))
        offload = CPUOffloadPolicy() if offloads else None
        if sync_module_states:
            from adjoint.distributed.communication.collectives import broadcast

            for tensor in (*module.parameters(), *module.buffers()):
                broadcast(tensor.detach(), group=process_group, group_src=0)
        policy = MixedPrecisionPolicy(
            getattr(mixed_precision, "param_dtype", None),
            getattr(mixed_precision, "reduce_dtype", None),
        )
        if auto_wrap_policy is not None:
            options = {"mesh": process_group, "mp_policy": policy, "offload_policy": offload}
            wrap_inner(module, auto_wrap_policy, options)
        reshard = sharding_strategy is not ShardingStrategy.SHARD_GRAD_OP
        self.module = fully_shard(
            module, mesh=process_group, mp_policy=policy, reshard_after_forward=reshard,
            offload_policy=offload,
        )  # fmt: skip
        self._register_load_state_dict_pre_hook(_as_inner, with_module=True)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that the norm of all processes' together is at most `max_norm`."""
        norm = clip_grad_norm_(list(self.parameters()), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    # -- state dicts --------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The state under the names that parameters have without the wrapper.

        Whole tensors, DTensors or this process's plain parts, as `set_state_dict_type` says; whole
        ones on every process unless told otherwise. Every process calls it. `keep_vars` gives the
        parameters themselves: DTensors.
        """
        if args:
            raise TypeError("FullyShardedDataParallel.state_dict: pass arguments by keyword")
        state = self.module.state_dict(keep_vars=True) if keep_vars else self._state_as_set()
        if destination is None:
            return state
        destination.update({prefix + name: value for name, value in state.items()})
        return destination

    def _state_as_set(self) -> dict[str, Any]:
        """The state, as `set_state_dict_type` says."""
        settings = self._settings
        kind = settings.state_dict_type
        whole = kind is StateDictType.FULL_STATE_DICT
        offload = bool(getattr(settings.state_dict_config, "offload_to_cpu", False))
        state = get_model_state_dict(self.module, options=StateDictOptions(full_state_dict=whole))
        if kind is StateDictType.LOCAL_STATE_DICT:
            state = {k: v.to_local() if isinstance(v, DTensor) else v for k, v in state.items()}
        if offload:
            state = {k: v.cpu() for k, v in state.items()}
        first = getattr(settings.state_dict_config, "rank0_only", False)
        return {} if whole and first and get_rank() else state

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Give back what `state_dict` gave, under the same settings; every process has it."""
        if assign:
            raise NotImplementedError("FullyShardedDataParallel: assign=True is not supported")
        state = dict(state_dict)
        if self._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            own = dict(self.module.named_parameters(remove_duplicate=False))
            for name, value in state.items():
                current = own.get(name)
                if isinstance(current, DTensor) and not isinstance(value, DTensor):
                    state[name] = as_dtensor(value, current._layout)
        return set_model_state_dict(self.module, state, options=StateDictOptions(strict=strict))

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:  # fmt: skip
        """What `state_dict` gives from now on; returns what it gave before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        settings = StateDictSettings(
            state_dict_type, state_dict_config or FullStateDictConfig(), optim_state_dict_config
        )
        for inner in module.modules():
            if isinstance(inner, FullyShardedDataParallel):
                inner._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What `state_dict` gives."""
        for inner in module.modules():
            if isinstance(inner, FullyShardedDataParallel):
                return inner._settings
        raise ValueError("FullyShardedDataParallel: the module has none in it")

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:  # fmt: skip
        """What `state_dict` gives inside a `with` block."""
        kind = FullyShardedDataParallel
        before = kind.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            kind.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config,
                before.optim_state_dict_config,
            )  # fmt: skip

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """An optimizer's state by the names of parameters; every process calls it."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        state = get_optimizer_state_dict(
            model, optim, options=StateDictOptions(full_state_dict=whole)
        )
        config = settings.optim_state_dict_config or settings.state_dict_config
        first = getattr(config, "rank0_only", False)
        return {} if whole and first and get_rank() else state

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], **_: Any
    ) -> dict[str, Any]:
        """What `optim.load_state_dict` takes, from what `optim_state_dict` gave."""
        set_optimizer_state_dict(model, optim, optim_state_dict)
        return optim.state_dict()

    # -- whole parameters -----------------------------------------------------------------------

    @staticmethod
    @contextmanager
    def summon_full_params(module: Module, writeback: bool = True, **_: Any) -> Iterator[None]:
        """Whole parameters inside a `with` block; what is written to them is kept."""
        places = [
            (owner, name, part)
            for owner in module.modules()
            for name, part in owner._parameters.items()
            if isinstance(part, DTensor)
        ]
        with no_grad():
            whole: dict[int, Any] = {id(p): Parameter(p.full_tensor()) for _, _, p in places}
        for owner, name, part in places:
            owner._parameters[name] = whole[id(part)]
        try:
            yield
        finally:
            for owner, name, part in places:
                owner._parameters[name] = part
                if writeback:
                    with no_grad():
                        now = part.replicated(whole[id(part)].detach())
                        part.copy_(now.redistribute(placements=part.placements))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accepted: gradients are averaged in every backward, which adds up to the same."""
        yield

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The wrappers in a module."""
        wrappers = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return wrappers[:1] if root_only else wrappers


def _as_inner(wrapper: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """What a module around the wrapper is loaded with, as the inner module's parameters lie."""
    own = wrapper.module.state_dict(keep_vars=True)
    for name, tensor in own.items():
        if prefix + name in state:
            value = state.pop(prefix + name)
            whole = isinstance(tensor, DTensor) and isinstance(value, Tensor)
            fitted = as_kept(prefix + name, tensor, value) if whole else value
            state[f"{prefix}module.{name}"] = fitted


def wrap_inner(module: Module, policy: Callable[..., bool], options: dict[str, Any]) -> None:
    """Make units of the inner modules a policy chooses, innermost first."""
    for child in module.children():
        wrap_inner(child, policy, options)
        count = sum(p.shape.numel() for p in child.parameters() if not isinstance(p, DTensor))
        chosen: Any = count and policy(module=child, recurse=False, nonwrapped_numel=count)
        if isinstance(chosen, dict) and chosen:
            raise NotImplementedError(
                f"FullyShardedDataParallel: a policy's own options for a module are not supported, "
                f"received {sorted(chosen)}"
            )
        if chosen:
            fully_shard(child, **options)
