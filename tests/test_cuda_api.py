"""`adjoint.cuda` on a GPU: memory, streams, copies, graphs by hand, switches; `pytest -m cuda`."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.triton.runtime import compile as made
from adjoint.nn import functional as F
from adjoint.optim.stepping import on_device

pytestmark = pytest.mark.cuda
MIB = 1 << 20


@pytest.fixture
def limited() -> Iterator[int]:
    """A GPU of which this process may take 256 MiB more than it has."""
    gc.collect()
    ad.cuda.empty_cache()
    total = ad.cuda.get_device_properties().total_memory
    allowed = ad.cuda.memory_reserved() + 256 * MIB
    ad.cuda.set_per_process_memory_fraction(allowed / total)
    yield allowed
    ad.cuda.set_per_process_memory_fraction(1.0)
    gc.collect()
    ad.cuda.empty_cache()


# -- memory -------------------------------------------------------------------------------------


def test_memory_is_counted() -> None:
    ad.zeros(3, device="cuda") + 1  # what the first operation of a process needs stays
    gc.collect()
    ad.cuda.reset_peak_memory_stats()
    before = ad.cuda.memory_allocated()
    x = ad.zeros(4 * MIB, device="cuda")  # 16 MiB
    y = x + 1
    assert ad.cuda.memory_allocated() == before + 32 * MIB
    del y
    assert ad.cuda.memory_allocated() == before + 16 * MIB
    assert ad.cuda.max_memory_allocated() >= before + 32 * MIB
    assert ad.cuda.max_memory_reserved() >= ad.cuda.memory_reserved() >= 16 * MIB
    ad.cuda.reset_peak_memory_stats()
    assert ad.cuda.max_memory_allocated() == before + 16 * MIB
    stats = ad.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before + 16 * MIB
    assert stats["allocated_bytes.all.freed"] > 0
    assert ad.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] > 0
    del x
    assert ad.cuda.memory_allocated() == before
    assert "most" in ad.cuda.memory_summary()


def test_a_pool_gives_memory_back() -> None:
    x = ad.zeros(64 * MIB, device="cuda")
    held = ad.cuda.memory_reserved()
    del x
    gc.collect()
    assert ad.cuda.memory_reserved() == held
    ad.cuda.empty_cache()
    assert ad.cuda.memory_reserved() <= held - 256 * MIB


def test_a_compiled_programs_memory_is_counted() -> None:
    def fn(x: Any) -> Any:
        return (x @ x).relu() @ x + (x @ x.T)

    x = ad.randn(2048, 2048, device="cuda")
    gc.collect()
    ad.cuda.reset_peak_memory_stats()
    before = ad.cuda.memory_allocated()
    compiled = ad.compile(fn)
    compiled(x)
    # At least two temporary products and a result are there at once.
    assert ad.cuda.max_memory_allocated() >= before + 3 * x.nbytes


def test_snapshots_name_lines() -> None:
    ad.cuda.memory._record_memory_history()
    try:
        kept = ad.zeros(3 * MIB, device="cuda")
        snapshot = ad.cuda.memory_snapshot()
        pieces = [b for s in snapshot for b in s["blocks"] if b["address"] == kept.data_ptr()]
        assert len(pieces) == 1
        assert pieces[0]["size"] == 12 * MIB
        assert pieces[0]["frames"][0]["filename"] == __file__
        for segment in snapshot:
            assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
        del kept
        trace = ad.cuda.memory._snapshot()["device_traces"][0]
        assert {"alloc", "free_completed"} <= {entry["action"] for entry in trace}
    finally:
        ad.cuda.memory._record_memory_history(None)


def test_out_of_memory_tells_and_can_be_caught(limited: int) -> None:
    ad.cuda.memory._record_memory_history("state")
    try:
        kept = ad.zeros(32 * MIB, device="cuda")  # 128 MiB
        failed = ad.cuda.memory_stats()["num_ooms"]
        with pytest.raises(ad.cuda.OutOfMemoryError) as caught:
            kept.double() + 1
        text = str(caught.value)
        assert "CUDA out of memory. Tried to allocate 256.00 MiB" in text
        assert "allowed" in text
        assert "128.00 MiB  float32[33554432]" in text
        assert "test_cuda_api.py" in text  # the line that made it
        assert isinstance(caught.value, RuntimeError)
        assert isinstance(caught.value, ad.OutOfMemoryError)
        assert ad.cuda.memory_stats()["num_ooms"] == failed + 1
        del caught
        del kept
        assert ad.zeros(48 * MIB, device="cuda").sum().item() == 0.0  # and it goes on
    finally:
        ad.cuda.memory._record_memory_history(None)


def test_out_of_memory_in_a_compiled_step_leaves_parameters(limited: int) -> None:
    ad.manual_seed(0)
    net = ad.nn.Linear(512, 512).to("cuda")
    optimizer = ad.optim.AdamW(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = F.gelu(net(x)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compiled = ad.compile(step)
    small = ad.randn(16, 512, device="cuda")
    for _ in range(3):
        compiled(small)
    before = [p.clone() for p in net.parameters()]
    large = ad.full((60_000, 512), 0.5, device="cuda")  # 117 MiB: its activations do not fit
    for _ in range(2):
        with pytest.raises(ad.OutOfMemoryError, match="out of memory"):
            compiled(large)
    for p, q in zip(net.parameters(), before, strict=True):
        ad.testing.assert_close(p, q)
    del large
    for _ in range(3):
        compiled(small)
    assert any(bool((p != q).any()) for p, q in zip(net.parameters(), before, strict=True))


def test_out_of_memory_in_a_replay_leaves_parameters(limited: int) -> None:
    w = ad.zeros(MIB, device="cuda")

    def grow(x: Any) -> Any:
        w.add_(1)
        return (x + w[:1]).exp() * 2

    compiled = ad.compile(grow)
    x = ad.ones(5 * MIB, device="cuda")  # 20 MiB
    kept: list[Any] = []

    def keep_all() -> None:  # results that are kept get fresh memory at each call
        kept.extend(compiled(x) for _ in range(64))

    with pytest.raises(ad.OutOfMemoryError):
        keep_all()
    count = len(kept)
    assert 0 < count < 64
    assert w[0].item() == count
    kept.clear()
    compiled(x)
    assert w[0].item() == count + 1


def test_remat_takes_less_memory() -> None:
    peaks = {}
    for remat in ("speed", "memory"):
        ad.manual_seed(0)
        net = ad.nn.Sequential(*[ad.nn.Sequential(ad.nn.Linear(256, 256), ad.nn.GELU())
                                 for _ in range(6)]).to("cuda")  # fmt: skip

        def step(x: Any, net: Any = net) -> Any:
            loss = net(x).square().mean()
            loss.backward()
            return loss

        x = ad.randn(16384, 256, device="cuda")
        gc.collect()
        ad.cuda.reset_peak_memory_stats()
        before = ad.cuda.memory_allocated()
        compiled = ad.compile(step, options={"remat": remat})
        losses = [compiled(x).item() for _ in range(3)]
        peaks[remat] = (ad.cuda.max_memory_allocated() - before, losses[0])
        del compiled, step, net
    assert peaks["memory"][0] < 0.8 * peaks["speed"][0]
    assert peaks["memory"][1] == pytest.approx(peaks["speed"][1], rel=1e-5)


def test_memory_by_hand_and_pools_apart() -> None:
    gc.collect()
    before = ad.cuda.memory_allocated()
    address = ad.cuda.caching_allocator_alloc(MIB)
    assert ad.cuda.memory_allocated() == before + MIB
    ad.cuda.caching_allocator_delete(address)
    assert ad.cuda.memory_allocated() == before
    pool = ad.cuda.MemPool()
    with ad.cuda.use_mem_pool(pool):
        x = ad.zeros(MIB, device="cuda")
    assert pool.used_bytes() == 4 * MIB
    assert ad.cuda.memory_allocated() == before + 4 * MIB
    del x
    assert pool.used_bytes() == 0


# -- streams and events -------------------------------------------------------------------------


def test_streams_wait_for_each_other() -> None:
    side = ad.cuda.Stream()
    x = ad.zeros(1000, device="cuda")
    ad.cuda.synchronize()
    with ad.cuda.stream(side):
        assert ad.cuda.current_stream() == side
        ad.cuda._sleep(20_000_000)
        x += 1
        done = side.record_event()
    assert ad.cuda.current_stream() == ad.cuda.default_stream()
    ad.cuda.current_stream().wait_event(done)
    assert (x + 1).sum().item() == 2000.0
    assert done.query()
    assert side.query()
    side.wait_stream(ad.cuda.current_stream())
    assert len({side, ad.cuda.ExternalStream(side.cuda_stream)}) == 1
    with side, ad.cuda.stream(None):
        assert ad.cuda.current_stream() == side


def test_memory_waits_for_other_streams() -> None:
    side = ad.cuda.Stream()
    for _ in range(8):
        x = ad.ones(MIB, device="cuda")
        side.wait_stream(ad.cuda.current_stream())
        with ad.cuda.stream(side):
            ad.cuda._sleep(5_000_000)
            y = x * 2
        x.record_stream(side)
        del x
        z = ad.full((MIB,), 9.0, device="cuda")  # would take x's memory
        side.synchronize()
        assert y.max().item() == 2.0
        del y, z


def test_events_take_times() -> None:
    first, last = ad.cuda.Event(enable_timing=True), ad.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        first.elapsed_time(last)
    first.record()
    ad.cuda._sleep(2_000_000)
    last.record()
    last.synchronize()
    assert first.elapsed_time(last) > 0.1
    with pytest.raises(ValueError, match="enable_timing"):
        ad.cuda.Event().elapsed_time(last)


def test_compiled_programs_go_to_the_current_stream() -> None:
    compiled = ad.compile(lambda x: (x * 2).exp().sum(0) + 1)
    x = ad.randn(64, 64, device="cuda")
    want = compiled(x)
    side = ad.cuda.Stream()
    side.wait_stream(ad.cuda.current_stream())
    with ad.cuda.stream(side):
        got = [compiled(x) for _ in range(4)]
    side.synchronize()
    for each in got:
        ad.testing.assert_close(each, want)


# -- copies -------------------------------------------------------------------------------------


def test_pinned_copies() -> None:
    x = ad.randn(1000, 1000).pin_memory()
    assert x.is_pinned()
    assert not ad.randn(3).is_pinned()
    y = x.to("cuda", non_blocking=True)
    back = ad.empty(1000, 1000).pin_memory()
    back.copy_(y, non_blocking=True)
    ad.cuda.synchronize()
    ad.testing.assert_close(back, x)
    z = ad.empty(1000, 1000, device="cuda")
    z.copy_(x)
    x.zero_()  # after a copy that waited
    ad.testing.assert_close(z.cpu(), back)
    for _ in range(50):  # the host's memory lives until it was copied
        k = ad.full((MIB,), 3.0).pin_memory().to("cuda", non_blocking=True)
        ad.full((MIB,), 4.0).pin_memory()
        assert k.max().item() == 3.0


def test_a_pinned_loader() -> None:
    data = ad.utils.data.TensorDataset(ad.arange(64.0).reshape(32, 2), ad.arange(32))
    for workers in (0, 1):
        loader = ad.utils.data.DataLoader(data, 8, pin_memory=True, num_workers=workers)
        seen = 0
        for x, y in loader:
            assert x.is_pinned()
            assert y.is_pinned()
            there = x.to("cuda", non_blocking=True)
            assert there.sum().item() == x.sum().item()
            seen += len(y)
        assert seen == 32


def test_waiting_is_told() -> None:
    x = ad.ones(3, device="cuda")
    try:
        ad.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match="synchronizing"):
            x.sum().item()
        ad.cuda.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match="synchronizing"):
            x.sum().item()
    finally:
        ad.cuda.set_sync_debug_mode(0)
    assert x.sum().item() == 3.0


# -- graphs -------------------------------------------------------------------------------------


def test_a_graph_by_hand() -> None:
    static = ad.zeros(64, 32, device="cuda")
    w = ad.randn(16, 32, device="cuda")
    b = ad.randn(16, device="cuda")

    def work(x: Any) -> Any:
        return F.relu(F.linear(x, w, b)).sum(1) * 2

    work(static)
    graph = ad.cuda.CUDAGraph()
    with ad.cuda.graph(graph):
        assert ad.cuda.is_current_stream_capturing()
        out = work(static)
    for seed in range(3):
        ad.manual_seed(seed)
        x = ad.randn(64, 32, device="cuda")
        static.copy_(x)
        graph.replay()
        junk = [ad.full((64, 16), 7.0, device="cuda") for _ in range(8)]  # not its memory
        ad.testing.assert_close(out, work(x), rtol=1e-4, atol=1e-4)
        del junk


def test_training_in_a_graph_by_hand() -> None:
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(8, 16), ad.nn.Tanh(), ad.nn.Linear(16, 1)).to("cuda")
    twin = ad.nn.Sequential(ad.nn.Linear(8, 16), ad.nn.Tanh(), ad.nn.Linear(16, 1)).to("cuda")
    twin.load_state_dict(net.state_dict())
    x, y = ad.randn(32, 8, device="cuda"), ad.randn(32, 1, device="cuda")

    def step(model: Any) -> Any:
        loss = (model(x) - y).square().mean()
        grads = ad.autograd.grad(loss, list(model.parameters()))
        with ad.no_grad():
            for p, g in zip(model.parameters(), grads, strict=True):
                p.add_(g, alpha=-0.1)
        return loss

    step(net)
    graph = ad.cuda.CUDAGraph()
    with ad.cuda.graph(graph):
        loss = step(net)
    losses = []
    for _ in range(5):
        graph.replay()
        losses.append(loss.item())
    want = [step(twin).item() for _ in range(6)][1:]
    assert losses == pytest.approx(want, rel=1e-3)


def test_what_a_graph_by_hand_refuses() -> None:
    x = ad.ones(8, device="cuda")
    compiled = ad.compile(lambda x: x + 1)
    compiled(x)
    refused = {
        "random numbers": lambda: ad.rand(3, device="cuda"),
        "asked for": lambda: x.sum().item(),
        "pageable": lambda: ad.ones(3).to("cuda"),
        "compiled function": lambda: compiled(x),
    }
    for text, call in refused.items():
        graph = ad.cuda.CUDAGraph()
        with pytest.raises(RuntimeError, match=text), ad.cuda.graph(graph):
            call()
        with pytest.raises(RuntimeError, match="capture"):
            graph.replay()
    with pytest.raises(RuntimeError, match="non-default"):
        ad.cuda.CUDAGraph().capture_begin()
    net = ad.nn.Linear(2, 2).to("cuda")
    net(ad.ones(1, 2, device="cuda")).sum().backward()
    adam = ad.optim.Adam(net.parameters(), capturable=True)
    with pytest.raises(RuntimeError, match="counts its steps"), ad.cuda.graph(ad.cuda.CUDAGraph()):
        adam.step()
    adam.step()
    assert compiled(x).sum().item() == 16.0


def test_graphed_callables() -> None:
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(8, 16), ad.nn.GELU(), ad.nn.Linear(16, 4)).to("cuda")
    x = ad.randn(5, 8, device="cuda", requires_grad=True)
    want = net(x)
    (gradient,) = ad.autograd.grad(want.sum(), [x])
    graphed = ad.cuda.make_graphed_callables(net, (x,))
    assert graphed is net
    got = graphed(x)
    ad.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    got.sum().backward()
    ad.testing.assert_close(x.grad, gradient, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="samples"):
        graphed(ad.randn(6, 8, device="cuda", requires_grad=True))


# -- devices and switches -----------------------------------------------------------------------


def test_properties() -> None:
    p = ad.cuda.get_device_properties()
    assert p.total_memory > MIB
    assert p.warp_size == 32
    assert p.multi_processor_count > 0
    assert p.shared_memory_per_block_optin >= p.shared_memory_per_block > 0
    assert (p.major, p.minor) == ad.cuda.get_device_capability()
    assert ad.cuda.get_arch_list() == [f"sm_{p.major}{p.minor}"]
    assert str(p).startswith("_CudaDeviceProperties(name=")
    assert not ad.cuda.can_device_access_peer(0, 0)
    with pytest.raises(RuntimeError, match="cuda:99"):
        ad.cuda.set_device(99)
    with ad.cuda.device(0), ad.cuda.device(-1), ad.cuda.device_of(ad.ones(1)):
        assert ad.cuda.current_device() == 0


def test_tf32_has_an_effect_eager_and_compiled() -> None:
    ad.manual_seed(0)
    x = ad.randn(512, 512, device="cuda")
    want = x.double() @ x.double()
    errors = {}
    for precision in ("highest", "high"):
        ad.set_float32_matmul_precision(precision)
        try:
            compiled = ad.compile(lambda a: a @ a)
            for how, out in (("eager", x @ x), ("compiled", compiled(x))):
                errors[how, precision] = (out.double() - want).abs().max().item()
            assert ad.backends.cuda.matmul.allow_tf32 is (precision == "high")
        finally:
            ad.set_float32_matmul_precision("highest")
    for how in ("eager", "compiled"):
        assert errors[how, "highest"] < 1e-3
        assert errors[how, "high"] > 10 * errors[how, "highest"]


def test_deterministic_sums_repeat() -> None:
    ad.manual_seed(0)
    table = ad.zeros(4, 8, device="cuda")
    index = ad.randint(0, 4, (50_000,), device="cuda")
    rows = ad.randn(50_000, 8, device="cuda")
    ad.use_deterministic_algorithms(True)
    try:

        def add(t: Any, i: Any, r: Any) -> Any:
            return t.index_add(0, i, r)

        def put(t: Any, i: Any, r: Any) -> Any:
            return t.index_put((i,), r, accumulate=True)

        for fn in (add, put):
            for run in (fn, ad.compile(fn)):
                first = run(table, index, rows)
                for _ in range(5):
                    assert bool((run(table, index, rows) == first).all())
    finally:
        ad.use_deterministic_algorithms(False)


REPEATED: dict[str, Any] = {
    "scatter_add": lambda t, i, r: t.scatter_add(0, i[:, None].expand(-1, 8), r),
    "scatter_reduce": lambda t, i, r: t.scatter_reduce(0, i[:, None].expand(-1, 8), r, "mean"),
    "embedding": lambda t, i, r: _gradient(lambda w: F.embedding(i, w) * r, t),
    "gather": lambda t, i, r: _gradient(lambda w: w.gather(0, i[:, None].expand(-1, 8)) * r, t),
    "index": lambda t, i, r: _gradient(lambda w: w[i] * r, t),
    "index_select": lambda t, i, r: _gradient(lambda w: w.index_select(0, i) * r, t),
    "repeat_interleave": lambda t, i, r: _gradient(
        lambda w: w.repeat_interleave(len(i) // 4, 0) * r, t
    ),
    "interpolate": lambda t, i, r: _gradient(
        lambda w: F.interpolate(w[None, None], (64, 64), mode="bilinear"), t
    ),
    "pool": lambda t, i, r: _gradient(lambda w: F.max_pool2d(w[None], 3, 1, 1).exp(), t),
    "cumsum": lambda t, i, r: r.cumsum(0),
}


def _gradient(fn: Any, x: Any) -> Any:
    x = x.detach().requires_grad_()
    out = fn(x)
    weights = ad.arange(out.numel(), device="cuda").reshape(out.shape).float().sin()
    (found,) = ad.autograd.grad((out * weights).sum(), [x])
    return found


@pytest.mark.parametrize("name", REPEATED)
def test_deterministic_gradients_repeat(name: str) -> None:
    ad.manual_seed(0)
    table = ad.randn(4, 8, device="cuda")
    index = ad.randint(0, 4, (8_000,), device="cuda")
    rows = ad.randn(8_000, 8, device="cuda")
    ad.use_deterministic_algorithms(True)
    try:
        for run in (REPEATED[name], ad.compile(REPEATED[name])):
            first = run(table, index, rows)
            for _ in range(4):
                assert bool((run(table, index, rows) == first).all())
    finally:
        ad.use_deterministic_algorithms(False)


FORKED = """
import os
import adjoint as ad
ad.ones(1, device="cuda")
if os.fork() == 0:
    try:
        ad.ones(1, device="cuda")
    except RuntimeError as error:
        os._exit(7 if "spawn" in str(error) else 1)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_process_is_told() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], check=False).returncode == 7


