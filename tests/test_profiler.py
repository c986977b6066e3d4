"""The profiler: counts, ranges, schedules, files, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.autograd import profiler as older
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.profiler import ProfilerActivity, device, profile, record_function, schedule
from adjoint.profiler.recorder import EventRecorder, Wanted


def counts(seen: profile) -> dict[str, int]:
    return {each.key: each.count for each in seen.key_averages()}


def test_operations_and_ranges_are_counted() -> None:
    x = ad.ones(3)
    bind = HOOKS.bind
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        for _ in range(4):
            with record_function("part"):
                x * 2
    x * 2
    assert CONTEXT.plain
    assert HOOKS.bind is bind
    found = counts(seen)
    assert found["aten::mul"] == found["part"] == 4
    outer = next(each for each in seen.key_averages() if each.key == "part")
    inner = next(each for each in seen.key_averages() if each.key == "aten::mul")
    assert outer.cpu_time_total >= inner.cpu_time_total >= inner.self_cpu_time_total > 0
    assert outer.self_cpu_time_total < outer.cpu_time_total
    averages = seen.key_averages(group_by_input_shape=True)
    text = averages.table("cpu_time_total")
    assert text.index("part") < text.index("aten::mul")
    longest = max(averages, key=lambda each: each.cpu_time_total)
    others = {each.key for each in averages} - {longest.key}
    text = averages.table("cpu_time_total", row_limit=1)
    assert longest.key in text
    assert not any(key in text for key in others)


def test_a_schedule_says_which_steps() -> None:
    handed: list[int] = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, on_trace_ready=lambda p: handed.append(len(p.events()))) as seen:
        for _ in range(8):
            ad.ones(2).exp()
            seen.step()
    assert len(handed) == 1
    assert counts(seen)["aten::exp"] == 2
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= set(counts(seen))


def test_an_error_ends_it() -> None:
    seen = profile()
    with pytest.raises(RuntimeError, match="shape"), seen:
        ad.ones(2).exp() @ ad.ones(3)
    assert CONTEXT.plain
    assert counts(seen)["aten::exp"] == 1


def test_the_trace_file(tmp_path: Path) -> None:
    with older.profile() as seen:
        ad.ones(2).exp()
    file = tmp_path / "trace.json"
    seen.export_chrome_trace(str(file))
    names = [entry["name"] for entry in json.loads(file.read_text())["traceEvents"]]
    assert "aten::exp" in names
    with older.profile(enabled=False) as off:
        ad.ones(2).exp()
    assert off.events() == []


def network() -> ad.nn.Module:
    return ad.nn.Sequential(ad.nn.Linear(64, 128), ad.nn.GELU(), ad.nn.Linear(128, 8))


def training_step(model: ad.nn.Module) -> Callable[[ad.Tensor], ad.Tensor]:
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: ad.Tensor) -> ad.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("compiled", [False, True])
def test_the_times_of_all_rows_are_that_of_the_block(compiled: bool) -> None:
    step = training_step(network())
    run = ad.compile(step) if compiled else step
    x = ad.randn(32, 64)
    run(x)
    before = time.perf_counter()
    with profile() as seen:
        start = time.perf_counter()
        for _ in range(20):
            run(x)
        end = time.perf_counter()
    after = time.perf_counter()
    total = 1e-6 * seen.key_averages().self_cpu_time_total
    assert end - start <= total <= after - before


def test_kernels_know_their_operations_modules_and_lines() -> None:
    model = network()
    step = ad.compile(training_step(model))
    x = ad.randn(32, 64)
    with profile() as first:
        step(x)
    stages = {each.key for each in first.key_averages() if each.kind == "compile"}
    assert {"record training_step.<locals>.step", "look on disk"} <= stages
    with profile(with_flops=True) as seen:
        step(x)
    kernels = [event for event in seen.events() if event.kind == "kernel"]
    products = [event for event in kernels if event.name.startswith("matmul")]
    assert {"0", "2"} <= {module for event in products for module in event.modules}
    # forward, and backward for weights of both layers and inputs of the second
    assert sum(event.flops for event in products) == 2 * 32 * (64 * 128 * 2 + 128 * 8 * 3)
    assert all(Path(w.file) == Path(__file__) for event in kernels for w in event.places)
    assert any(w.backward for event in kernels for w in event.places)
    outer = next(event for event in seen.events() if event.kind == "compiled")
    assert outer.start <= min(event.start for event in kernels)
    assert outer.inside <= outer.cpu_time_total
    assert "Roofline" in seen.key_averages().table()


@pytest.mark.parametrize("size", [8, 256])  # by the eager table, and as a fragment
def test_operations_their_derivatives_and_ranges_have_floating_point_operations(size: int) -> None:
    x = ad.randn(size, size)
    w, b = ad.randn(size, size, requires_grad=True), ad.randn(size, requires_grad=True)

    def work() -> None:
        with record_function("part"):
            ad.nn.functional.linear(x, w, b).sum().backward()

    work()
    with profile(with_flops=True) as seen:
        work()
    rows = {row.key: row for row in seen.key_averages()}
    product = 2 * size**3
    assert product <= rows["aten::linear"].flops <= product + 2 * size**2
    backward = rows["LinearBackward0"].flops
    assert product <= backward <= product + 2 * size**2  # of the weights alone
    assert 2 * product <= rows["part"].flops <= 2 * product + 20 * size**2
    assert sum(row.self_flops for row in rows.values()) == rows["part"].flops
    assert seen.key_averages().total_average().flops == rows["part"].flops


def test_other_threads_have_events_of_their_own(tmp_path: Path) -> None:
    def work() -> None:
        with record_function("in a thread"):
            for _ in range(3):
                ad.ones(4).exp()

    def left_open() -> None:
        record_function("left open").__enter__()

    before = time.perf_counter()
    with profile() as seen:
        start = time.perf_counter()
        threads = [
            threading.Thread(target=work, name="worker"),
            threading.Thread(target=left_open, name="another"),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ad.ones(4).sin()
        end = time.perf_counter()
    after = time.perf_counter()
    assert counts(seen)["aten::exp"] == 3
    inside = [event for event in seen.events() if event.name == "aten::exp"]
    here = threading.get_ident()
    assert all(event.depth == 1 and event.thread != here for event in inside)
    assert all(event.end <= 1e6 * after for event in seen.events())
    own = sum(event.self_cpu_time_total for event in seen.events() if event.thread == here)
    outside = next(row for row in seen.key_averages() if row.key.startswith("(Python"))
    assert end - start <= 1e-6 * (own + outside.self_cpu_time_total) <= after - before
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"}
    assert "worker" in names


def test_a_range_ended_in_another_thread_ends_no_other() -> None:
    with profile() as seen:
        moved = record_function("moved")
        with record_function("here"):

            def end_it() -> None:
                with record_function("there"):
                    moved.__exit__(None, None, None)
                    ad.ones(2).exp()

            moved.__enter__()
            thread = threading.Thread(target=end_it)
            thread.start()
            thread.join()
    rows = {event.name: event for event in seen.events()}
    assert rows["aten::exp"].outer is rows["there"]
    assert rows["moved"].outer is rows["here"]
    assert rows["moved"].end <= rows["there"].end


def test_a_loop_is_one_event_with_its_turns() -> None:
    @ad.compile
    def total(x: ad.Tensor) -> ad.Tensor:
        last, _ = ad.scan(lambda c, row: (c + (c * row).exp(), c), x[0], x)
        return last

    x = ad.randn(50, 16)
    total(x)
    with profile() as seen:
        total(x)
    kernels = [event for event in seen.events() if event.kind == "kernel"]
    assert sum(event.count for event in kernels) >= 50


def test_memory_over_time_names_what_holds_it(tmp_path: Path) -> None:
    model = network()
    with profile(profile_memory=True) as seen:
        out = model(ad.randn(500, 64))
        del out
        ad.ones(10)
    memory = seen.memory_timeline()
    assert memory.sizes[-1] < memory.peak
    largest = memory.at_peak()[0]
    assert largest.nbytes == 4 * 500 * 128
    assert str(Path(__file__).name) in largest.place
    assert {"0", "1"} & set(memory.by_module())
    seen.export_memory_timeline(str(tmp_path / "memory.html"))
    assert "peak" in (tmp_path / "memory.html").read_text()
    with pytest.raises(ValueError, match="profile_memory"), profile() as other:
        other.memory_timeline()


def test_stacks_for_flame_graphs(tmp_path: Path) -> None:
    with profile(with_stack=True) as seen:
        ad.ones(1000).exp()
    seen.export_stacks(str(tmp_path / "stacks.txt"))
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("test_profiler.py" in line and "aten::exp" in line for line in lines)
    with pytest.raises(AssertionError, match="with_stack"), profile() as other:
        other.export_stacks(str(tmp_path / "no.txt"))


def test_traces_have_no_data_of_tensors_and_any_name(tmp_path: Path) -> None:
    name = '"</script>\\\x00'
    with profile(record_shapes=True, with_stack=True) as seen, record_function(name):
        ad.full((3,), 123456.789).exp()
    seen.export_chrome_trace(str(tmp_path / "t.json.gz"))
    text = gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode()
    assert "123456" not in text
    assert name in [entry["name"] for entry in json.loads(text)["traceEvents"]]


def test_nothing_listens_when_no_profile_is_on() -> None:
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    assert LISTENERS == []
    assert CONTEXT.plain


def test_bad_arguments() -> None:
    with profile() as seen:
        ad.ones(2).exp()
    with pytest.raises(AttributeError, match="sort by 'nonsense'"):
        seen.key_averages().table("nonsense")
    with pytest.raises(ValueError, match="time_unit"):
        seen.key_averages().table(time_unit="h")


class MarksOfTheHost:
    """CUDA's events, reached as soon as they are asked for."""

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.reached: list[float] = []
        self.cuda = self.runtime = self
        self.ptr = 0

    def getDevice(self) -> int:
        return 0

    def setDevice(self, device: int) -> None:
        assert device == 0

    def getDeviceCount(self) -> int:
        return self.devices

    def get_current_stream(self) -> MarksOfTheHost:
        return self

    def eventCreate(self) -> int:
        self.reached.append(0.0)
        return len(self.reached) - 1

    def eventRecord(self, event: int, stream: int) -> None:
        self.reached[event] = 1e3 * time.perf_counter()

    def eventElapsedTime(self, first: int, last: int) -> float:
        return self.reached[last] - self.reached[first]

    def deviceSynchronize(self) -> None:
        pass


