"""Small networks on a GPU, Adjoint and PyTorch in turns in one process.

    python -m benchmarks.gpu_steps [--eager] [--json FILE] [name ...]
    TRITON_INTERPRET=1 python -m benchmarks.gpu_steps --counted [--profile] [name ...]

Inference at batch 1 without gradients, compiled by both (`torch.compile(mode="reduce-overhead")`);
with `--eager`, training steps that are not compiled, of which the host is the bound. Under autocast
to bfloat16, with equal weights and batches: milliseconds a call (the least mean of some rounds),
seconds of the first call, and how far results, or losses, are apart.

`--counted` needs no GPU: what the host does in an eager step of ours alone, by stand-ins for CuPy
and cuDNN (of the tests) that compute nothing. It tells how many of the package's Python functions a
step calls, how many launches it makes, and the least processor time of some steps, in which that of
the stand-ins is; `--profile` tells which functions these are, by how often they are called.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.gpu_zoo import NETWORKS

ROUNDS, CALLS, WARM = 6, 20, 8
COUNTED_ROUNDS, COUNTED_WARM = 30, 12
SHOWN = 60  # functions of a profile
State = dict[str, np.ndarray[Any, Any]]


def prepared(fw: Any, name: str, state: State, eager: bool) -> Callable[[], Any]:
    """A call of a network in a framework; the first framework's weights are every one's."""
    fw.manual_seed(0)
    network = NETWORKS[name](fw)
    model = network.model
    if state:
        model.load_state_dict({k: fw.from_numpy(v.copy()) for k, v in state.items()})
    else:
        state.update({k: v.detach().numpy().copy() for k, v in model.state_dict().items()})
    model = model.to("cuda")
    rng = np.random.default_rng(1)
    given = network.batch if eager else [x.of_one() for x in network.batch[: network.operands]]
    batch = [fw.from_numpy(x.array(rng)).to("cuda") for x in given]

    def halves() -> Any:
        return fw.autocast("cuda", dtype=fw.bfloat16)

    if not eager:
        model.eval()
        options = {"mode": "reduce-overhead"} if fw.__name__ == "torch" else {}
        compiled = fw.compile(model, **options)

        def infer() -> Any:
            with fw.no_grad(), halves():
                return compiled(*batch)

        return infer
    optimizer = fw.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> Any:
        optimizer.zero_grad()
        with halves():
            loss = network.loss(model, batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measured(name: str, eager: bool) -> dict[str, Any]:
    """Times of both frameworks, in turns."""
    state: State = {}
    calls, firsts, results = {}, {}, {}
    for side in ("torch", "adjoint"):
        fw = importlib.import_module(side)
        call = prepared(fw, name, state, eager)
        start = time.perf_counter()
        call()
        fw.cuda.synchronize()
        firsts[side] = time.perf_counter() - start
        for _ in range(WARM):
            result = call()
        results[side] = result.detach().float().cpu().numpy()
        calls[side] = call, fw.cuda.synchronize
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for side, (call, wait) in calls.items():
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            wait()
            best[side] = min(best[side], (time.perf_counter() - start) / CALLS)
    apart = np.abs(results["torch"] - results["adjoint"]).max() / np.abs(results["torch"]).max()
    return {"seconds": best, "first": firsts, "apart": float(apart)}


def calls_of(step: Callable[[], Any], package: str) -> Counter[str]:
    """How often a step calls each Python function of a package's, by file, line and name."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, given: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package):
            where = code.co_filename.removeprefix(package)
            calls[f"{where}:{code.co_firstlineno} {code.co_name}"] += 1

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls


def counted(names: list[str], is_profiled: bool) -> None:
    """Print what the host does in steps of which nothing is computed."""
    gpu = importlib.import_module("tests.cupy_stand_in").connect(is_run=False)
    importlib.import_module("tests.convolutions_stand_in").connect(gpu)
    fw = importlib.import_module("adjoint")
    package = str(fw.__path__[0]) + "/"
    print(f"{'':12}{'calls':>8}{'launches':>10}{'ms':>8}")
    for name in names:
        step = prepared(fw, name, {}, eager=True)
        for _ in range(COUNTED_WARM):  # what is looked at first, and compiled, is past
            step()
        before = gpu.launched
        calls = calls_of(step, package)
        launched, best = gpu.launched - before, float("inf")
        for _ in range(COUNTED_ROUNDS):
            start = time.process_time()
            step()
            best = min(best, time.process_time() - start)
        print(f"{name:12}{calls.total():8}{launched:10}{1e3 * best:8.2f}", flush=True)
        for where, count in calls.most_common(SHOWN if is_profiled else 0):
            print(f"    {count:7}  {where}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*NETWORKS])
    parser.add_argument("--eager", action="store_true", help="training steps, not compiled")
    parser.add_argument("--counted", action="store_true", help="eager steps without a GPU")
    parser.add_argument("--profile", action="store_true", help="with --counted: which functions")
    parser.add_argument("--json")
    chosen = parser.parse_args()
    if chosen.counted:
        counted(chosen.names, chosen.profile)
        return
    found: dict[str, Any] = {}
    print(f"{'':12}{'torch ms':>10}{'ours ms':>10}{'ratio':>7}   first s   apart")
    for name in chosen.names:
        found[name] = row = measured(name, chosen.eager)
        theirs, ours = row["seconds"]["torch"], row["seconds"]["adjoint"]
        firsts = f"{row['first']['torch']:.1f}, {row['first']['adjoint']:.1f}"
        print(
            f"{name:12}{1e3 * theirs:10.3f}{1e3 * ours:10.3f}{theirs / ours:7.2f}   {firsts}   "
            f"{row['apart']:.1e}",
            flush=True,
        )
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
