"""The profiler: counts, ranges, schedules, files, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.autograd import profiler as older
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.profiler import ProfilerActivity, profile, record_function, schedule


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
    text = seen.key_averages(group_by_input_shape=True).table("cpu_time_total", row_limit=1)
    assert "part" in text
    assert "aten::mul" not in text


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