@pytest.mark.parametrize("inside", [True, False])
def test_a_scaler_inside_compile(inside: bool) -> None:
    results = {}
    for how in ("eager", "compiled"):
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(16, 32), ad.nn.ReLU(), ad.nn.Linear(32, 1)).to("cuda")
        optimizer = ad.optim.SGD(net.parameters(), lr=0.05)
        scaler = ad.amp.GradScaler("cuda", init_scale=2.0**24 if inside else 1024.0)
        x, y = ad.randn(64, 16, device="cuda"), ad.randn(64, 1, device="cuda")

        def step(x: Any, y: Any, net: Any = net, opt: Any = optimizer, s: Any = scaler) -> Any:
            with ad.autocast("cuda", dtype=ad.float16):
                loss = F.mse_loss(net(x).float(), y)
            opt.zero_grad()
            s.scale(loss).backward()
            s.step(opt)
            s.update()
            return loss

        run = ad.compile(step) if how == "compiled" else step
        losses = [run(x, y).item() for _ in range(12)]
        results[how] = losses, scaler.get_scale()
    assert results["compiled"][0] == pytest.approx(results["eager"][0], rel=2e-2)
    assert results["compiled"][1] == results["eager"][1]


def test_mixed_devices_are_named() -> None:
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        ad.ones(3, device="cuda") + ad.ones(3)
    with pytest.raises(RuntimeError, match=r"cuda:0.*cpu|cpu.*cuda:0"):
        ad.compile(lambda a, b: a @ b)(ad.ones(3, 3, device="cuda"), ad.ones(3, 3))
    assert (ad.ones(3, device="cuda") + ad.tensor(2.0)).sum().item() == 9.0


