"""Training on real ranks follows the losses of one process that sees the whole batch."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed._composable.replicate import replicate
from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from adjoint.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook
from adjoint.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from adjoint.distributed.communication import kernels
from adjoint.distributed.communication.progress import PROGRESS
from adjoint.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from adjoint.futures import Future
from adjoint.models import GPT2, GPT2Config
from adjoint.nn import functional as F
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.checkpoint import checkpoint
from tests.ranks.checks import run, same, usual

STEPS = 4


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
    )


def gpt() -> Any:
    return GPT2(
        GPT2Config(vocab_size=17, n_positions=8, n_embd=16, n_layer=2, n_head=2, dropout=0.0)
    )


def gpt_loss(model: Any, x: Any) -> Any:
    out = model(x)
    logits = getattr(out, "logits", out)
    logits = logits[0] if isinstance(logits, tuple) else logits
    return F.cross_entropy(logits[:, :-1].reshape(-1, 17), x[:, 1:].reshape(-1))


def square(model: Any, x: Any) -> Any:
    return (model(x) ** 2).mean()


CASES: dict[str, Any] = {
    "mlp": (mlp, lambda: ad.randn(STEPS, 8, 6), square),
    "cnn": (cnn, lambda: ad.randn(STEPS, 8, 1, 6, 6), square),
    "gpt": (gpt, lambda: ad.randint(0, 17, (STEPS, 8, 8)), gpt_loss),
}


def train(model: Any, batches: Any, loss_of: Any, compiled: bool = False) -> list[float]:
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run_step = ad.compile(step, fullgraph=True) if compiled else step
    return [run_step(x).item() for x in batches]


def follows(rank: int, size: int, name: str, wrap: Any, compiled: bool = False) -> Any:
    make, draw, loss_of = CASES[name]
    ad.manual_seed(5)
    alone, model, batches = make(), make(), draw()
    model.load_state_dict(alone.state_dict())
    if name == "cnn":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    if rank:  # DistributedDataParallel begins with the first process's parameters
        for p in model.parameters():
            p.data.add_(1.0)
    model = wrap(model)
    wanted = train(alone, batches, loss_of)
    share = 8 // size
    mine = train(model, batches[:, rank * share : (rank + 1) * share], loss_of, compiled)
    total = ad.tensor(mine)
    dist.all_reduce(total, dist.ReduceOp.AVG)
    same(total, wanted, 2e-5)
    for a, b in zip(alone.parameters(), model.parameters(), strict=True):
        same(a, b, 1e-3)
    return alone, model


def check_replicas_follow_one_process(rank: int, size: int) -> None:
    for name in CASES:
        alone, model = follows(rank, size, name, DDP)
        if name == "cnn":
            for a, b in zip(alone.buffers(), model.buffers(), strict=True):
                same(a, b, 1e-5)


def check_replicated_in_place(rank: int, size: int) -> None:
    follows(rank, size, "mlp", replicate)
    with pytest.raises(ValueError, match="already"):
        replicate(replicate(mlp()))


def check_compiled_replicas(rank: int, size: int) -> None:
    for name in usual(CASES, "mlp", "cnn"):
        follows(rank, size, name, DDP, compiled=True)


def check_compiled_forward(rank: int, size: int) -> None:
    """Averages are made where only the forward is compiled, by module, by function or in place."""
    alone, model = mlp(), DDP(mlp())
    alone.load_state_dict(model.module.state_dict())
    x = ad.randn(4, 8, 6)
    share = 8 // size
    forwards: list[Any] = [ad.compile(model), ad.compile(lambda x: model(x))]
    model.compile()
    forwards.append(model)
    for forward in forwards:
        for batch in x:
            model.zero_grad()
            alone.zero_grad()
            forward(batch[rank * share : (rank + 1) * share]).square().mean().backward()
            alone(batch).square().mean().backward()
            for a, b in zip(alone.parameters(), model.parameters(), strict=True):
                same(a.grad, b.grad, 1e-5)


def check_compiled_settings(rank: int, size: int) -> None:
    """A compiled step sees what is set between calls: no_sync, hooks, periods, the group."""

    def counting(state: list[int], bucket: dist.GradBucket) -> Future:
        state[0] += 1
        answer = Future()
        answer.set_result(bucket.buffer() * state[0])
        return answer

    def played(wrap: Any) -> list[Any]:
        model: Any = DDP(nn.Linear(2, 1, bias=False))
        nn.init.ones_(model.module.weight)
        averager = PeriodicModelAverager(period=2, warmup_steps=2)
        optimizer = PostLocalSGDOptimizer(ad.optim.SGD(model.parameters(), lr=0.1), averager)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            (model(x) * dist.get_world_size()).sum().backward()
            optimizer.step()

        run_step, seen = wrap(step), []
        for turn in "sync alone sync set hook hook".split():
            model.require_backward_grad_sync = turn != "set"
            if turn == "hook" and model.reducer.hook is None:
                model.register_comm_hook([0], counting)
            with model.no_sync() if turn == "alone" else nullcontext():
                run_step(ad.full((1, 2), float(rank + 1)))
            seen.append((model.module.weight.tolist(), model.module.weight.grad.tolist()))
        return [*seen, averager.step]

    wanted = played(lambda step: step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps with the hook run as Python
        assert played(lambda step: ad.compile(step, fullgraph=False)) == wanted


def check_compiled_overlap(rank: int, size: int) -> None:
    """In a compiled step averages of gradients are begun while backward goes on, and ended later."""
    events: list[str] = []
    submit, wait = PROGRESS.submit, PROGRESS.wait

    def submitted(*args: Any, **kwargs: Any) -> Any:
        if "recorded" in args[1]:
            events.append("begin")
        return submit(*args, **kwargs)

    def waited(operation: Any, *args: Any) -> Any:
        if "recorded" in operation.what:
            events.append("end")
        return wait(operation, *args)

    PROGRESS.submit, PROGRESS.wait = submitted, waited
    try:
        follows(rank, size, "mlp", lambda m: DDP(m, bucket_cap_mb=0.0001), compiled=True)
    finally:
        PROGRESS.submit, PROGRESS.wait = submit, wait
    assert not kernels.UNDER_WAY
    steps = "".join("(" if e == "begin" else ")" for e in events)
    assert "((" in steps  # one is begun before another has ended
    assert steps.count("(") == steps.count(")") > 0


def check_small_buckets(rank: int, size: int) -> None:
    follows(rank, size, "gpt", lambda m: DDP(m, bucket_cap_mb=0.001))


def check_early_sending(rank: int, size: int) -> None:
    """Buckets leave before backward ends: the last layer's is sent when the first's is not there."""
    model: Any = DDP(mlp(), bucket_cap_mb=0.0001)
    seen: list[bool] = []
    plain = model.reducer.send

    def send(bucket: Any) -> None:
        seen.append(model.module[0].weight.grad is None)
        plain(bucket)

    model.reducer.send = send
    model(ad.randn(4, 6)).sum().backward()
    assert len(seen) > 1
    assert seen[0]
    assert not seen[-1]


def check_accumulation(rank: int, size: int) -> None:
    alone = mlp()
    model: Any = DDP(mlp())
    alone.load_state_dict(model.module.state_dict())
    x = ad.randn(2, 8, 6)
    share = 8 // size
    mine = x[:, rank * share : (rank + 1) * share]
    with model.no_sync():
        model(mine[0]).mean().backward()
    local = model.module[0].weight.grad.clone()
    every = [ad.zeros_like(local) for _ in range(size)]
    dist.all_gather(every, local)
    assert not all(e.equal(local) for e in every)
    model(mine[1]).mean().backward()
    (alone(x[0]).mean() + alone(x[1]).mean()).backward()
    for a, b in zip(alone.parameters(), model.parameters(), strict=True):
        same(a.grad, b.grad, 1e-6)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.never = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x: Any, which: str) -> Any:
        return getattr(self, which)(x)


def check_unused(rank: int, size: int) -> None:
    model = DDP(Branches(), find_unused_parameters=True)
    x = ad.ones(3, 2)
    for _ in range(2):
        model.zero_grad()
        model(x, "a" if rank == 0 else "b").sum().backward()
        same(model.module.a.weight.grad, [[3.0 / size] * 2], 1e-6)
        same(model.module.b.weight.grad, [[3.0 * (size - 1) / size] * 2], 1e-6)
        assert model.module.never.weight.grad is None
    strict = DDP(Branches())
    strict(x, "a").sum().backward()
    with pytest.raises(RuntimeError, match=r"b\.weight"):
        strict(x, "a")


class Recomputed(nn.Module):
    """A layer that three reentrant checkpoints use, and one that nobody does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared = nn.Linear(3, 4), nn.Linear(4, 4)
        self.never, self.last = nn.Linear(2, 2), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        for _ in range(3):
            h = checkpoint(self.shared, h, use_reentrant=True).tanh()
        return self.last(h)