class AskedAlways:
    """What a GPU was asked for lately, where every operation asks."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> object:
        return object()


@pytest.mark.parametrize("devices", [1, 2])
def test_a_gpus_time_is_that_of_the_outermost_operations(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = MarksOfTheHost(devices)
    monkeypatch.setitem(sys.modules, "cupy", marks)
    monkeypatch.setattr(device, "FREE", defaultdict(list))
    monkeypatch.setattr(device, "LATEST", AskedAlways())
    x, layer = ad.randn(4, 8, requires_grad=True), ad.nn.LayerNorm(8)
    for turn in range(2):
        seen = EventRecorder(Wanted(device=True, flops=True))
        seen.start()
        with record_function("part"):
            layer(x.permute(1, 0).permute(1, 0)).exp().sum().backward()
        seen.stop()
        events = seen.everything()
        timed = [event for event in events if event.device_time_total > 0]
        part = next(event for event in events if event.name == "part")
        tops = [event for event in timed if event.depth == 1]
        names = {event.name for event in tops}
        assert {"aten::layer_norm", "aten::exp", "ExpBackward0"} <= names
        assert "aten::permute" not in names
        assert part.device_time_total == pytest.approx(
            sum(event.device_time_total for event in tops)
        )
        assert part.inside_device == part.device_time_total <= seen.total_on_device
        assert all(event.device_time_total == 0 for event in events if event.depth > 1)
        free = device.FREE[0]
        assert len(set(free)) == len(free) == len(marks.reached), turn


def test_what_asks_nothing_of_a_gpu_takes_no_time_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", MarksOfTheHost(1))
    monkeypatch.setattr(device, "FREE", defaultdict(list))
    x = ad.randn(4, 8, requires_grad=True)
    seen = EventRecorder(Wanted(device=True))
    seen.start()
    x.exp().sum().backward()
    seen.stop()
    assert seen.events
    assert all(event.device_time_total == 0 for event in seen.everything())
