"""Training steps four ways on a GPU: Adjoint and PyTorch, eager and compiled.

    python -m benchmarks.gpu_four_ways [--together 4] [--frameworks adjoint,torch]
        [--json FILE] [name ...]

The networks of `benchmarks.gpu_everyday` (and those of `benchmarks.gpu_zoo`, by name), with AdamW
under autocast to bfloat16; ours compiled as whole steps, PyTorch's networks and losses by
`torch.compile(mode="reduce-overhead")` with a fused optimizer. Each framework runs in a process of
its own. Of each: milliseconds a step (the least mean of some rounds), milliseconds until the host
has asked for it, GiB at the peak. First, without dropout and in float32: how far losses and
gradients are apart from PyTorch's.

So many networks are warmed up together, since `torch.compile` takes half a minute each; they are
timed one by one. So first steps are not told here (`benchmarks.gpu_steps`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_everyday_more import EVERYDAY
from benchmarks.gpu_zoo import NETWORKS

ALL = {**NETWORKS, **EVERYDAY}
FRAMEWORKS = ("adjoint", "torch")
ROUNDS, SECONDS, WARM = 4, 0.25, 6
PATIENCE = 240.0  # seconds that a warm-up may take
Row = dict[str, Any]
Step = Callable[[], Any]


def with_given_weights(fw: Any, model: Any) -> Any:
    """A model whose weights are the same in each framework."""
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for name, p in model.named_parameters():
            shape = tuple(p.shape)
            if len(shape) > 1 and not name.endswith("table"):
                fan = int(np.prod(shape[1:])) if len(shape) < 3 or shape[2:] != shape[1:2] else 1
                values = rng.standard_normal(shape) * 0.7 / max(fan, 1) ** 0.5
                p.copy_(fw.from_numpy(values.astype(np.float32)))
            elif "bias" in name.rpartition(".")[2]:
                p.zero_()
    return model


def without_dropout(model: Any) -> None:
    """Every probability of a model's modules made zero."""
    for module in model.modules():
        for name in ("p", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


class Side:
    """A network in one framework, its batch on a device."""

    def __init__(self, framework: str, name: str, device: str = "cuda") -> None:
        self.fw = importlib.import_module(framework)
        importlib.import_module(f"{framework}.distributions")
        self.theirs, self.name, self.device = framework == "torch", name, device
        rng = np.random.default_rng(1)
        self.network = ALL[name](self.fw)
        self.model = with_given_weights(self.fw, self.network.model).to(device)
        arrays = [given.array(rng) for given in self.network.batch]
        self.batch = [self.fw.from_numpy(array).to(device) for array in arrays]

    def exact(self) -> tuple[float, dict[str, np.ndarray[Any, Any]]]:
        """The loss and every gradient, in float32 without dropout."""
        without_dropout(self.model)
        if self.device == "cuda":
            self.fw.backends.cudnn.allow_tf32 = False
        loss = self.network.loss(self.model, self.batch)
        loss.backward()
        found = {
            key: p.grad.to_dense().cpu().numpy() if p.grad.is_sparse else p.grad.cpu().numpy()
            for key, p in self.model.named_parameters()
            if p.grad is not None
        }
        return float(loss.detach().item()), found

    def step(self, compiled: bool) -> Step:
        """A training step; those of ours are compiled whole."""
        more = {"fused": True} if self.theirs and compiled else {}
        optimizer = self.fw.optim.AdamW(self.model.parameters(), lr=1e-4, **more)
        loss_of = self.network.loss
        if self.theirs and compiled:
            loss_of = self.fw.compile(loss_of, mode="reduce-overhead")

        def run() -> Any:
            optimizer.zero_grad()
            with self.fw.autocast("cuda", dtype=self.fw.bfloat16):
                loss = loss_of(self.model, self.batch)
            loss.backward()
            optimizer.step()
            return loss

        return self.fw.compile(run) if compiled and not self.theirs else run

    def timed(self, step: Step) -> Row:
        """Milliseconds a step, and until it has been asked for."""
        wait, clock = self.fw.cuda.synchronize, time.perf_counter
        wait()
        start = clock()
        step()
        wait()
        count = max(3, int(SECONDS / max(clock() - start, 1e-5)))
        best, asked = float("inf"), float("inf")
        for _ in range(ROUNDS):
            wait()
            start = clock()
            for _ in range(count):
                step()
            asked = min(asked, (clock() - start) / count)
            wait()
            best = min(best, (clock() - start) / count)
        return {"ms": 1e3 * best, "host": 1e3 * asked}

    def peak(self, step: Step) -> float:
        """GiB that a step has at most."""
        self.fw.cuda.synchronize()
        self.fw.cuda.reset_peak_memory_stats()
        step()
        self.fw.cuda.synchronize()
        return float(self.fw.cuda.max_memory_allocated() / 2**30)


def worker(framework: str, name: str, folder: Path) -> None:
    """Warm up, wait for the word, time; what is found goes into files."""
    loss, gradients = Side(framework, name).exact()
    np.savez(folder / f"{framework}.{name}.npz", loss=loss, **gradients)
    del gradients
    row: Row = {"loss": loss}
    steps: dict[str, tuple[Side, Step]] = {}
    for mode in ("eager", "compiled"):
        try:
            side = Side(framework, name)
            step = side.step(mode == "compiled")
            start = time.perf_counter()
            losses = [float(step().detach().item())]
            first = time.perf_counter() - start
            for _ in range(WARM):
                last = step()
            row[mode] = {
                "first": first, "losses": [*losses, float(last.detach().item())],
                "GiB": side.peak(step),
            }  # fmt: skip
            steps[mode] = side, step
        except Exception as error:
            row[mode] = {"error": f"{type(error).__name__}: {error}"[:600]}
    (folder / f"ready.{framework}.{name}").touch()
    while not (folder / f"go.{framework}.{name}").exists():
        time.sleep(0.02)
    for mode, (side, step) in steps.items():
        row[mode] |= side.timed(step)
    (folder / f"{framework}.{name}.json").write_text(json.dumps(row))


def apart(folder: Path, name: str) -> tuple[float, float, str]:
    """How far ours are from PyTorch's: the loss, and the worst gradient by its norm."""
    ours, theirs = (dict(np.load(folder / f"{fw}.{name}.npz")) for fw in FRAMEWORKS)
    loss = abs(float(ours.pop("loss")) - float(theirs.pop("loss")))
    if ours.keys() != theirs.keys():
        return loss, float("nan"), f"{sorted(ours.keys() ^ theirs.keys())[:4]}"
    whole = float(np.sqrt(sum(np.square(g.astype(np.float64)).sum() for g in theirs.values())))
    errors = {
        key: float(
            np.linalg.norm(ours[key].astype(np.float64) - g)
            / (np.linalg.norm(g.astype(np.float64)) + 1e-5 * whole)
        )
        for key, g in theirs.items()
    }
    worst = max(errors, key=lambda key: errors[key])
    return loss, errors[worst], worst


def wave(names: list[str], frameworks: list[str], folder: Path) -> dict[str, dict[str, Row]]:
    """Networks warmed up together and timed one after the other."""
    running = {}
    for name in names:
        for framework in frameworks:
            words = ["-W", "ignore", "-m", "benchmarks.gpu_four_ways", "--one", framework, name]
            log = (folder / f"{framework}.{name}.log").open("w")
            running[framework, name] = subprocess.Popen(
                [sys.executable, *words, str(folder)], stdout=log, stderr=log
            )
    until = time.monotonic() + PATIENCE
    rows: dict[str, dict[str, Row]] = {name: {} for name in names}

    def is_settled(key: tuple[str, str]) -> bool:
        return (folder / f"ready.{key[0]}.{key[1]}").exists() or running[key].poll() is not None

    while not all(map(is_settled, running)) and time.monotonic() < until:
        time.sleep(0.1)
    for (framework, name), process in running.items():
        (folder / f"go.{framework}.{name}").touch()
        row: Row = {"error": "no answer"}
        if (folder / f"ready.{framework}.{name}").exists():
            process.wait(60)
        else:
            process.kill()
        answer = folder / f"{framework}.{name}.json"
        if answer.exists():
            row = json.loads(answer.read_text())
        else:
            row["error"] = (folder / f"{framework}.{name}.log").read_text()[-1500:]
        rows[name][framework] = row
    return rows


def cell(row: Row, mode: str) -> str:
    found = row.get(mode, {"error": ""})
    if "error" in found:
        return f"{'error':>22}"
    return f"{found['ms']:8.2f} ({found['host']:5.1f}){found['GiB']:6.2f}"


def tell(name: str, rows: dict[str, Row], folder: Path) -> None:
    """A line of the table, and errors below it."""
    line = f"{name:12}"
    for mode in ("eager", "compiled"):
        pair = [rows.get(fw, {}).get(mode, {}).get("ms", 0.0) for fw in FRAMEWORKS]
        ratio = pair[1] / pair[0] if all(pair) else float("nan")
        cells = [cell(rows[fw], mode) for fw in reversed(FRAMEWORKS) if fw in rows]
        line += f"{' '.join(cells)} {ratio:5.2f} "
    if len(rows) == len(FRAMEWORKS):
        try:
            loss, worst, where = apart(folder, name)
            line += f" {loss:.0e} {worst:.0e} {where}"
        except OSError as error:
            line += f" {error}"
    print(line, flush=True)
    for framework, row in rows.items():
        for mode, found in (("", row), *((m, row.get(m, {})) for m in ("eager", "compiled"))):
            if "error" in found:
                print(f"    {framework} {mode}: {found['error'][-900:]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*EVERYDAY])
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--frameworks", default="adjoint,torch")
    parser.add_argument("--json")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        framework, name, folder = chosen.one
        worker(framework, name, Path(folder))
        return
    found: dict[str, Any] = {}
    print("ms (asked for) GiB: PyTorch, ours, PyTorch's ms over ours; eager, then compiled; apart")
    with tempfile.TemporaryDirectory() as name:
        for first in range(0, len(chosen.names), chosen.together):
            names = chosen.names[first : first + chosen.together]
            rows = wave(names, chosen.frameworks.split(","), Path(name))
            for network, row in rows.items():
                found[network] = row
                tell(network, row, Path(name))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