def test_ranges_and_telemetry() -> None:
    with ad.cuda.nvtx.range("a {}", 1):
        assert ad.cuda.nvtx.range_push("b") == 1
        ad.cuda.nvtx.mark("c")
        assert ad.cuda.nvtx.range_pop() == 1
    ad.cuda.nvtx.range_end(ad.cuda.nvtx.range_start("d"))
    pytest.importorskip("pynvml")
    assert 0 <= ad.cuda.utilization() <= 100
    assert ad.cuda.device_memory_used() > 0
    assert ad.cuda.temperature() > 0
    assert "GPU:0" in ad.cuda.list_gpu_processes()


# -- faults -------------------------------------------------------------------------------------


def run_apart(program: str, **variables: str) -> str:
    """What a program in a process of its own says as it fails."""
    root = str(Path(ad.__file__).parents[1])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    made = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode != 0, made.stdout
    return made.stderr


FAULT = """
import cupy
import adjoint as ad
bad = cupy.RawKernel('extern "C" __global__ void bad(float* p) { p[1L << 40] = 1; }', "bad")

@ad.library.custom_op("mine::bad", mutates_args=())
def faulty(x: ad.Tensor) -> ad.Tensor:
    y = x.clone()
    bad((1,), (1,), (cupy.from_dlpack(y),))
    return y

x = ad.ones(1000, device="cuda")
x = x * 3
y = faulty(x)
z = y + 1
print(z.sum().item())
"""


