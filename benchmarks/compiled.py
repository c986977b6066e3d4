"""One AdamW training step of each model family: Adjoint compiled and eager beside PyTorch eager.

    python -m benchmarks.compiled [--rounds 3] [--json FILE] [--plot FILE] [name ...]

Each framework runs in a process of its own and they take turns, round by round. Losses of the
first steps are compared; a difference ends the run with an error. Beside the time of a step the
table has the processor time it used, the better measure on a machine that others use too if
`--threads 1` is given (threads that wait for each other burn processor time), the first
compiled call with an empty cache and with a full one in a new process (after `compile` itself,
which loads the compiler and is told beside), the cost of a call outside
its kernels (tiny) and the peak memory of a step (gpt).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.chart import save_bars
from benchmarks.families import FAMILIES

TOLERANCE = 2e-3  # of losses, relative: steps amplify what rounding leaves
Row = dict[str, Any]


class Process:
    """A worker and the way to ask it."""

    def __init__(self, framework: str, family: str, cache: str, threads: int) -> None:
        self.framework = framework
        module = ["-W", "ignore", "-m", "benchmarks.worker"]
        self.process = subprocess.Popen(
            [sys.executable, *module, framework, family, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "ADJOINT_CACHE_DIR": cache},
        )
        self.first: Row = self.answer()

    def answer(self) -> Row:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of {self.framework} ended: its error is above")
        answer: Row = json.loads(line)
        return answer

    def ask(self, request: str) -> Row:
        assert self.process.stdin is not None
        print(request, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def check_losses(family: str, processes: list[Process]) -> float:
    """The largest relative difference of the first losses; too large a one is an error."""
    reference, worst = processes[0].first["losses"], 0.0
    for process in processes[1:]:
        for mine, theirs in zip(process.first["losses"], reference, strict=True):
            worst = max(worst, abs(mine - theirs) / max(abs(theirs), 1e-6))
    if not worst <= TOLERANCE:
        lines = "\n".join(f"  {p.framework}: {p.first['losses']}" for p in processes)
        raise SystemExit(f"{family}: losses differ by {worst:.1e} of their size\n{lines}")
    return worst


def first_calls(family: str, repeats: int, threads: int) -> Row:
    """Seconds of the first compiled call: with an empty cache, and with a full one."""
    seconds: dict[str, list[float]] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for kind in ("cold", "kept"):
                process = Process("compiled", family, cache, threads)
                process.close()
                for measure in ("first_s", "first_cpu_s", "compiler_s"):
                    seconds.setdefault(f"{kind}_{measure}", []).append(process.first[measure])
    return {name: min(seen) for name, seen in seconds.items()}


def measure(family: str, frameworks: list[str], options: argparse.Namespace, cache: str) -> Row:
    """All figures of one family."""
    processes = [Process(f, family, cache, options.threads) for f in frameworks]
    row: Row = {"what": FAMILIES[family].what, "load": os.getloadavg()[0]}
    row["loss_difference"] = check_losses(family, processes)
    walls: dict[str, list[float]] = {f: [] for f in frameworks}
    used: dict[str, list[float]] = {f: [] for f in frameworks}
    for number in range(options.rounds):
        for process in processes if number % 2 else processes[::-1]:
            answer = process.ask(f"round {options.seconds}")
            walls[process.framework] += answer["walls"]
            used[process.framework].append(answer["cpu"])
    for framework in frameworks:
        row[framework] = {
            "median_ms": 1e3 * statistics.median(walls[framework]),
            "least_ms": 1e3 * min(walls[framework]),
            "cpu_ms": 1e3 * min(used[framework]),
        }
    if family == "tiny" and "compiled" in frameworks:
        row["overhead"] = processes[frameworks.index("compiled")].ask("overhead")
    if family == "gpt":
        row["memory"] = {p.framework: p.ask("memory") for p in processes}
    for process in processes:
        process.close()
    if options.first:
        row["first"] = first_calls(family, options.first, options.threads)
    return row


def ratio(row: Row, measure: str) -> float:
    """How many times faster the compiled step is than PyTorch's."""
    if "torch" not in row:
        return float("nan")
    return float(row["torch"][measure] / row["compiled"][measure])


def header(frameworks: list[str]) -> str:
    """The head of the table."""
    columns = [f"{f} ms (least, cpu)" for f in frameworks]
    columns += ["torch / compiled: median", "least", "cpu", "first s (cpu)", "kept s (cpu)", "load"]
    return f"| family | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}"


def line(family: str, row: Row, frameworks: list[str]) -> str:
    """A family's line of the table."""
    cells = [family]
    for framework in frameworks:
        r = row[framework]
        cells.append(f"{r['median_ms']:.3g} ({r['least_ms']:.3g}, {r['cpu_ms']:.3g})")
    cells += [f"{ratio(row, m):.2f}" for m in ("median_ms", "least_ms", "cpu_ms")]
    for kind in ("cold", "kept"):
        first = row.get("first")
        told = (
            f"{first[f'{kind}_first_s']:.2f} ({first[f'{kind}_first_cpu_s']:.2f})" if first else ""
        )
        cells.append(told)
    return f"| {' | '.join([*cells, format(row['load'], '.1f')])} |"


def report(rows: dict[str, Row]) -> None:
    """What the table has no room for."""
    loading = [row["first"]["kept_compiler_s"] for row in rows.values() if "first" in row]
    if loading:
        print(f"compile() itself, which loads the compiler: {statistics.median(loading):.2f} s")
    for family, row in rows.items():
        if "overhead" in row:
            o = row["overhead"]
            outside = o["call_us"] - o["kernels_us"]
            print(
                f"{family}: a call takes {o['call_us']:.1f} us, its kernels {o['kernels_us']:.1f},"
                f" everything else {outside:.1f}"
            )
        for framework, m in row.get("memory", {}).items():
            print(
                f"{family}: {framework} peaks at {m['peak_mib']:.0f} MiB during steps,"
                f" {m['peak_mib'] - m['imported_mib']:.0f} above what it has after its import"
            )


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Training steps compiled, beside PyTorch eager.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(FAMILIES)}; all if none is given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a framework in a round")
    parser.add_argument("--first", type=int, default=2, help="times the first call is measured")
    parser.add_argument(
        "--threads", type=int, default=0, help="of each framework; 0: its own choice"
    )
    parser.add_argument("--no-eager", action="store_true", help="leave Adjoint's eager steps out")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--plot", type=Path, help="also draw the ratios here, as PNG")
    options = parser.parse_args(argv)
    frameworks = ["torch", "compiled", "eager"][: 2 if options.no_eager else 3]
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: Adjoint alone (pip install torch==2.13.0)")
        frameworks.remove("torch")
    unknown = [name for name in options.names if name not in FAMILIES]
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    rows: dict[str, Row] = {}
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}\n"
    )
    print(header(frameworks), flush=True)
    with tempfile.TemporaryDirectory() as cache:
        for name in options.names or FAMILIES:
            rows[name] = measure(name, frameworks, options, cache)
            print(line(name, rows[name], frameworks), flush=True)
    print()
    report(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    if options.plot:
        bars = {name: ratio(row, "cpu_ms") for name, row in rows.items()}
        save_bars(options.plot, bars, "processor time of torch / compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
