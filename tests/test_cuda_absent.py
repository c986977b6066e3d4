"""Without a GPU, its driver, CuPy or Triton: all else works, and asking for one says what to do."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.cuda import nvtx
from adjoint.engine.backends.array import devices

# What stands where CuPy is looked for, and what asking for a GPU then says.
NO_DRIVER = "class Error(Exception): pass\ndef count(): raise Error('insufficient driver')"
NO_GPU = "def count(): return 0"
CUPY = """
import types
{count}
cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=count))
class ndarray: pass
"""
CASES = {
    "no CuPy": ("raise ImportError('no cupy')", True, "CuPy is not installed.*pip install"),
    "no Triton": (CUPY.format(count=NO_GPU), False, "Triton.*not.*installed.*pip install"),
    "no driver": (CUPY.format(count=NO_DRIVER), True, "no NVIDIA driver.*insufficient driver"),
    "no GPU": (CUPY.format(count=NO_GPU), True, "reports no GPU.*CUDA_VISIBLE_DEVICES"),
}
PROGRAM = """
import importlib.util, re, sys
if {hide}:
    find = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *a: None if name == "triton" else find(name, *a)
else:
    find = importlib.util.find_spec
    here = find("sys")
    importlib.util.find_spec = lambda name, *a: here if name == "triton" else find(name, *a)
import adjoint as ad
assert not ad.cuda.is_available()
assert ad.cuda.device_count() == 0
assert ad.cuda.memory_allocated() == ad.cuda.max_memory_allocated() == 0
assert ad.cuda.memory_stats() == {{}} and ad.cuda.memory_snapshot() == []
ad.cuda.empty_cache(); ad.cuda.manual_seed_all(3); ad.cuda.reset_peak_memory_stats()
assert ad.nn.Linear(2, 2)(ad.ones(1, 2)).shape == (1, 2)
for ask in (
    lambda: ad.ones(2, device="cuda"), lambda: ad.ones(2).cuda(), lambda: ad.ones(2).to("cuda:0"),
    lambda: ad.nn.Linear(2, 2).cuda(), ad.cuda.synchronize, ad.cuda.current_device, ad.cuda.init,
    ad.cuda.Stream, ad.cuda.Event, ad.cuda.CUDAGraph, ad.cuda.get_device_name,
    lambda: ad.ones(2).pin_memory(),
):
    try:
        ask()
    except RuntimeError as error:
        assert re.search({says!r}, str(error), re.S), error
        assert isinstance(error, AssertionError), ask  # as PyTorch's, built without CUDA
    else:
        raise AssertionError(ask)
"""


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_said(case: str, tmp_path: Path) -> None:
    cupy, has_triton, says = CASES[case]
    (tmp_path / "cupy.py").write_text(cupy)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(hide=not has_triton, says=says))
    root = Path(ad.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-P", str(program)],
        env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": "", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_names_of_pytorchs_are_there() -> None:
    cuda: Any = ad.cuda
    names = (
        "CUDAGraph StreamContext graph graph_pool_handle make_graphed_callables memory_stats "
        "OutOfMemoryError Event ExternalStream FloatTensor FloatStorage amp comm nvtx profiler "
        "default_generators set_stream cudart check_error is_tf32_supported get_gencode_flags"
    )
    for name in names.split():
        assert getattr(cuda, name) is not None, name
    assert cuda.get_arch_list() == [] or cuda.is_available()
    assert issubclass(cuda.OutOfMemoryError, RuntimeError)
    assert cuda.OutOfMemoryError is ad.OutOfMemoryError


def test_what_cannot_be_refuses_when_used() -> None:
    with pytest.raises(NotImplementedError, match="partitions"):
        ad.cuda.GreenContext()
    with pytest.raises(NotImplementedError, match="plugged"):
        ad.cuda.change_current_allocator(None)
    with pytest.raises(NotImplementedError, match="pool"):
        ad.cuda.caching_allocator_enable(False)
    with pytest.raises(NotImplementedError, match="by hand"):
        ad.cuda.tunable.enable()
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = ad.cuda.nothing_of_the_kind


def test_ranges_of_nvtx(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a library that writes down what it is told."""
    told: list[str] = []
    library = types.SimpleNamespace(
        RangePush=lambda text: told.append("<" + text),
        Mark=lambda text: told.append("!" + text),
        RangePop=lambda: told.append(">"),
    )
    monkeypatch.setattr(nvtx, "_nvtx", lambda: library)
    with nvtx.range("epoch {}", 3):
        assert nvtx.range_push("step") == 1
        nvtx.mark("here")
        assert nvtx.range_pop() == 1
    assert told == ["<epoch 3", "<step", "!here", ">", ">"]
    told.clear()
    x = ad.ones(3)
    with ad.autograd.profiler.emit_nvtx():
        x.exp()
    assert told[0] == "!emit_nvtx"
    assert any("exp" in line for line in told)
    assert sum(line[0] == "<" for line in told) == told.count(">") > 0
    with pytest.raises(NotImplementedError, match="range_start"):
        nvtx.range_start("other")


def test_cupy_is_looked_for_again_only_where_that_may_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A search in vain is made once; paths that change are looked at."""
    seen: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == "cupy":
                seen.append(name)
                raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(devices, "_cupy", None)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert [ad.cuda.is_available() for _ in range(3)] == [False] * 3
    assert len(seen) == 1
    monkeypatch.syspath_prepend(tmp_path)
    assert not ad.cuda.is_available()
    assert len(seen) == 2