def check_static_graphs(rank: int, size: int) -> None:
    """Gradients that come in parts, and those that do not come, are averaged as one process's."""
    ad.manual_seed(5)
    alone = Recomputed()
    x = ad.randn(3, size, 2, 3)
    for options in ({}, {"bucket_cap_mb": 1e-5}):  # all in one bucket, and each in its own
        model = DDP(Recomputed(), static_graph=True, **options)
        model.module.load_state_dict(alone.state_dict())
        for batch in x:
            model.zero_grad()
            alone.zero_grad()
            model(batch[rank]).mean().backward()
            (sum(alone(part).mean() for part in batch) / size).backward()
            for a, b in zip(alone.parameters(), model.parameters(), strict=True):
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    same(a.grad, b.grad, 1e-6)
    changing = DDP(Recomputed(), find_unused_parameters=True)
    with pytest.raises(RuntimeError, match="mark a variable ready only once.*'shared"):
        changing(x[0, rank]).sum().backward()


def uneven_gradients(rank: int, size: int, divide_by_all: bool) -> Any:
    """What rank 0's process sees of gradients when others have inputs left."""
    model: Any = DDP(nn.Linear(2, 1, bias=False))
    seen = []
    with model.join(divide_by_initial_world_size=divide_by_all):
        for number in range(2 + rank):
            model.zero_grad()
            model(ad.full((1, 2), float(rank + 1))).sum().backward()
            seen.append((number, model.module.weight.grad[0, 0].item()))
    return seen


