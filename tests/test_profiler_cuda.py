"""The profiler on a GPU: whose time and memory it is, and where it comes from; `pytest -m cuda`."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.autograd import profiler as older
from adjoint.profiler import DeviceType, ProfilerActivity, profile, record_function

pytestmark = pytest.mark.cuda
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
ROWS, WIDTH = 512, 1024


def network() -> ad.nn.Module:
    layers = (ad.nn.Linear(WIDTH, 4 * WIDTH), ad.nn.GELU(), ad.nn.Linear(4 * WIDTH, WIDTH))
    return ad.nn.Sequential(*layers).to("cuda")


def training_step(model: ad.nn.Module) -> Callable[[ad.Tensor], ad.Tensor]:
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: ad.Tensor) -> ad.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def run_of(compiled: bool) -> Callable[[], None]:
    step = training_step(network())
    call = ad.compile(step) if compiled else step
    x = ad.randn(ROWS, WIDTH, device="cuda")

    def run() -> None:
        call(x)

    for _ in range(4):
        run()
    ad.cuda.synchronize()
    return run


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gpus_rows_are_no_more_than_the_time_that_passed(compiled: bool) -> None:
    run = run_of(compiled)
    with profile(activities=BOTH):  # makes what only a profile needs
        for _ in range(4):
            run()
    before = time.perf_counter()
    with profile(activities=BOTH) as seen:
        for _ in range(10):
            run()
        ad.cuda.synchronize()
    wall = 1e6 * (time.perf_counter() - before)
    rows = seen.key_averages()
    assert 0 < rows.self_device_time_total <= wall
    assert 0 < rows.self_cpu_time_total <= wall
    text = rows.table("cuda_time_total", row_limit=8)
    assert "Self CUDA %" in text
    assert "Self CUDA time total" in text
    if not compiled:
        names = {row.key for row in rows if row.self_device_time_total > 0}
        assert {"aten::linear", "LinearBackward0"} <= names


def test_kernels_of_a_program_know_where_they_come_from(tmp_path: Path) -> None:
    run = run_of(compiled=True)
    for _ in range(2):  # launches one by one, then as a graph
        with profile(activities=BOTH, with_flops=True) as seen, record_function("part"):
            run()
            run()
        kernels = [event for event in seen.events() if event.device]
        assert {event.device_type for event in kernels} == {DeviceType.CUDA}
        products = [event for event in kernels if "matmul" in event.operations]
        assert {"0", "2"} <= {module for event in products for module in event.modules}
        assert all(Path(w.file) == Path(__file__) for event in kernels for w in event.places)
        # forward twice, backward for both weights and for inputs of the second layer; two steps
        product = 2 * ROWS * WIDTH * 4 * WIDTH
        assert sum(event.flops for event in products) >= 2 * 5 * product
        assert all(event.moved > 0 for event in products)
        call = next(event for event in seen.events() if event.kind == "compiled")
        assert {kernel.name for kernel in call.kernels} == {event.name for event in kernels}
        part = next(row for row in seen.key_averages() if row.key == "part")
        assert part.device_time_total >= sum(event.device_time_total for event in kernels) * 0.99
    shares = [row.roofline for row in seen.key_averages() if row.device and row.roofline]
    assert shares
    assert all(share > 0 for share in shares)
    seen.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    entries = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    assert any(entry["tid"] == kernels[0].device and entry["args"]["modules"] for entry in entries)


def test_memory_is_the_gpus(tmp_path: Path) -> None:
    model = network()
    x = ad.randn(ROWS, WIDTH, device="cuda")
    with profile(activities=BOTH, profile_memory=True, record_shapes=True) as seen:
        loss = model(x).sum()
        loss.backward()
        del loss
    memory = seen.memory_timeline()
    largest = memory.at_peak()[0]
    assert largest.device.startswith("cuda")
    assert largest.nbytes >= 4 * ROWS * 4 * WIDTH
    assert {"0", "1"} & set(memory.by_module())
    assert memory.sizes[-1] < memory.peak
    assert seen.memory_timeline("cpu").peak < memory.peak
    rows = {row.key: row for row in seen.key_averages()}
    assert rows["aten::linear"].device_memory_usage >= 4 * ROWS * 5 * WIDTH
    assert rows["aten::linear"].cpu_memory_usage == 0
    assert "CUDA Mem" in seen.key_averages().table("self_cuda_memory_usage")
    for name in ("m.html", "m.json", "m.json.gz", "m.raw.json.gz"):
        seen.export_memory_timeline(str(tmp_path / name))
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert max(map(sum, sizes)) == memory.peak
    assert len(times) == len(sizes)


def test_a_programs_values_are_in_the_memory_over_time() -> None:
    run = run_of(compiled=True)
    with profile(activities=BOTH, profile_memory=True) as seen:
        run()
    memory = seen.memory_timeline()
    assert memory.peak >= 4 * ROWS * 4 * WIDTH
    assert {"0", "1", "2"} & set(memory.by_module())


def test_the_gpu_may_be_left_off() -> None:
    run = run_of(compiled=False)
    with profile(activities=BOTH) as seen:
        run()
        seen.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        with record_function("left off"):
            run()
        seen.toggle_collection_dynamic(True, [ProfilerActivity.CUDA])
        with record_function("again"):
            run()
    parts = {row.key: row for row in seen.key_averages() if row.is_user_annotation}
    assert parts["left off"].device_time_total == 0
    assert parts["again"].device_time_total > 0
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run()
    assert seen.key_averages().self_device_time_total == 0


@pytest.mark.parametrize("record_shapes", [False, True])
def test_ranges_for_nsight(record_shapes: bool) -> None:
    run = run_of(compiled=False)
    block = older.emit_nvtx(record_shapes=record_shapes)
    with block, ad.cuda.nvtx.range("step"):
        run()
    with pytest.raises(RuntimeError, match="not reentrant"), block:
        pass
    with older.profile(use_device="cuda") as seen:
        run()
    assert seen.key_averages().self_device_time_total > 0
