"""A module trained by the processes of a group on different data."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from adjoint.distributed.algorithms.join import Join, Joinable, JoinConfig, JoinHook
from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.communication.objects import gathered
from adjoint.distributed.data_parallel.buckets import (
    MIB,
    GradBucket,
    RecordedBackward,
    Reducer,
    cut,
)
from adjoint.distributed.data_parallel.description import described
from adjoint.distributed.data_parallel.rows import sparse_weights
from adjoint.distributed.groups.group import resolve
from adjoint.engine.autodiff.tape.accumulate import EARLY_LEAVES
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.core.device import Device
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.futures import Future
from adjoint.nn.modules.module import Module


class DistributedDataParallel(Module, Joinable):
    """Wraps a module whose replicas, one per process, are trained together.

    At the start every process gets the parameters and buffers of the first. In backward, gradients
    are averaged over the group in buckets, each sent as soon as it is full while backward goes on.
    Every process must run the same backward passes.

    Args:
        module: the module to call; its parameters are under `module.`.
        device_ids: the device the module is on, to which inputs are moved; None leaves them.
        output_device: accepted as PyTorch has it.
        dim: accepted as PyTorch has it.
        broadcast_buffers: whether the first process's buffers replace the others' at the start and
            before a forward; they do unless it is False.
        init_sync: whether to begin with the first process's parameters and buffers.
        process_group: the processes; all unless given.
        bucket_cap_mb: how many MiB of gradients travel together, 25 unless given.
        find_unused_parameters: whether some parameters may have no part in a forward.
        check_reduction: accepted as PyTorch has it.
        gradient_as_bucket_view: accepted; gradients are always their own memory.
        static_graph: whether every iteration uses the same parameters, equally often: those that
            the first leaves out may stay out (Note [static graphs]).
        delay_all_reduce_named_params: not supported; freeze these parameters, or list their names
            in `_set_params_and_buffers_to_ignore_for_model` and average them yourself.
        param_to_hook_all_reduce: not supported, as that.
        mixed_precision: not supported; compute under `autocast`.
        device_mesh: the processes as a mesh of one dimension, in place of `process_group`.
        skip_all_reduce_unused_params: accepted; parameters that nobody uses keep their gradients.
        bucket_cap_mb_list: accepted; `bucket_cap_mb` says how large buckets are.
        batched_grad_copy: accepted; gradients are copied into a bucket at once.
        forward_sync_buffers: `broadcast_buffers`, but for the start, where buffers are those of the
            first process in any case.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> net = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
        >>> list(net.state_dict())
        ['module.weight', 'module.bias']
        >>> dist.destroy_process_group()
    """

    _compiled_part = "module"  # what is done around its calls, each call does
    _named_as_inner = "module"  # Note [names without wrappers]

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        refuse_options(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
        )
        if device_mesh is not None:
            process_group = group_of_mesh(device_mesh, process_group)
        self._join_config = JoinConfig()
        object.__setattr__(self, "_stand_in", None)  # a compiled twin of the module, in a call
        object.__setattr__(self, "process_group", resolve(process_group))
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        every = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        named = [(n, p) for n, p in every if p.requires_grad]
        _check(named, device_ids)
        self.module = module
        self.device_ids = list(device_ids) if device_ids else None
        self.output_device = output_device
        self.dim = dim
        begins_with_buffers = forward_sync_buffers is not None or broadcast_buffers is not False
        self.broadcast_buffers = (
            broadcast_buffers is not False if forward_sync_buffers is None else forward_sync_buffers
        )
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._divides_by_all = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MIB)
        sparse = {id(weight) for weight in sparse_weights(module)}
        reducer = Reducer(
            named, self.process_group, self.bucket_bytes_cap, find_unused_parameters, sparse,
            static_graph,
        )  # fmt: skip
        object.__setattr__(self, "reducer", reducer)
        self._alone = self.process_group.size() == 1
        if self._alone:
            return
        check_replicas(self.process_group, named)
        if init_sync:
            states = [p.detach() for _, p in every]
            self._spread([*states, *(self._buffers_in_common() if begins_with_buffers else ())], 0)
        self._watch_gradients()

    def _watch_gradients(self) -> None:
        """Have the reducer told of each gradient."""
        for parameter in (p for bucket in self.reducer.buckets for p in bucket.parameters):
            EARLY_LEAVES[id(parameter)] = parameter
            parameter.register_post_accumulate_grad_hook(self.reducer.arrived)

    def _spread(self, tensors: list[Tensor], source: int) -> None:
        """Replace tensors by those of one process, few messages for many of them."""
        kinds: dict[Any, list[Tensor]] = {}
        for item in tensors:
            kinds.setdefault((item.dtype, item.device), []).append(item)
        with no_grad():
            for same in kinds.values():
                flat = cat([t.reshape(-1) for t in same])
                broadcast(flat, group=self.process_group, group_src=source)
                for tensor, part in zip(same, cut(flat, same), strict=True):
                    tensor.copy_(part)

    def _buffers_in_common(self) -> list[Tensor]:
        named, ignored = self.module.named_buffers(), self.parameters_to_ignore
        return [b.detach() for name, b in named if name not in ignored]

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward begins with the buffers of one process."""
        wanted = self.broadcast_buffers and self.require_forward_param_sync
        return bool(wanted and self._buffers_in_common())

    def _share_buffers(self, source: int) -> None:
        """Before a forward, also one that evaluates: everybody has the buffers of one process."""
        if self.will_sync_module_buffers():
            self._spread(self._buffers_in_common(), source)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        inputs, kwargs = self._moved((inputs, kwargs))
        module = self._stand_in or self.module
        if self._alone:
            return module(*inputs, **kwargs)
        source = 0
        if self._join_config.enable:
            Join.notify_join_context(self)
            source, _, count = self._announce(active=True)
            self.reducer.divide_by = None if self._divides_by_all else count
        self._share_buffers(source)
        expects = CONTEXT.grad_enabled and self.require_backward_grad_sync
        self.require_forward_param_sync = expects  # nothing changes them before the next one
        reducer: Reducer = self.reducer
        if expects and reducer.armed and reducer.next + len(reducer.buckets[0].ready) > 0:
            self._refuse_unfinished(reducer)
        out = module(*inputs, **kwargs)
        if expects:
            self._arm(reducer, out)
        else:
            reducer.armed = False
        return out

    def call_around(self, inner: Any, *inputs: Any, **kwargs: Any) -> Any:
        """A call in which a compiled twin of the module runs."""
        object.__setattr__(self, "_stand_in", inner)
        try:
            return self._call_impl(*inputs, **kwargs)
        finally:
            object.__setattr__(self, "_stand_in", None)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the inner module's calls, in place."""
        self.module.compile(*args, **kwargs)

    def _refuse_unfinished(self, reducer: Reducer) -> None:
        names = reducer.missing()
        began = any(b.ready - reducer.absent for b in reducer.buckets)
        if names and began:
            raise RuntimeError(
                "DistributedDataParallel: Expected to have finished reduction in the prior "
                f"iteration before starting a new one. No gradient came for {', '.join(names)}: "
                "they have no part in the loss. Pass find_unused_parameters=True, or freeze them."
            )

    def _arm(self, reducer: Reducer, out: Any) -> None:
        unused: set[int] = set()
        tensors = [t for t in flatten(out)[0] if isinstance(t, Tensor) and t.requires_grad]
        if self.find_unused_parameters and not self.static_graph:
            reached = leaves_of(tensors)
            unused = {i for i in reducer.place if i not in reached}
        reducer.arm(unused)
        if CONTEXT.capture is not None:
            # A program that does not hold the averages stands for no other call.
            backward = reducer.recorded = RecordedBackward()
            CONTEXT.capture.guard(lambda: backward.inside, "gradients are averaged outside of it")
        if unused and tensors:
            # A bucket of parameters without gradients is sent as soon as backward begins.
            first = next((t for t in tensors if t.grad_fn is not None), None)
            if first is not None:
                first.register_hook(lambda g: reducer.send_full() if reducer.armed else None)

    def _moved(self, tree: Any) -> Any:
        if not self.device_ids:
            return tree
        given = self.device_ids[0]
        device = Device("cuda", given) if isinstance(given, int) else given
        leaves, structure = flatten(tree)
        return unflatten(structure, [x.to(device) if isinstance(x, Tensor) else x for x in leaves])

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients of this process as they are inside a `with` block.

        They add up, and the next backward outside averages the sums.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Future]) -> None:
        """Have `hook(state, bucket)` do what is done with a bucket of gradients."""
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        check_hook(hook)
        self.reducer.hook = partial(hook, state)
        if self._alone:  # the hook sees the gradients of a single process, too
            self._alone = False
            self._watch_gradients()

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Leave some parameters and buffers, by their dotted names, as each process has them."""
        object.__setattr__(module, "_ddp_params_and_buffers_to_ignore", list(names))

    def _set_static_graph(self) -> None:
        """Say that every iteration uses the same parameters."""
        self.static_graph = self.reducer.static = True

    def _get_ddp_logging_data(self) -> dict[str, str | int]:
        """Sizes, buckets and options, under PyTorch's names; times are the profiler's."""
        return described(self)

    # -- uneven inputs (Note [joining]) ----------------------------------------------------------

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Train on inputs of which processes have different numbers.

        A process that is done goes on taking part in the others' averages with zeros. In the end
        all get the parameters of one that was active last.

        Args:
            divide_by_initial_world_size: whether averages are over all processes; else over those
                that still have inputs.
            enable: whether it does anything.
            throw_on_early_termination: raise on every process when the first has no more inputs.
        """
        with Join(
            [self], enable and not self._alone, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        ):  # fmt: skip
            yield

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does in place of a step."""
        self._divides_by_all = bool(kwargs.get("divide_by_initial_world_size", True))
        return ReplicaJoinHook(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """The processes that are trained together."""
        return self.process_group

    def _announce(self, *, active: bool) -> tuple[int, bool, int]:
        """Of processes with inputs: the last one, whether gradients will be averaged, the count."""
        mine = [
            self.process_group.rank() if active else -1,
            int(active and CONTEXT.grad_enabled and self.require_backward_grad_sync),
        ]
        every = gathered(self.process_group, mine, "DistributedDataParallel join")
        here = [rank for rank, _ in every if rank >= 0]
        return max(here), any(flag for _, flag in every), len(here)

    def _shadow(self) -> None:
        """The collectives of a step of the others, without inputs of one's own."""
        source, averages, count = self._announce(active=False)
        self._share_buffers(source)
        self.require_forward_param_sync = averages
        if averages:
            self.reducer.divide_by = None if self._divides_by_all else count
            self.reducer.shadow()