def check_uneven_inputs(rank: int, size: int) -> None:
    model = DDP(cnn())
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for number in range(2 + rank):
            optimizer.zero_grad()
            if number == 1:
                with model.no_sync():
                    model(ad.ones(2, 1, 6, 6)).sum().backward()
            model(ad.ones(2, 1, 6, 6)).sum().backward()
            optimizer.step()
    for p in (*model.parameters(), *model.buffers()):
        first = p.detach().clone()
        dist.broadcast(first, 0)
        same(p, first)
    for divide_by_all in (True, False):
        for number, grad in uneven_gradients(rank, size, divide_by_all):
            active = [r for r in range(size) if 2 + r > number]
            total = sum(r + 1 for r in active)
            same(grad, total / (size if divide_by_all else len(active)), 1e-6)
    with pytest.raises(RuntimeError, match="exhausted inputs"):
        ends_with_the_first(model, 2 + rank)


def ends_with_the_first(model: Any, count: int) -> None:
    with model.join(throw_on_early_termination=True):
        for _ in range(count):
            model(ad.ones(2, 1, 6, 6)).sum().backward()


class Counted(Joinable):
    """Sums ones over the processes that still have inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0.0
        self.last = False

    def __call__(self) -> None:
        Join.notify_join_context(self)
        one = ad.ones(1)
        dist.all_reduce(one)
        self.count += one.item()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return CountedHook(self, kwargs["factor"])

    @property
    def join_device(self) -> Any:
        return ad.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


class CountedHook(JoinHook):
    def __init__(self, counted: Counted, factor: float) -> None:
        self.counted, self.factor = counted, factor

    def main_hook(self) -> None:
        dist.all_reduce(ad.zeros(1))

    def post_hook(self, is_last_joiner: bool) -> None:
        self.counted.last = is_last_joiner
        self.counted.count *= self.factor


def check_joining_by_hooks(rank: int, size: int) -> None:
    counted = Counted()
    model = DDP(nn.Linear(1, 1))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), ad.optim.SGD, lr=0.1)
    with Join([model, optimizer, counted], factor=10.0):
        for _ in range(3 + rank):
            optimizer.zero_grad()
            model(ad.ones(1, 1)).sum().backward()
            optimizer.step()
            counted()
    assert counted.last == (rank == size - 1)
    steps = range(3 + rank)
    assert counted.count == 10 * sum(sum(3 + r > n for r in range(size)) for n in steps)


def check_hooks(rank: int, size: int) -> None:
    grads = []
    for hook in (None, default_hooks.allreduce_hook, default_hooks.bf16_compress_hook):
        ad.manual_seed(1)
        model: Any = DDP(mlp())
        if hook is not None:
            model.register_comm_hook(None, hook)
        model(ad.ones(2, 6) * (rank + 1)).sum().backward()
        grads.append(model.module[0].weight.grad)
    same(grads[0], grads[1], 1e-6)
    same(grads[0], grads[2], 2e-2)

    def takes_numbers(state: Any, bucket: int) -> Any:
        return bucket

    def gives_numbers(state: Any, bucket: dist.GradBucket) -> int:
        return 0

    for wrong, kind in ((7, TypeError), (takes_numbers, ValueError), (gives_numbers, ValueError)):
        with pytest.raises(kind, match="Communication hook"):
            DDP(mlp()).register_comm_hook(None, wrong)


def check_compressed_gradients(rank: int, size: int) -> None:
    """PowerSGD: exact where the rank suffices; what is lost comes with the next gradients."""
    shape = (24, 16)
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model: Any = DDP(nn.Linear(shape[1], shape[0], bias=False))
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, hook)
        total, wanted = ad.zeros(shape), ad.zeros(shape)
        for number in range(12):
            model.zero_grad()
            x = ad.arange(16.0).mul(0.3 * (rank + 1)).cos().view(1, 16)
            (model(x) * ad.arange(24.0).sin()).sum().backward()
            every = [ad.arange(16.0).mul(0.3 * (r + 1)).cos() for r in range(size)]
            exact = ad.outer(ad.arange(24.0).sin(), sum(every) / size)  # type: ignore[arg-type]
            if number < 2 or hook is powerSGD_hook.powerSGD_hook:
                same(model.module.weight.grad, exact, 1e-4)
            total += model.module.weight.grad
            wanted += exact
        lost = state.errors[0].view(shape).clone()
        dist.all_reduce(lost, dist.ReduceOp.AVG)
        same(total + lost, wanted, 1e-3)


def check_local_training(rank: int, size: int) -> None:
    """Gradients of neighbours after a while, and parameters that are averaged now and then."""
    model: Any = DDP(nn.Linear(2, 1, bias=False))
    alone, _ = dist.new_subgroups(1)
    model.register_comm_hook(PostLocalSGDState(None, alone, 2), post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(ad.optim.SGD(model.parameters(), lr=0.1), averager)
    for number in range(6):
        optimizer.zero_grad()
        model(ad.full((1, 2), float(rank + 1))).sum().backward()
        grad = (size + 1) / 2 if number < 2 else rank + 1
        same(model.module.weight.grad, [[grad] * 2], 1e-6)
        optimizer.step()
        every = [ad.zeros(1, 2) for _ in range(size)]
        dist.all_gather(every, model.module.weight.detach())
        alike = all(ad.allclose(e, every[0]) for e in every)
        assert alike == (number < 3 or number % 2 == 0), number
    assert optimizer.state_dict()["step"] == 6


def check_buffers_of_evaluation(rank: int, size: int) -> None:
    """An evaluation begins with the buffers of the first process; they need no further sending."""
    norm: Any = nn.BatchNorm1d(3)
    model = DDP(nn.Sequential(norm, nn.Linear(3, 2)))
    for shared in (True, False):
        model.broadcast_buffers = shared
        model.train()
        model(ad.arange(12.0).reshape(4, 3) * (rank + 1)).sum().backward()
        first = norm.running_mean.clone()
        own = first.clone()
        dist.broadcast(first, 0)
        assert rank == 0 or own.tolist() != first.tolist()
        model.eval()
        with ad.no_grad():
            model(ad.ones(4, 3))
        same(norm.running_mean, first if shared else own)
        norm.running_mean.fill_(float(rank))
        with ad.no_grad():
            model(ad.ones(4, 3))
        same(norm.running_mean, ad.full((3,), float(rank)))


def check_what_is_left_to_each_process(rank: int, size: int) -> None:
    """Buffers that are not sent, and names that are to be ignored, stay as processes have them."""
    for how, shared in (
        ({}, True), ({"broadcast_buffers": False}, False), ({"forward_sync_buffers": False}, True),
    ):  # fmt: skip
        norm: Any = nn.BatchNorm1d(3)
        norm.running_mean.fill_(float(rank))
        model = DDP(norm, **how)
        same(norm.running_mean, ad.full((3,), 0.0 if shared else float(rank)))
        assert model.will_sync_module_buffers() is (how == {})
    net = mlp()
    ad.nn.init.constant_(net[0].bias, float(rank))
    DDP._set_params_and_buffers_to_ignore_for_model(net, ["0.bias"])
    model = DDP(net)
    model(ad.ones(2, 6) * (rank + 1)).sum().backward()
    sums = [ad.tensor([p.grad.sum().item(), p.detach().sum().item()]) for p in net.parameters()]
    for (name, _), mine in zip(net.named_parameters(), sums, strict=True):
        first = mine.clone()
        dist.broadcast(first, 0)
        assert (mine.tolist() == first.tolist()) is (rank == 0 or name != "0.bias"), name


def check_sparse_gradients(rank: int, size: int) -> None:
    """Rows that processes have different numbers of, or none, beside dense parameters."""

    def net(sparse: bool) -> Any:
        ad.manual_seed(3)
        return nn.Sequential(nn.Embedding(9, 4, sparse=sparse), nn.Linear(4, 2))

    model: Any = DDP(net(True), find_unused_parameters=True)
    other: Any = DDP(net(False))
    for numbers in ([rank, 5, 5][: rank + 1], [8]):
        x = ad.tensor(numbers)
        for replica in (model, other):
            with replica.no_sync():
                replica(x).square().sum().backward()
            replica(x).sum().backward()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            same(a.grad.to_dense() if a.grad.is_sparse else a.grad, b.grad, 1e-6)
        assert model.module[0].weight.grad.is_coalesced()
        model.zero_grad()
        other.zero_grad()
    for replica in (model, other):
        with replica.join():
            for _ in range(rank + 1):
                replica(ad.tensor([rank])).sum().backward()
    same(model.module[0].weight.grad.to_dense(), other.module[0].weight.grad, 1e-6)
    hooked = DDP(net(True))
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    with pytest.raises(NotImplementedError, match="communication hook"):
        hooked(ad.tensor([0])).sum().backward()


def check_options_and_description(rank: int, size: int) -> None:
    with pytest.raises(TypeError, match="unknown"):
        DDP(mlp(), unknown=True)
    with pytest.raises(NotImplementedError, match="mixed_precision"):
        DDP(mlp(), mixed_precision=object())
    line = dist.init_device_mesh("cpu", (size,))
    model = DDP(mlp(), device_mesh=line, bucket_cap_mb=1, static_graph=True)
    assert model.process_group.size() == size
    with pytest.raises(RuntimeError, match="both"):
        DDP(mlp(), device_mesh=line, process_group=model.process_group)
    for _ in range(2):
        model(ad.ones(2, 6)).sum().backward()
    wanted = {
        "world_size": size, "rank": rank, "backend_name": "gloo", "module_name": "Sequential",
        "num_parameter_tensors": 4, "total_parameter_size_bytes": 652, "iteration": 2,
        "bucket_cap_bytes": 1 << 20, "bucket_sizes": "652", "per_bucket_param_indices": "3 2 1 0",
        "static_graph": 1, "has_sync_bn": 0, "dtypes": "float32", "num_buckets_reduced": 1,
    }  # fmt: skip
    assert {key: model._get_ddp_logging_data()[key] for key in wanted} == wanted


def check_different_modules(rank: int, size: int) -> None:
    with pytest.raises(RuntimeError, match="rank 1 differs"):
        DDP(nn.Linear(2, 3 if rank == 1 else 2))


def check_sampler(rank: int, size: int) -> None:
    sampler = ad.utils.data.DistributedSampler(range(10), shuffle=True)  # type: ignore[arg-type]
    sampler.set_epoch(3)
    every: list[Any] = [None] * size
    dist.all_gather_object(every, list(sampler))
    assert sorted({i for part in every for i in part}) == list(range(10))


if __name__ == "__main__":
    run(sys.modules[__name__])
