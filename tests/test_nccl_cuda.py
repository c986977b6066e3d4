"""NCCL on a GPU: one process, and what two on one GPU are told; `pytest -m cuda`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.communication.gpu_messages import MESSAGES
from adjoint.distributed.fsdp import CPUOffloadPolicy, fully_shard
from adjoint.distributed.pipelining import PipelineStage, Schedule1F1B
from adjoint.nn import functional as F
from adjoint.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.cuda
DTYPES = [
    ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64, ad.float16, ad.bfloat16, ad.float32,
    ad.float64, ad.complex64, ad.complex128,
]  # fmt: skip


@pytest.fixture
def world() -> Iterator[Any]:
    dist.init_process_group("nccl", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def carried(world: Any) -> bool:
    return "cuda:0" in world.device_channels


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_collectives_of_one(world: Any, dtype: Any) -> None:
    assert dist.get_backend() == "nccl"
    want = ad.tensor(np.random.default_rng(0).integers(0, 2, (3, 4)).tolist()).to(dtype)
    exact = not (dtype.is_floating_point or dtype.is_complex)
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT]
    ops += [] if dtype.is_complex else [dist.ReduceOp.MIN, dist.ReduceOp.MAX]
    ops += [dist.ReduceOp.BAND, dist.ReduceOp.BXOR] if exact else [dist.ReduceOp.AVG]
    for op in ops:
        x = want.to("cuda")
        dist.all_reduce(x, op)
        ad.testing.assert_close(x.cpu(), want)
        dist.reduce(x, 0, op)
        part = ad.zeros(3, 4, dtype=dtype, device="cuda")
        dist.reduce_scatter_tensor(part, x, op)
        ad.testing.assert_close(part.cpu(), want)
    x = want.to("cuda")
    assert carried(world)
    dist.broadcast(x, 0)
    turned = ad.zeros(4, 3, dtype=dtype, device="cuda").T
    dist.all_gather_into_tensor(turned, x)
    ad.testing.assert_close(turned.cpu(), want)
    for move in ("all_gather", "gather", "scatter", "all_to_all", "all_to_all_single"):
        out = ad.zeros(3, 4, dtype=dtype, device="cuda")
        match move:
            case "all_gather":
                dist.all_gather([out], x)
            case "gather":
                dist.gather(x, [out], dst=0)
            case "scatter":
                dist.scatter(out, [x], src=0)
            case "all_to_all":
                dist.all_to_all([out], [x])
            case _:
                dist.all_to_all_single(out, x)
        ad.testing.assert_close(out.cpu(), want, msg=move)


def test_work_under_way(world: Any) -> None:
    side = ad.cuda.Stream()
    with ad.cuda.stream(side):
        x = ad.ones(1 << 20, device="cuda")
        ad.cuda._sleep(10_000_000)
        x += 1  # what is queued comes first
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        y = x * 2
    side.synchronize()
    assert y.max().item() == 4.0
    assert work.is_completed()
    assert work.is_success()
    dist.barrier()
    other = dist.all_reduce(ad.ones(2, device="cuda"), async_op=True)
    assert other is not None
    assert other.get_future().wait()
    host = ad.ones(2)  # what is on the CPU goes by the host's engine
    dist.all_reduce(host)
    assert host.tolist() == [1.0, 1.0]
    names: list[Any] = [None]
    dist.all_gather_object(names, "me")
    assert names == ["me"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_messages_to_itself(world: Any, dtype: Any) -> None:
    """By NCCL, not through the host; contiguous and not, and none of no elements."""
    want = ad.tensor(np.random.default_rng(0).integers(0, 2, (3, 4)).tolist()).to(dtype)
    for given, into in (
        (want.to("cuda"), ad.zeros(3, 4, dtype=dtype, device="cuda")),
        (want.T.contiguous().to("cuda").T, ad.zeros(4, 3, dtype=dtype, device="cuda").T),
        (want[:0].to("cuda"), ad.zeros(0, 4, dtype=dtype, device="cuda")),
    ):
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, given, 0), dist.P2POp(dist.irecv, into, 0)]
        )
        for work in works:
            work.wait()
        ad.testing.assert_close(into.cpu(), given.cpu())
    assert len(world.device_channels[MESSAGES].wires) == 1


def test_messages_under_way(world: Any) -> None:
    side = ad.cuda.Stream()
    into = [ad.zeros(1 << 18, device="cuda") for _ in range(4)]
    with ad.cuda.stream(side):
        x = ad.ones(1 << 18, device="cuda")
        ad.cuda._sleep(10_000_000)
        messages = []
        for number, target in enumerate(into):
            x = x + number  # what is queued comes first
            messages += [dist.P2POp(dist.isend, x, 0), dist.P2POp(dist.irecv, target, 0)]
        works = dist.batch_isend_irecv(messages)
        for work in works:
            work.wait()
        sums = [target * 2 for target in into]
    side.synchronize()
    assert [y.max().item() for y in sums] == [2.0, 4.0, 8.0, 14.0]
    assert [y.min().item() for y in sums] == [2.0, 4.0, 8.0, 14.0]
    assert all(work.get_future().wait() for work in works)
    assert all(work.is_completed() and work.is_success() for work in works)
    dist.send(x, 0, tag=3)
    x += 1
    assert dist.recv(into[0], tag=3) == 0
    assert into[0].max().item() == 7.0
    dist.send(x, 0)
    with pytest.raises(dist.DistBackendError, match="member 0 sent"):
        dist.recv(ad.zeros(3, device="cuda"), 0)
    dist.send(x, 0)
    with pytest.raises(dist.DistBackendError, match="both on the CPU"):
        dist.recv(ad.zeros(1 << 18), 0)


def test_a_pipeline_of_one(world: Any) -> None:
    net, x, y = ad.nn.Linear(4, 4).to("cuda"), ad.randn(8, 4), ad.randn(8, 4)
    x, y = x.to("cuda"), y.to("cuda")
    F.mse_loss(net(x), y).backward()
    wanted = net.weight.grad.clone()
    net.zero_grad()
    schedule = Schedule1F1B(PipelineStage(net, 0, 1, "cuda"), 4, F.mse_loss)
    schedule.step(x, target=y)
    ad.testing.assert_close(net.weight.grad, wanted)


def train(wrap: Any, compiled: bool = False) -> list[float]:
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(8, 32), ad.nn.Tanh(), ad.nn.Linear(32, 1)).to("cuda")
    net = wrap(net)
    optimizer = ad.optim.AdamW(net.parameters(), lr=0.01)
    x, y = ad.randn(64, 8, device="cuda"), ad.randn(64, 1, device="cuda")

    def step(x: Any, y: Any) -> Any:
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(6)]


def sharded(net: Any) -> Any:
    fully_shard(net)
    return net


def offloaded(net: Any) -> Any:
    """Parts, gradients and state on the host, computing on the GPU."""
    fully_shard(net[0], offload_policy=CPUOffloadPolicy())
    fully_shard(net, offload_policy=CPUOffloadPolicy())
    assert {p.device.type for p in net.parameters()} == {"cpu"}
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(on_the_host)
    return net


def on_the_host(parameter: Any) -> None:
    assert parameter.grad.device.type == "cpu"


@pytest.mark.parametrize("wrap", [DistributedDataParallel, sharded, offloaded])
def test_training_equals_one_process(world: Any, wrap: Any) -> None:
    assert train(wrap) == pytest.approx(train(lambda net: net), rel=1e-5)


def test_compiled_training_equals_one_process(world: Any) -> None:
    want = train(lambda net: net, compiled=True)
    assert train(DistributedDataParallel, compiled=True) == pytest.approx(want, rel=1e-4)


def test_derivatives_and_recorded_collectives(world: Any) -> None:
    import adjoint.distributed.nn as dist_nn

    x = ad.ones(3, device="cuda", requires_grad=True)
    (dist_nn.all_reduce(x * 2) * 3).sum().backward()
    assert x.grad.tolist() == [6.0] * 3

    @ad.compile
    def both(x: Any) -> Any:
        y = x * 2
        dist.all_reduce(y)
        return y + dist_nn.all_reduce(x)

    for _ in range(3):
        assert both(ad.ones(3, device="cuda")).tolist() == [3.0] * 3


TWO = """
import adjoint as ad, adjoint.distributed as dist
from adjoint.distributed.engines import mpi
mpi.joins = lambda: False  # by the store
dist.init_process_group("nccl", timeout=40)
assert dist.group.WORLD.engine.name == "store"
ad.cuda.set_device(0)
x = ad.ones(4, device="cuda") * (dist.get_rank() + 1)
y = ad.zeros(4, device="cuda")
works = dist.batch_isend_irecv([
    dist.P2POp(dist.isend, x, 1 - dist.get_rank()), dist.P2POp(dist.irecv, y, 1 - dist.get_rank()),
])
[work.wait() for work in works]
assert y.tolist() == [2.0 - dist.get_rank()] * 4
dist.all_reduce(x)
print("sum", x.tolist(), flush=True)
"""


def test_two_processes_on_one_gpu_are_told(tmp_path: Path) -> None:
    program = tmp_path / "two.py"
    program.write_text(TWO)
    made = subprocess.run(
        [sys.executable, "-m", "adjoint.cli", "launch", "--nproc-per-node=2", str(program)],
        env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode == 0:  # an NCCL that allows it
        assert made.stdout.count("sum [3.0, 3.0, 3.0, 3.0]") == 2
    else:
        assert "GPU of its own" in made.stderr, made.stderr
