"""Single operations over sizes and dtypes: Adjoint eager and PyTorch eager, and the machine's peak.

    python -m benchmarks.ops [--threads 2] [--rounds 5] [--json FILE] [--plot FILE] [group ...]
    python -m benchmarks.ops --threads 1 cat flip
    python -m benchmarks.ops --from FILE --readme README.md

Each framework runs in a process of its own and they take turns, round by round, on fresh random
numbers; a time is the least of all rounds, of processor time if one thread is asked for. The peak
is what the fastest of all products (arithmetic) and of all passes over memory (bytes) of this run
reached, by whichever framework. Results are compared with float64 on the eager table: where
Adjoint's error is more than a few times PyTorch's, the run ends with an error.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import adjoint
from adjoint.engine.core.state.context import CONTEXT
from benchmarks.chart import save_bars
from benchmarks.operation_cases import CASES, Case

Row = dict[str, Any]
ERRORS = 8.0  # times PyTorch's, and as many units in the last place
SHORTEST = 2e-5  # seconds that a clock measures
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "bfloat16": 2.0**-7}
BEGIN, END = "<!-- operations: python -m benchmarks.ops -->", "<!-- end of operations -->"


# -- a framework in its own process ---------------------------------------------------------------


class Worker:
    """Runs cases on request."""

    def __init__(self, framework: str, threads: int) -> None:
        self.fw = importlib.import_module(framework)
        if threads:
            self.fw.set_num_threads(threads)
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.calls: dict[str, Callable[[], Any]] = {}

    def call(self, name: str) -> Callable[[], Any]:
        if name not in self.calls:
            self.calls = {name: prepared(self.fw, CASES[name], CASES[name].dtype)}
        return self.calls[name]

    def round(self, name: str, seconds: float) -> Row:
        """The least seconds of a call, or of some that follow each other, that fit into so many.

        A processor's clock may stand still for some microseconds: that is no time of a call, and
        where a call takes no longer, several are timed together.
        """
        call, clock, best = self.call(name), self.clock, math.inf
        call()
        count, end = 1, time.perf_counter() + seconds
        while best == math.inf or time.perf_counter() < end:
            start = clock()
            for _ in range(count):
                call()
            took = clock() - start
            if took < SHORTEST:
                count *= 2
                best = math.inf
            else:
                best = min(best, took / count)
        return {"seconds": best}

    def error(self, name: str) -> Row:
        """How far the result is from float64's, of the size of the largest element."""
        case = CASES[name]
        if case.random:
            return {"error": 0.0}
        mine = as_numpy(self.fw, self.call(name)())
        with CONTEXT.having(reference=True):
            want = as_numpy(adjoint, prepared(adjoint, case, "float64", rounded=case.dtype)())
        scale = float(np.abs(want).max()) or 1.0
        return {"error": float(np.abs(mine - want).max()) / scale}


def prepared(fw: Any, case: Case, dtype: str, rounded: str | None = None) -> Callable[[], Any]:
    """The call, on operands that are the same numbers in every framework."""
    rng = np.random.default_rng(7)
    kinds = [getattr(fw, name) for name in (dtype, rounded or dtype)]
    given = []
    for shape in case.shapes:
        values = rng.standard_normal(shape).astype(np.float32)
        given.append(fw.from_numpy(values).to(kinds[1]).to(kinds[0]))
    fw.manual_seed(0)
    return case.make(fw, *given)


def as_numpy(fw: Any, result: Any) -> Any:
    """A result's elements in double precision."""
    first = result[0] if isinstance(result, (tuple, list)) else result
    return first.detach().to(fw.float64).numpy()


def serve(framework: str, threads: int) -> None:
    """Answer requests until the input ends."""
    worker = Worker(framework, threads)
    for line in sys.stdin:
        request, name, *arguments = line.rstrip("\n").split("\t")
        answer = getattr(worker, request)(name, *map(float, arguments))
        print(json.dumps(answer), flush=True)


# -- measuring ------------------------------------------------------------------------------------


@contextmanager
def worker(framework: str, threads: int) -> Iterator[Callable[..., Row]]:
    """A process that answers."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ops", "--serve", framework]
    process = subprocess.Popen(
        [*command, "--threads", str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(*request: Any) -> Row:
        print(*request, sep="\t", file=process.stdin, flush=True)
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"the worker of {framework} ended: its error is above")
        answer: Row = json.loads(line)
        return answer

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait()


def measure(case: Case, asks: dict[str, Any], rounds: int, seconds: float) -> Row:
    """Times and errors of one case."""
    times: dict[str, float] = dict.fromkeys(asks, math.inf)
    for number in range(rounds):
        for name in [*asks][:: 1 if number % 2 else -1]:
            took = asks[name]("round", case.name, seconds)["seconds"]
            times[name] = min(times[name], took)
    errors = {name: ask("error", case.name)["error"] for name, ask in asks.items()}
    least = EPSILON[case.dtype] * ERRORS
    if errors["adjoint"] > ERRORS * errors.get("torch", 0.0) + least:
        raise SystemExit(f"{case.name}: errors are {errors}, relative to the largest element")
    return {
        "group": case.group, "dtype": case.dtype, "flops": case.flops, "bytes": case.bytes,
        "seconds": times, "errors": errors,
    }  # fmt: skip


def add_shares(rows: dict[str, Row]) -> Row:
    """Each row's share of the peak of this run; the peaks."""
    peaks: dict[str, float] = {}
    for name, row in rows.items():
        if not min(row["seconds"].values()) > 0:
            raise SystemExit(f"{name}: no time was measured: {row['seconds']}. Measure it again.")
        for measure, unit in (("flops", row["dtype"]), ("bytes", "bytes")):
            best = row[measure] / min(row["seconds"].values())
            peaks[unit] = max(peaks.get(unit, 0.0), best)
    for row in rows.values():
        took = row["seconds"]["adjoint"]
        row["share"] = max(
            row["flops"] / took / (peaks.get(row["dtype"]) or math.inf),
            row["bytes"] / took / peaks["bytes"],
        )
        if "torch" in row["seconds"]:
            row["ratio"] = row["seconds"]["torch"] / took
    return {unit: peak / 1e9 for unit, peak in peaks.items()}


