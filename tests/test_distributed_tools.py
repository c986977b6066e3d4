"""What belongs to several processes and is used from one: launches, conversions, marks of models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as dcp
from adjoint import nn
from adjoint.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from adjoint.distributed.communication.operations import ALL_REDUCE
from adjoint.distributed.elastic.multiprocessing.errors import ChildFailedError
from adjoint.distributed.launcher import LaunchConfig, elastic_launch
from adjoint.distributed.pipelining import SplitPoint, pipe_split, pipeline
from adjoint.distributed.pipelining.schedules import Schedule1F1B, get_schedule_class
from adjoint.distributed.sharded.unit import GATHER_PARTS
from adjoint.distributed.tensor.moves import COPIED, SUMMED
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.futures import Future
from adjoint.nn.parallel import DistributedDataParallel


def test_what_sends_messages_says_so() -> None:
    """So that eager programs neither try nor repeat it: all but a mark in a model's code."""
    ours = [r for r in REGISTRY.values() if r.infer.__module__.startswith("adjoint.distributed")]
    assert {r.name for r in ours if not r.communicates} <= {"pipe_split"}
    assert {r.name for r in (SUMMED, COPIED, GATHER_PARTS, ALL_REDUCE)} <= {r.name for r in ours}


def test_checkpoints_of_folders_and_of_files(tmp_path: Path) -> None:
    state = {"model": {"a/b": ad.arange(6.0).view(2, 3), "n": ad.tensor(3)}, "step": 7}
    dcp.save(state, checkpoint_id=tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "file.pt")
    found = ad.load(tmp_path / "file.pt")
    assert found["step"] == 7
    assert found["model"]["a/b"].equal(state["model"]["a/b"])  # type: ignore[index]
    torch_save_to_dcp(tmp_path / "file.pt", tmp_path / "again")
    read: Any = {"model": {"a/b": ad.zeros(2, 3), "n": ad.tensor(0)}, "step": 0}
    dcp.load(read, checkpoint_id=tmp_path / "again")
    assert read["model"]["a/b"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert dcp.async_save(state, checkpoint_id=tmp_path / "later").result() is None


def test_checkpoints_are_read_in_part(tmp_path: Path) -> None:
    dcp.save({"a": ad.ones(2)}, checkpoint_id=tmp_path, planner=dcp.DefaultSavePlanner())
    read: Any = {"a": ad.zeros(2), "inner": {"b": ad.zeros(3), "n": 5}}
    with pytest.raises(KeyError, match="has no"):
        dcp.load(read, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner())
    assert read["a"].tolist() == [0, 0]
    partly = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(read, checkpoint_id=tmp_path, planner=partly)
    assert read["a"].tolist() == [1, 1]
    assert (read["inner"]["b"].tolist(), read["inner"]["n"]) == ([0, 0, 0], 5)
    with pytest.raises(NotImplementedError, match="planners of one's own"):
        dcp.save({}, checkpoint_id=tmp_path, planner=partly)


def test_hook_of_a_single_process() -> None:
    """A communication hook does what is done with gradients, also where nobody is to be told."""

    def halved(state: list[int], bucket: Any) -> Future:
        state.append(bucket.index())
        answer = Future()
        answer.set_result(bucket.buffer() / 2)
        return answer

    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        model: Any = DistributedDataParallel(ad.nn.Linear(2, 1, bias=False))
        called: list[int] = []
        for turn in range(3):
            if turn == 1:
                model.register_comm_hook(called, halved)
            model.zero_grad()
            model(ad.ones(1, 2)).sum().backward()
            wanted = 0.5 if turn else 1.0
            assert model.module.weight.grad.tolist() == [[wanted, wanted]]
        assert called == [0, 0]
    finally:
        dist.destroy_process_group()


def summed(value: float) -> tuple[int, float]:
    """What each process of a launch returns."""
    dist.init_process_group("gloo")
    x = ad.full((1,), value)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return int(os.environ["RANK"]), x.item()


def fails(folder: str) -> str:
    """Fails in the first attempt."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("boom")
    return folder


@pytest.mark.slow
def test_launches_from_a_program() -> None:
    pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
    config = LaunchConfig(1, 1, 2, max_restarts=1)
    assert elastic_launch(config, summed)(3.0) == {0: (0, 6.0), 1: (1, 6.0)}
    assert elastic_launch(config, fails)("x") == {0: "x", 1: "x"}
    config.max_restarts = 0
    with pytest.raises(ChildFailedError, match="boom"):
        elastic_launch(config, fails)("x")
    with pytest.raises(NotImplementedError, match="machines"):
        elastic_launch(LaunchConfig(1, 2, 2), summed)(1.0)


class Marked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(3, 3), nn.Linear(3, 3), nn.Dropout(0.5)

    def forward(self, x: Any, *, twice: bool = False) -> Any:
        h = self.first(x)
        pipe_split()
        h = self.drop(self.second(h)) + h
        return {"h": h, "x": x * 2 if twice else x + 0}


def test_a_model_cut_at_its_marks() -> None:
    net = Marked().eval()
    x = ad.randn(2, 3)
    pipe = pipeline(net, (x,), {"twice": True})
    assert [list(pipe.get_stage_module(k).state_dict()) for k in (0, 1)] == [
        ["first.weight", "first.bias"], ["second.weight", "second.bias"],
    ]  # fmt: skip
    wanted, found = net(x, twice=True), pipe(x, twice=True)
    for name in ("h", "x"):
        assert ad.allclose(wanted[name], found[name])
    with pytest.raises(ValueError, match="recorded with True"):
        pipe(x, twice=False)
    split = {"first": SplitPoint.END, "second": SplitPoint.END}
    assert pipeline(net, (x,), split_spec=split).num_stages == 3
    assert "forward" not in net.first.__dict__
    many = ad.ones(64, 3)
    drawing = pipeline(Marked().train(), (many,))
    assert not drawing(many)["h"].equal(drawing(many)["h"])  # each call draws anew
    assert get_schedule_class("1F1B") is Schedule1F1B
    with pytest.raises(ValueError, match="Unknown schedule"):
        get_schedule_class("2F2B")


def test_what_cannot_be_cut() -> None:
    class Writes(nn.Module):
        def forward(self, x: Any) -> Any:
            x += 1
            return x

    with pytest.raises(RuntimeError, match="writes into an argument"):
        pipeline(Writes(), (ad.ones(2),))
    with pytest.raises(NotImplementedError, match="split_policy"):
        pipeline(Marked(), (ad.ones(2, 3),), split_policy=lambda graph: graph)
