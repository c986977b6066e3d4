"""PyTorch's first interface to sharding: a module that wraps another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.distributed.fsdp.options import ShardingStrategy, StateDictType
from adjoint.distributed.sharded.fully_shard import MixedPrecisionPolicy, fully_shard
from adjoint.distributed.sharded.parameter import shard_of
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
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
        use_orig_params: accepted; parameters keep their names in any case.
        sharding_strategy: FULL_SHARD, or SHARD_GRAD_OP, which does not gather again in backward.
        sync_module_states: whether to begin with the first process's parameters.
        backward_prefetch, forward_prefetch, limit_all_gathers, device_id: accepted as PyTorch has
            them.
    """

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
    ) -> None:
        super().__init__()
        if sharding_strategy not in STRATEGIES:
            raise NotImplementedError(
                f"FullyShardedDataParallel: {sharding_strategy} is not supported. Use FULL_SHARD "
                "or SHARD_GRAD_OP, or DistributedDataParallel where nothing is to be divided."
            )
        if ignored_modules or param_init_fn is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel: ignored_modules and param_init_fn are not supported"
            )
        if cpu_offload is not None and getattr(cpu_offload, "offload_params", cpu_offload):
            raise NotImplementedError("FullyShardedDataParallel: cpu_offload is not supported")
        if sync_module_states:
            from adjoint.distributed.collectives import broadcast

            for tensor in (*module.parameters(), *module.buffers()):
                broadcast(tensor.detach(), group=process_group, group_src=0)
        policy = MixedPrecisionPolicy(
            getattr(mixed_precision, "param_dtype", None),
            getattr(mixed_precision, "reduce_dtype", None),
        )
        if auto_wrap_policy is not None:
            wrap_inner(module, auto_wrap_policy, process_group, policy)
        reshard = sharding_strategy is not ShardingStrategy.SHARD_GRAD_OP
        self.module = fully_shard(
            module, mesh=process_group, mp_policy=policy, reshard_after_forward=reshard
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that the norm of all processes' together is at most `max_norm`."""
        return clip_grad_norm_(list(self.parameters()), max_norm, norm_type)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Whole parameters under the names they have without the wrapper, on every process."""
        from adjoint.distributed.checkpoint.state_dict import get_model_state_dict, whole_options

        return get_model_state_dict(self.module, options=whole_options())

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, *configs: Any
    ) -> Iterator[None]:
        """What `state_dict` gives inside a `with` block: whole tensors, and nothing else."""
        if state_dict_type is not StateDictType.FULL_STATE_DICT:
            raise NotImplementedError(
                f"FullyShardedDataParallel: {state_dict_type} is not supported. Take parts from "
                "distributed.checkpoint.state_dict.get_state_dict."
            )
        yield

    @staticmethod
    @contextmanager
    def summon_full_params(module: Module, writeback: bool = True, **_: Any) -> Iterator[None]:
        """Whole parameters inside a `with` block; what is written to them is kept."""
        places = [
            (owner, name, part)
            for owner in module.modules()
            for name, part in owner._parameters.items()
            if part is not None and shard_of(part) is not None
        ]
        whole: dict[int, Any] = {id(p): p.shard.whole(p) for _, _, p in places}
        for owner, name, part in places:
            owner._parameters[name] = whole[id(part)]
        try:
            yield
        finally:
            for owner, name, part in places:
                owner._parameters[name] = part
                if writeback:
                    with no_grad():
                        part.copy_(part.shard.of(whole[id(part)]))


def wrap_inner(module: Module, policy: Callable[..., bool], group: Any, precision: Any) -> None:
    """Make units of the inner modules a policy chooses, innermost first."""
    for child in module.children():
        wrap_inner(child, policy, group, precision)
        count = sum(p.shape.numel() for p in child.parameters() if shard_of(p) is None)
        if count and policy(module=child, recurse=False, nonwrapped_numel=count):
            fully_shard(child, mesh=group, mp_policy=precision)
