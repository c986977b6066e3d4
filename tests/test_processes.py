"""Tensors shared between processes; scripts that start processes; groups of one process."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
import adjoint.multiprocessing as mp
from tests.test_run import run, write

METHODS = [
    m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()
]

HOGWILD = """
import sys
import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank, model, losses):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(100):
        x = torch.randn(32, 4)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    losses.put(loss.detach())
    done.wait(20)


def late(rank, model, losses, event):
    global done
    done = event
    train(rank, model, losses)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    model = nn.Linear(4, 1).share_memory()
    losses, event = mp.Queue(), mp.Event()
    processes = [mp.Process(target=late, args=(r, model, losses, event)) for r in range(2)]
    for p in processes:
        p.start()
    got = [losses.get(timeout=300) for _ in processes]
    event.set()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0, 0]
    assert all(isinstance(x, torch.Tensor) and x < 0.05 for x in got), got
    torch.testing.assert_close(model.weight, torch.ones(1, 4), atol=0.1, rtol=0)
    print("trained")
"""


@pytest.mark.parametrize("method", METHODS)
def test_processes_train_one_model(tmp_path: Path, method: str) -> None:
    done = run(write(tmp_path, HOGWILD), method)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"


LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.tensor(i) ** 2


if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="{}")
    print([batch.tolist() for batch in loader])
"""


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_script_know_torch(tmp_path: Path, method: str) -> None:
    done = run(write(tmp_path, LOADER.replace("{}", method)))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[0, 1, 4, 9], [16, 25, 36, 49]]\n"


def _set(index: int, shared: Any) -> None:
    shared[index] = index + 1


def _fail(index: int) -> None:
    raise KeyError("lost")


def _leave(index: int) -> None:
    raise SystemExit(3)


def test_spawned_functions_write_to_shared_memory() -> None:
    shared = ad.zeros(2).share_memory_()
    mp.start_processes(_set, (shared,), 2, start_method="fork")
    assert shared.tolist() == [1, 2]


def test_failures_are_reported() -> None:
    with pytest.raises(
        mp.ProcessRaisedException, match="Process 0 terminated.*(\n.*)+KeyError: 'lost'"
    ):
        mp.start_processes(_fail, nprocs=1, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="exit code 3"):
        mp.start_processes(_leave, nprocs=1, start_method="fork")


def test_sharing_keeps_what_a_tensor_is() -> None:
    x = ad.nn.Parameter(ad.arange(6.0).reshape(2, 3))
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x.requires_grad
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    (x * 2).sum().backward()
    ad.optim.SGD([x], lr=1.0).step()
    assert x.is_shared()
    assert x[0].tolist() == [-2, -1, 0]
    view = ad.arange(4.0)[1:].share_memory_()
    assert view.tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:.*set_sharing_strategy")  # it has no effect, and says so once
def test_strategies() -> None:
    assert mp.get_sharing_strategy() == "file_descriptor"
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(ValueError, match="received 'none'"):
        mp.set_sharing_strategy("none")


# -- groups of one --------------------------------------------------------------------------------


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_collectives_of_one() -> None:
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    x = ad.tensor([1.0, 2.0])
    assert dist.all_reduce(x) is None
    work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
    assert work is not None
    assert work.wait()
    out = [ad.zeros(2)]
    dist.all_gather(out, x)
    assert out[0].tolist() == x.tolist() == [1, 2]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo")
    sampler = ad.utils.data.DistributedSampler(range(4), shuffle=False)  # type: ignore[arg-type]
    assert list(sampler) == [0, 1, 2, 3]


@pytest.mark.usefixtures("group")
def test_distributed_module_trains() -> None:
    net = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
    with net.no_sync():
        assert not net.require_backward_grad_sync
        net(ad.ones(3, 2)).sum().backward()
    assert net.module.weight.grad.tolist() == [[3, 3]]


def test_without_a_group() -> None:
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="has not been initialized"):
        ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
    with pytest.raises(dist.DistStoreError, match=r"rank\(s\) 1 of 2 have not come"):
        dist.init_process_group("gloo", "tcp://127.0.0.1:0", timeout=0.2, rank=0, world_size=2)
    with pytest.raises(ValueError, match="rank must be from 0 to 1"):
        dist.init_process_group("gloo", rank=2, world_size=2)
    with pytest.raises(ValueError, match="Invalid backend"):
        dist.init_process_group("carrier pigeon")
    if not ad.cuda.is_available():
        with pytest.raises(RuntimeError, match="NCCL is not available: there is no GPU.*gloo"):
            dist.init_process_group("nccl")