class ReplicaJoinHook(JoinHook):
    """What a process without inputs does for a module under DistributedDataParallel."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        """Take part in the others' averages, with zeros."""
        self.model._shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Everybody gets the parameters and buffers of one that was active last."""
        model = self.model
        group = model.process_group
        mine = group.rank() if is_last_joiner else -1
        source = max(gathered(group, mine, "DistributedDataParallel join"))
        named = model.module.named_parameters()
        parameters = [p.detach() for name, p in named if name not in model.parameters_to_ignore]
        model._spread([*parameters, *model._buffers_in_common()], source)
        model.reducer.divide_by = None


def _check(trained: Sequence[Any], device_ids: Any) -> None:
    """Refuse a module without parameters that are trained, and several devices."""
    if not trained:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter "
            "that requires a gradient."
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError(
            "DistributedDataParallel: device_ids must be one device per process, received "
            f"{device_ids}"
        )


def check_hook(hook: Any) -> None:
    """Refuse a communication hook that says of itself that it takes or gives something else."""
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    try:
        said = inspect.signature(hook, eval_str=True)
    except (NameError, TypeError, ValueError):  # it says nothing, or nothing that is known here
        return
    bucket = said.parameters.get("bucket")
    taken = Any if bucket is None else bucket.annotation
    if taken not in (inspect.Parameter.empty, Any, GradBucket):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    given = said.return_annotation
    if given not in (inspect.Signature.empty, Any) and "Future" not in str(given):
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor] "
            "or torch._C.Future[torch.Tensor]."
        )


def refuse_options(**options: Any) -> None:
    """Refuse options that would change what is computed."""
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"DistributedDataParallel: {name} is not supported; see its documentation for "
                "what to do instead"
            )


def group_of_mesh(mesh: Any, group: Any) -> Any:
    """The processes of a mesh of one dimension."""
    if group is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {mesh}.")
    return mesh.get_group(0)


def check_replicas(group: Any, named: Sequence[tuple[str, Tensor]]) -> None:
    """Refuse on every process that their modules differ."""
    mine = [f"{name} {tuple(p.shape)} {p.dtype}" for name, p in named]
    digest = hashlib.blake2b("\n".join(mine).encode(), digest_size=16).hexdigest()
    digests = gathered(group, digest, "DistributedDataParallel check")
    if len(set(digests)) == 1:
        return
    every = gathered(group, mine, "DistributedDataParallel parameters")
    for rank, other in enumerate(every):
        if other != every[0]:
            pairs = zip([*every[0], ""], [*other, ""], strict=False)
            here, there = next((a, b) for a, b in pairs if a != b)
            raise RuntimeError(
                f"DistributedDataParallel: the module of rank {rank} differs from that of rank 0: "
                f"{there or 'no parameter'!s} instead of {here or 'no parameter'!s}"
            )


def leaves_of(tensors: list[Tensor]) -> set[int]:
    """The ids of the leaves that some tensors were computed from."""
    leaves: set[int] = set()
    seen: set[Any] = set()
    stack: list[Any] = []
    for tensor in tensors:
        if tensor.grad_fn is None:
            leaves.add(id(tensor))
        else:
            stack.append(tensor.grad_fn)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.edges:
            if edge is None:
                continue
            if isinstance(edge[0], BackwardNode):
                stack.append(edge[0])
            else:
                leaves.add(id(edge[0]))
    return leaves