def test_a_fault_names_the_operations_it_may_come_from() -> None:
    text = run_apart(FAULT)
    assert "AcceleratorError: CUDA error" in text
    assert "ADJOINT_LAUNCH_BLOCKING=1" in text
    assert "add, " in text


def test_a_fault_that_is_waited_for_is_named() -> None:
    text = run_apart(FAULT, ADJOINT_LAUNCH_BLOCKING="1")
    last = text[text.rindex("AcceleratorError") :]
    assert "CUDA error" in last
    assert "add" not in last


def test_a_kernel_that_does_not_compile_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.randn(37, device="cuda")
    want = (x * 2.25).sin().exp() + 0.125
    answer = None, "ValueError: no such instruction"
    monkeypatch.setattr(made.WORKERS, "compile", lambda work: answer)
    monkeypatch.setattr(made.store, "get", lambda key: None)
    compiled = ad.compile(lambda x: (x * 2.25).sin().exp() + 0.125)
    with pytest.warns(UserWarning, match=r"kernel of .*exp.*no such instruction") as told:
        got = compiled(x)
    assert len(told) == 1
    ad.testing.assert_close(got, want)
    ad.testing.assert_close(compiled(x), got)


# -- profiles -----------------------------------------------------------------------------------


def test_a_profile_times_kernels(tmp_path: Path) -> None:
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(512, 512), ad.nn.GELU(), ad.nn.LayerNorm(512)).to("cuda")

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        return loss

    compiled = ad.compile(step)
    x = ad.randn(4096, 512, device="cuda")
    for _ in range(3):
        compiled(x)
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    with ad.profiler.profile(with_flops=True, profile_memory=True) as seen:
        for _ in range(2):
            compiled(x)
        eager = (x * 2).sum()
    assert eager.item() == pytest.approx(2 * x.sum().item(), rel=1e-2, abs=1)
    for p, q in zip(net.parameters(), want, strict=True):  # the same was computed
        ad.testing.assert_close(p.grad * 1.5, q, rtol=1e-3, atol=1e-4)
    rows = [row for row in seen.key_averages() if row.device == "cuda:0"]
    products = [row for row in rows if "matmul" in row.key]
    assert products
    for row in rows:
        assert row.self_device_time_total > 0
        assert row.cpu_time_total == 0
        assert row.operations
    assert all(0 < (row.roofline or 0) < 1.5 for row in products)
    assert any("test_cuda_api" in line for row in rows for line in row.lines)
    assert "Self CUDA" in seen.key_averages().table(sort_by="self_cuda_time_total")
    assert seen.memory_timeline().peak > 0
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    assert '"cuda:0"' in (tmp_path / "trace.json").read_text()
    compiled.explain(html=tmp_path / "page.html", run=(x,))
    assert any("@triton.jit" in t for t in compiled.latest.executable.sources().values())