# -- telling --------------------------------------------------------------------------------------


def table(found: Row) -> str:
    """A table for people, from what a run wrote."""
    peaks = ", ".join(
        f"{peak:.3g} {'GB/s' if unit == 'bytes' else f'GFLOP/s in {unit}'}"
        for unit, peak in found["peaks"].items()
        if peak
    )
    measure = "processor time" if found["threads"] == 1 else "time"
    threads = found["threads"] or "all"
    lines = [
        f"{found['machine']}; threads: {threads}; {measure}; peak of the run: {peaks}.",
        "",
        "| operation | Adjoint us | PyTorch us | ratio | share of peak |",
        "|---|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        mine, theirs = (1e6 * row["seconds"].get(f, math.nan) for f in ("adjoint", "torch"))
        ratio = row.get("ratio", math.nan)
        lines.append(f"| {name} | {mine:.4g} | {theirs:.4g} | {ratio:.2f} | {row['share']:.0%} |")
    return "\n".join(lines)


def summary(found: Row) -> str:
    """The same by kind of operation, for a page with little room."""
    groups: dict[str, list[Row]] = {}
    for row in found["rows"].values():
        if "ratio" in row:
            groups.setdefault(row["group"], []).append(row)
    measure = "processor time" if found["threads"] == 1 else "time"
    lines = [
        f"{found['machine']}; threads: {found['threads'] or 'all'}; {measure}, eager.",
        "",
        "| operations | cases | PyTorch's time / Adjoint's: mean (range) | best share of peak |",
        "|---|---|---|---|",
    ]
    for group, rows in groups.items():
        ratios = [row["ratio"] for row in rows]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        share = max(row["share"] for row in rows)
        spread = f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(f"| {group} | {len(rows)} | {spread} | {share:.0%} |")
    return "\n".join(lines)


def put_into(path: Path, text: str) -> None:
    """Replace what stands between the marks."""
    page = path.read_text()
    if BEGIN not in page or END not in page:
        raise SystemExit(f"{path} has no place for the table: {BEGIN} ... {END}")
    before, rest = page.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}")


def begins(case: Case, names: list[str]) -> bool:
    """Whether a case's operation is one of these."""
    return any(case.name.startswith(f"{name} ") for name in names)


def run(options: argparse.Namespace) -> Row:
    """Measure what was asked for."""
    names = options.names
    chosen = [c for c in CASES.values() if not names or c.group in names or begins(c, names)]
    frameworks = ["torch", "adjoint"]
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: Adjoint alone (pip install torch==2.13.0)")
        frameworks.remove("torch")
    rows: dict[str, Row] = {}
    with ExitStack() as stack:
        asks = {f: stack.enter_context(worker(f, options.threads)) for f in frameworks}
        for case in chosen:
            rows[case.name] = row = measure(case, asks, options.rounds, options.seconds)
            times = ", ".join(f"{f} {1e6 * s:.4g} us" for f, s in row["seconds"].items())
            print(f"{case.name:44s} {times}", flush=True)
    peaks = add_shares(rows)
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    return {"machine": machine, "threads": options.threads, "peaks": peaks, "rows": rows}


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write; or tell again what was measured."""
    groups = sorted({case.group for case in CASES.values()})
    parser = argparse.ArgumentParser(description="Single operations beside PyTorch's.")
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(groups)}, or operations; all if none"
    )
    parser.add_argument("--threads", type=int, default=0, help="0: each framework's own choice")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a framework in a round")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--plot", type=Path, help="also draw the ratios here, as PNG")
    parser.add_argument("--from", dest="source", type=Path, help="tell these numbers; measure none")
    parser.add_argument("--readme", type=Path, help="put the table into this page")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve(options.serve, options.threads)
        return 0
    known = lambda name: name in groups or any(begins(case, [name]) for case in CASES.values())
    unknown = [name for name in options.names if not known(name)]
    if unknown:
        parser.error(f"no group or operation {', '.join(unknown)}; groups: {', '.join(groups)}")
    results = json.loads(options.source.read_text()) if options.source else run(options)
    print(f"\n{table(results)}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.plot:
        bars = {name: row.get("ratio", math.nan) for name, row in results["rows"].items()}
        save_bars(options.plot, bars, "time of PyTorch / Adjoint, eager")
    if options.readme:
        put_into(options.readme, summary(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
