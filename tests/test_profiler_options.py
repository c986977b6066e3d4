"""The profiler's options and PyTorch's names for what it saw."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import profiler as older
from adjoint.engine.core.operations.record import HOOKS
from adjoint.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    profile,
    record_function,
    schedule,
)

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA


def network() -> ad.nn.Module:
    return ad.nn.Sequential(ad.nn.Linear(64, 128), ad.nn.ReLU(), ad.nn.Linear(128, 8))


def rows_of(seen: profile) -> dict[str, Any]:
    return {row.key: row for row in seen.key_averages()}


# -- what was seen ------------------------------------------------------------------------------


def test_events_have_pytorchs_names() -> None:
    x = ad.randn(3, 4)
    with profile(record_shapes=True) as seen, record_function("part"):
        ad.nn.functional.relu(x) * 2
    events = {event.name: event for event in seen.events()}
    part, relu, mul = events["part"], events["aten::relu"], events["aten::mul"]
    assert part.cpu_children == [relu, mul]
    assert (relu.cpu_parent, part.cpu_parent) == (part, None)
    assert (part.is_user_annotation, mul.is_user_annotation) == (True, False)
    assert mul.input_shapes == [[3, 4]]
    assert mul.time_range.elapsed_us() == mul.cpu_time_total == mul.cpu_time > 0
    assert (mul.device_type, mul.device_time_total, mul.kernels) == (DeviceType.CPU, 0, [])
    assert mul.cpu_time_str.endswith(("us", "ms", "s"))
    top = seen.key_averages().table(top_level_events_only=True)
    assert "part" in top
    assert "aten::mul" not in top
    assert "aten::mul" in repr(mul)
    assert "aten::mul" in repr(rows_of(seen)["aten::mul"])
    events_list = seen.events()
    assert events_list.total_average().count == len(events_list)


def test_operations_outside_ranges_are_at_the_top() -> None:
    with profile() as seen:
        ad.ones(3).exp()
    assert "aten::exp" in seen.key_averages().table(top_level_events_only=True)


def test_derivatives_come_from_where_their_operations_were_asked_for() -> None:
    model, x = network(), ad.randn(16, 64)
    with profile(with_modules=True, with_stack=True) as seen:
        loss = model(x).sum()
        loss.backward()
    rows = rows_of(seen)
    assert {"0", "2"} <= set(rows["LinearBackward0"].modules)
    (relu,) = [event for event in seen.events() if event.name == "ReluBackward0"]
    assert all(place.backward for place in relu.places)
    (forward,) = [event for event in seen.events() if event.name == "aten::relu"]
    assert relu.lines == forward.lines
    assert relu.stack == forward.stack


# -- memory -------------------------------------------------------------------------------------


def test_memory_is_what_was_taken_and_not_given_back() -> None:
    with profile(profile_memory=True) as seen:
        with record_function("given back"):
            x = ad.ones(1000) * 2
            del x
        with record_function("kept"):
            kept = ad.ones(500) * 2
        del kept
    rows = rows_of(seen)
    assert rows["given back"].cpu_memory_usage == 0
    assert rows["given back"].self_cpu_memory_usage == -8000
    assert rows["kept"].cpu_memory_usage == 2000
    assert rows["aten::mul"].cpu_memory_usage == 6000
    assert rows["[memory]"].self_cpu_memory_usage == -2000
    assert seen.key_averages().total_average().self_cpu_memory_usage == 0


def test_programs_take_memory_too() -> None:
    model = network()

    @ad.compile
    def loss(x: ad.Tensor) -> ad.Tensor:
        return model(x).exp().sum()

    x = ad.randn(500, 64)
    loss(x)
    with profile(profile_memory=True) as seen:
        loss(x)
    memory = seen.memory_timeline()
    assert memory.peak >= 4 * 500 * 128  # what the first layer gives
    assert "in a program" in str(memory)
    assert {"0", "1", "2"} & set(memory.by_module())
    assert memory.sizes[-1] <= 4


def test_files_of_memory_over_time(tmp_path: Path) -> None:
    with profile(profile_memory=True) as seen:
        ad.ones(1000) * 2
    timeline = seen.memory_timeline()
    for name in ("a.json", "a.json.gz", "a.raw.json.gz", "a.html"):
        seen.export_memory_timeline(str(tmp_path / name))
    plain = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == plain
    times, sizes = json.loads(plain)
    assert [sum(row) for row in sizes] == timeline.sizes
    assert len(times) == len(timeline.times)
    changes = json.loads(gzip.decompress((tmp_path / "a.raw.json.gz").read_bytes()))
    assert max(ad.tensor([c[2] for c in changes]).cumsum(0).tolist()) == timeline.peak
    assert "aten::mul" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert seen.memory_timeline("cuda").peak == 0


# -- what is asked for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([], AssertionError, "No valid"),
        ([{CPU: []}], AssertionError, "No valid"),
        ([CPU, CPU], ValueError, "more than once"),
        ([CPU, {CPU: ["CPU_OP"]}], ValueError, "more than once"),
        (["cpu"], TypeError, "ProfilerActivity or dict"),
    ],
)
def test_activities_that_are_none(given: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        profile(activities=given)


def test_activities_by_kind() -> None:
    assert profile(activities=[{CPU: ["CPU_OP"]}, {CUDA: []}]).activities == {CPU}


def test_older_ways_to_ask_for_a_gpu() -> None:
    with pytest.warns(FutureWarning, match="use_cuda"):
        assert profile(use_cuda=True).activities == {CPU, CUDA}
    with pytest.warns(FutureWarning, match="use_cuda"):
        assert profile(use_cuda=False).activities == {CPU}
    assert older.profile(use_device="cuda").activities == {CPU, CUDA}
    with pytest.raises(TypeError, match="with_stak"):
        older.profile(with_stak=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("bad", [{"active": 0}, {"wait": -1}, {"warmup": -1}, {"repeat": -1}])
def test_schedules_that_are_none(bad: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match=f"{next(iter(bad))}={next(iter(bad.values()))}"):
        schedule(**({"wait": 1, "warmup": 1, "active": 1} | bad))
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=1, warmup=1, active=1)(-1)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=1, warmup=0, active=1)


def plan_of(**given: int) -> list[str]:
    return [action.name for action in map(schedule(**given), range(8))]


def test_schedules() -> None:
    none, warm, record, save = (action.name for action in ProfilerAction)
    assert plan_of(wait=1, warmup=1, active=2, repeat=1) == [none, warm, record, save] + [none] * 4
    first = plan_of(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)
    assert first == [none, warm, save, none, none, warm, save, none]


@pytest.mark.parametrize("all_cycles", [False, True])
def test_cycles_are_handed_over_one_by_one(all_cycles: bool) -> None:
    handed: list[tuple[str | None, int]] = []
    names = iter("abc")

    def ready(seen: profile) -> None:
        handed.append((seen.get_trace_id(), rows_of(seen)["aten::exp"].count))

    plan = schedule(wait=1, warmup=1, active=1)
    with profile(
        schedule=plan,
        on_trace_ready=ready,
        acc_events=all_cycles,
        custom_trace_id_callback=lambda: next(names),
    ) as seen:
        assert seen.get_trace_id() is None
        for _ in range(6):
            ad.ones(2).exp()
            seen.step()
    assert handed == [("a", 1), ("b", 2 if all_cycles else 1)]


def test_an_observer_is_told() -> None:
    class Observer:
        def __init__(self) -> None:
            self.told: list[str] = []

        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: self.told.append(name)

    observer = Observer()
    plan = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(schedule=plan, execution_trace_observer=observer) as seen:
        for _ in range(4):
            seen.step()
    assert observer.told == ["start", "stop", "cleanup"]


def test_a_stretch_is_left_off() -> None:
    with profile() as seen:
        ad.ones(2).exp()
        seen.toggle_collection_dynamic(False, [CPU])
        ad.ones(2).sin()
        seen.toggle_collection_dynamic(True, [CPU])
        ad.ones(2).cos()
        seen.toggle_collection_dynamic(False, [CUDA])
        ad.ones(2).tan()
    rows = rows_of(seen)
    assert {"aten::exp", "aten::cos", "aten::tan"} <= set(rows)
    assert "aten::sin" not in rows


def test_profiles_end_in_any_order() -> None:
    plain = HOOKS.run, HOOKS.bind, HOOKS.compute_into
    first, second = profile(), profile()
    first.start()
    second.start()
    ad.ones(2).exp()
    first.stop()
    ad.ones(2).sin()
    second.stop()
    ad.ones(2).cos()
    assert (HOOKS.run, HOOKS.bind, HOOKS.compute_into) == plain
    assert {"aten::exp"} == set(rows_of(first)) & {"aten::exp", "aten::sin", "aten::cos"}
    assert {"aten::exp", "aten::sin"} == set(rows_of(second)) & {
        "aten::exp",
        "aten::sin",
        "aten::cos",
    }


def test_finer_settings(tmp_path: Path) -> None:
    assert ad._C._profiler._ExperimentalConfig is _ExperimentalConfig
    with profile(experimental_config=_ExperimentalConfig(verbose=True)) as seen:
        ad.ones(2).exp()
    assert "aten::exp" in rows_of(seen)
    with profile(experimental_config=_ExperimentalConfig(trace_only=True)) as seen:
        ad.ones(2).exp()
    with pytest.raises(RuntimeError, match="trace_only"):
        seen.events()
    seen.export_chrome_trace(str(tmp_path / "t.json"))
    assert "aten::exp" in (tmp_path / "t.json").read_text()
    with pytest.raises(NotImplementedError, match="kineto__tensor_core_insts"):
        _ExperimentalConfig(profiler_metrics=["kineto__tensor_core_insts"])


def test_the_older_profile_prints_its_table() -> None:
    seen = older.profile()
    assert "unfinished" in str(seen)
    with seen:
        ad.ones(2).exp()
        with pytest.raises(RuntimeError, match="not reentrant"):
            seen.__enter__()
    assert "aten::exp" in str(seen)
    assert seen.total_average().count > 0
    with pytest.raises(NotImplementedError, match="emit_nvtx"):
        older.emit_itt()
    with older.emit_itt(enabled=False):
        pass


def test_what_is_asked_too_early_or_by_no_name_is_refused() -> None:
    with pytest.raises(AssertionError, match="must be initialized"):
        profile().key_averages()
    with pytest.raises(RuntimeError, match="received int"):
        record_function(3).__enter__()  # type: ignore[arg-type]