@pytest.mark.parametrize(("name", "more"), [("AdamW", {}), ("SGD", {"momentum": 0.9})])
def test_parameters_are_looked_at_once(
    name: str, more: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second step on an optimizer knows its parameters, whose memory is their own."""
    looked: list[None] = []
    whole = on_device.update_anew

    def counting(*args: Any) -> bool:
        looked.append(None)
        return whole(*args)

    monkeypatch.setattr(on_device, "update_anew", counting)
    net = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Linear(64, 64)).to("cuda")
    optimizer = getattr(ad.optim, name)(net.parameters(), lr=0.1, **more)
    for _ in range(4):
        optimizer.zero_grad()
        net(ad.ones(8, 64, device="cuda")).square().mean().backward()
        optimizer.step()
    assert len(looked) <= 2


def test_what_a_replay_finds_is_told() -> None:
    table = ad.randn(10, 4, device="cuda")
    at = ad.zeros(2, dtype=ad.int64, device="cuda")
    F.embedding(at, table)
    graph = ad.cuda.CUDAGraph()
    with ad.cuda.graph(graph):
        F.embedding(at, table)
    graph.replay()
    ad.cuda.synchronize()
    at.fill_(99)
    graph.replay()
    with pytest.raises(IndexError, match="99"):
        ad.cuda.synchronize()
    ad.cuda.synchronize()  # once
