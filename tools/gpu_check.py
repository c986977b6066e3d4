"""What the GPU target does on a real GPU, in one run: correctness first, then times.

    python tools/gpu_check.py [section ...] > report.txt

Sections: facts, programs, training, faults, kernels, tiny, gpt-small, gpt. Each goes on after
errors of the ones before.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import adjoint as ad
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.nn import functional as F
from tests.triton_programs import PROGRAMS, training


def say(*what: Any) -> None:
    print(*what, flush=True)


def attempt(name: str, run: Callable[[], Any]) -> bool:
    """Run and say how it went."""
    start = time.perf_counter()
    try:
        out = run()
    except Exception as error:
        lines = traceback.format_exc(limit=-5).strip().splitlines()
        say(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}")
        say("\n".join("    " + line for line in lines[-16:]))
        return False
    say(f"ok   {name} ({time.perf_counter() - start:.2f} s){'' if out is None else f': {out}'}")
    return True


def on_gpu(arguments: tuple[Any, ...]) -> list[Any]:
    return [x.to("cuda") for x in arguments]


def facts() -> None:
    import cupy
    import triton

    say("python", sys.version.split()[0], "cupy", cupy.__version__, "triton", triton.__version__)
    say(ad.cuda.get_device_name(), ad.cuda.get_device_capability())


def programs() -> None:
    failed = []
    for name, (fn, arguments) in PROGRAMS.items():

        def run(name: str = name, fn: Any = fn, arguments: Any = arguments) -> None:
            compiled = ad.compile(fn)
            for seed in range(4):  # direct, captured, replayed
                ad.manual_seed(seed)
                given = arguments()
                ad.manual_seed(seed + 9)
                on_cpu = fn(*given)
                moved = on_gpu(given)
                ad.manual_seed(seed + 9)
                eager = fn(*moved)
                ad.manual_seed(seed + 9)
                got = compiled(*moved)
                exact = (
                    {}
                    if "float16" not in name and "halves" not in name
                    else {"rtol": 2e-2, "atol": 2e-2}
                )
                ad.testing.assert_close(got, eager, **(exact or {"rtol": 1e-4, "atol": 1e-4}))
                ad.testing.assert_close(
                    got, on_cpu, check_device=False, **(exact or {"rtol": 1e-4, "atol": 1e-4})
                )

        if not attempt(f"program {name}", run):
            failed.append(name)
    say("programs failed:", failed)


def optimizers() -> None:
    for optimizer in ("SGD", "AdamW", "Adam", "RMSprop", "Adagrad"):

        def run(optimizer: str = optimizer) -> str:
            eager = training("eager", optimizer, "cuda", 6)
            compiled = training("native", optimizer, "cuda", 6)
            apart = max(abs(a - b) for a, b in zip(eager, compiled, strict=True))
            assert apart < 1e-4, (eager, compiled)
            return f"largest difference of losses {apart:.2e}"

        attempt(f"training {optimizer}", run)


def faults() -> None:
    def run() -> None:
        w = ad.randn(10, 16, device="cuda")
        kept = w.clone()

        def update(i: Any) -> Any:
            y = w[i].sum()
            w.mul_(0.5)
            return y

        compiled = ad.compile(update)
        good, bad = ad.tensor([1, 2]).to("cuda"), ad.tensor([1, 99]).to("cuda")
        for _ in range(3):
            compiled(good)
        before = w.clone()
        for _ in range(2):
            try:
                compiled(bad)
            except IndexError as error:
                told = str(error)
            else:
                told = "no error"
            if "99" not in told:
                raise AssertionError(told)
        ad.testing.assert_close(w, before)
        compiled(good)
        ad.testing.assert_close(w, kept * 0.5**4)

    attempt("faults leave state", run)


def timed(run: Callable[[], Any], count: int) -> float:
    """Seconds a call."""
    for _ in range(4):
        run()
    ad.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    ad.cuda.synchronize()
    return (time.perf_counter() - start) / count


def kernels() -> None:
    n = 1 << 28
    a, b = ad.randn(n, device="cuda"), ad.randn(n, device="cuda")
    rows = a.reshape(-1, 1024)
    wide = ad.randn(8192, 8192, device="cuda").bfloat16()

    def speed(name: str, fn: Any, arguments: Any, nbytes: float, flops: float = 0) -> None:
        def run() -> str:
            compiled = ad.compile(fn)
            seconds = timed(lambda: compiled(*arguments), 20)
            rate = (
                f"{flops / seconds / 1e12:.0f} TFLOP/s"
                if flops
                else f"{nbytes / seconds / 1e9:.0f} GB/s"
            )
            return f"{seconds * 1e6:.0f} us, {rate}"

        attempt(name, run)

    speed("copy 1 GiB", lambda x: x.clone(), (a,), 8 * n)
    speed("add 1 GiB", lambda x, y: x + y, (a, b), 12 * n)
    speed("gelu 1 GiB", lambda x: F.gelu(x, approximate="tanh"), (a,), 8 * n)
    speed("softmax rows of 1024", lambda x: x.softmax(-1), (rows,), 8 * n)
    speed("layer norm rows of 1024", lambda x: F.layer_norm(x, (1024,)), (rows,), 8 * n)
    speed("sum of columns", lambda x: x.sum(0), (rows,), 4 * n)
    speed("sum of all", lambda x: x.sum(), (a,), 4 * n)
    speed("product 8192 bf16", lambda x: x @ x, (wide,), 0, 2 * 8192.0**3)


def tiny() -> None:
    from adjoint import nn

    def step_time(compiled: bool) -> float:
        ad.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
                            nn.Linear(32, 2)).to("cuda")  # fmt: skip
        optimizer = ad.optim.AdamW(net.parameters(), lr=1e-3)
        x, y = ad.randn(32, 16).to("cuda"), ad.randint(0, 2, (32,)).to("cuda")

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compile(step) if compiled else step
        seconds = timed(lambda: run(x, y), 100)
        if compiled:
            say(run.explain())
        return seconds

    attempt("tiny eager", lambda: f"{step_time(False) * 1e3:.3f} ms")
    attempt("tiny compiled", lambda: f"{step_time(True) * 1e3:.3f} ms")


def gpt_step(config: GPT2Config, batch: int, length: int, half: bool, compiled: bool) -> Any:
    ad.manual_seed(0)
    net = GPT2(config).to("cuda")
    optimizer = ad.optim.AdamW(net.parameters(), lr=3e-4)
    tokens = ad.randint(0, 50257 if config.vocab_size > 50000 else config.vocab_size,
                        (batch, length + 1)).to("cuda")  # fmt: skip
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(x: Any, y: Any) -> Any:
        with ad.autocast("cuda", dtype=ad.bfloat16, enabled=half):
            logits = net(x)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return (ad.compile(step) if compiled else step), x, y, net


def gpt_small() -> None:
    config = GPT2Config(vocab_size=257, n_positions=64, n_embd=64, n_layer=2, n_head=4, dropout=0.0)

    def run(half: bool) -> str:
        losses = []
        for compiled in (False, True):
            step, x, y, net = gpt_step(config, 4, 64, half, compiled)
            first = [step(x, y).item()]
            grads = {
                n: p.grad.float().cpu() for n, p in net.named_parameters() if p.grad is not None
            }
            losses.append((first + [step(x, y).item() for _ in range(5)], grads))
        (a, ga), (b, gb) = losses
        apart = max(abs(p - q) for p, q in zip(a, b, strict=True))
        worst = max(((ga[n] - gb[n]).norm() / (ga[n].norm() + 1e-12)).item() for n in ga if n in gb)
        assert apart < (3e-2 if half else 1e-4), (a, b)
        assert worst < (3e-2 if half else 1e-3), worst
        return (
            f"losses apart {apart:.2e}, worst gradient {worst:.2e} of {len(gb)}, last {b[-1]:.4f}"
        )

    attempt("gpt small float32", lambda: run(False))
    attempt("gpt small bfloat16", lambda: run(True))


def gpt() -> None:
    config = GPT2Config(vocab_size=50304, dropout=0.0)

    def run(batch: int) -> str:
        ad.cuda.empty_cache()
        step, x, y, _ = gpt_step(config, batch, 1024, True, True)
        start = time.perf_counter()
        first = step(x, y).item()
        cold = time.perf_counter() - start
        if batch == 16:
            told = step.explain()
            Path("gpt_explain.txt").write_text(told)
            say("\n".join(told.splitlines()[:3]))
            calls = [line for line in told.splitlines() if "Python" in line]
            say("\n".join([f"{len(calls)} calls:", *calls[:12]]))
        seconds = timed(lambda: step(x, y), 5)
        longer = timed(lambda: step(x, y), 30)
        tokens = batch * 1024
        used = ad.cuda.memory_reserved() / 2**30
        return (
            f"first step {cold:.1f} s, burst {tokens / seconds / 1e3:.0f}k, 30 steps "
            f"{tokens / longer / 1e3:.0f}k tokens/s, {used:.1f} GiB, loss {first:.4f} to "
            f"{step(x, y).item():.4f}"
        )

    attempt("gpt-2 124M batch 4", lambda: run(4))
    attempt("gpt-2 124M batch 16", lambda: run(16))
    attempt("profile", profile)


def profile() -> None:
    """Times of the step's kernels, launched one by one, by what they do."""
    from collections import defaultdict

    import cupy

    from adjoint.engine.backends.triton.program import program as programs

    kept: list[Any] = []
    make = programs.Program.make_segments

    def remember(self: Any) -> Any:
        kept.append(self)
        return make(self)

    programs.Program.make_segments = remember  # type: ignore[method-assign]
    step, x, y, _ = gpt_step(GPT2Config(vocab_size=50304, dropout=0.0), 16, 1024, True, True)
    step(x, y)
    step(x, y)
    made = max(kept, key=lambda p: len(p.image.words))
    names = [
        (entry.label if isinstance(entry.label, str) else "".join(map(str, entry.label)))
        for segment in made.draft.segments
        for _, _, entry in segment or ()
    ]
    launches = [each for s in made.segments if hasattr(s, "launches") for each in s.launches]
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for name, (run, words) in zip(names, launches, strict=True):
        run(words)
        begin.record()
        for _ in range(3):
            run(words)
        end.record()
        end.synchronize()
        totals[name][0] += cupy.cuda.get_elapsed_time(begin, end) / 3
        totals[name][1] += 1
    say("launches", len(launches), "ms", round(sum(t for t, _ in totals.values()), 2))
    for name, (ms, count) in sorted(totals.items(), key=lambda e: -e[1][0])[:45]:
        say(f"  {ms:8.3f} ms {count:4.0f} x {name[:150]}")


SECTIONS = {
    "facts": facts, "programs": programs, "training": optimizers, "faults": faults,
    "kernels": kernels, "tiny": tiny, "gpt-small": gpt_small, "gpt": gpt,
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("default")
    for chosen in sys.argv[1:] or SECTIONS:
        say(f"== {chosen}")
        attempt(chosen, SECTIONS[chosen])
