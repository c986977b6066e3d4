"""One answer at a time: compiled forward passes at batch 1 beside PyTorch's and onnxruntime's.

    python -m benchmarks.inference [--threads 2] [--rounds 5] [--json FILE] [name ...]

`mlp` and `residual` are those of `benchmarks.families`, others of `benchmarks.networks`: `mobile`
has depthwise convolutions between such of one tap, `generator` transposed ones. `decode` is one
token of a GPT with a cache of keys and values, which a step shifts by one and hands on. Each
runtime has a process of its own and they take turns; a time is the least of all rounds, of
processor time where one thread is asked for. Answers are compared with PyTorch's, or among what
there is; a difference ends the run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.families import FAMILIES, fill, normal
from benchmarks.networks import encoder, generator, mobile, resnet, unet

Row = dict[str, Any]
RUNTIMES = ("torch", "onnxruntime", "adjoint")
TOLERANCE = 1e-3  # of answers, relative to the largest element


def decoder(
    fw: Any, width: int = 256, heads: int = 8, layers: int = 4, vocabulary: int = 512
) -> Any:
    """One token through a GPT with caches: embeds, attends to what came before, predicts."""
    nn, F = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (p.view(1, 1, heads, width // heads).transpose(1, 2) for p in parts)
            keys = fw.cat([keys[:, :, 1:], k], dim=2)  # (1, heads, length, width / heads)
            values = fw.cat([values[:, :, 1:], v], dim=2)
            y = F.scaled_dot_product_attention(q, keys, values)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)))), keys, values

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, token: Any, keys: Any, values: Any) -> Any:
            x = self.tokens(token)  # (1, 1, width)
            new_keys, new_values = [], []
            for n, block in enumerate(self.blocks):
                x, k, v = block(x, keys[n], values[n])
                new_keys.append(k)
                new_values.append(v)
            return self.head(self.norm(x)), fw.stack(new_keys), fw.stack(new_values)

    return Decoder()


def caches() -> tuple[Any, ...]:
    shape = (4, 1, 8, 128, 32)  # layers, batch, heads, length, width of a head
    return np.array([[7]], np.int64), normal(*shape), normal(*shape)


@dataclass(frozen=True, slots=True)
class Model:
    """A network and one input."""

    what: str
    make: Callable[[Any], Any]
    data: Callable[[], tuple[Any, ...]]


MODELS = {
    "mlp": Model("784-512-256-10", FAMILIES["mlp"].model, lambda: (normal(1, 784),)),
    "residual": Model(
        "3 blocks, 3x32x32", FAMILIES["residual"].model, lambda: (normal(1, 3, 32, 32),)
    ),
    "mobile": Model("7 inverted residuals, 3x96x96", mobile, lambda: (normal(1, 3, 96, 96),)),
    "generator": Model("5 layers up to 3x64x64", generator, lambda: (normal(1, 100, 1, 1),)),
    "resnet": Model("ResNet-18, 3x112x112", resnet, lambda: (normal(1, 3, 112, 112),)),
    "unet": Model("two levels, 3x64x64", unet, lambda: (normal(1, 3, 64, 64),)),
    "encoder": Model("4 layers, width 128, 64 tokens", encoder, lambda: (normal(1, 64, 128),)),
    "decode": Model("4 layers, width 256, 128 tokens kept", decoder, caches),
}


# -- a runtime in its own process -----------------------------------------------------------------


def network(fw: Any, name: str) -> tuple[Any, list[Any]]:
    """A network with the weights that it has in every framework, and its input."""
    model = MODELS[name].make(fw)
    fill(fw, model)
    model.eval()
    return model, [fw.from_numpy(x) for x in MODELS[name].data()]


def eager_torch(name: str, threads: int) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    if threads:
        torch.set_num_threads(threads)
    model, given = network(torch, name)

    def call() -> Any:
        with torch.inference_mode():
            return model(*given)

    return call


def compiled_adjoint(name: str, threads: int) -> Callable[[], Any]:
    ad = importlib.import_module("adjoint")
    if threads:
        ad.set_num_threads(threads)
    model, given = network(ad, name)
    compiled = ad.compile(model)

    def call() -> Any:
        with ad.no_grad():
            return compiled(*given)

    return call


def session_onnx(name: str, threads: int) -> Callable[[], Any]:
    ad = importlib.import_module("adjoint")
    runtime = importlib.import_module("onnxruntime")
    exporting = importlib.import_module("adjoint.onnx")
    model, given = network(ad, name)
    options = runtime.SessionOptions()
    if threads:
        options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exporting.export(model, tuple(given), str(path))
        session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    feeds = {i.name: x.numpy() for i, x in zip(session.get_inputs(), given, strict=True)}
    return lambda: session.run(None, feeds)


MAKERS = {"torch": eager_torch, "adjoint": compiled_adjoint, "onnxruntime": session_onnx}


def serve(runtime: str, name: str, threads: int) -> None:
    """Answer requests until the input ends; the first line written is the network's answer."""
    call = MAKERS[runtime](name, threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    out = call()
    first = out[0] if isinstance(out, (tuple, list)) else out
    print(json.dumps(np.asarray(first).ravel().tolist()), flush=True)
    for line in sys.stdin:
        best, end = math.inf, time.perf_counter() + float(line)
        while best == math.inf or time.perf_counter() < end:
            start = clock()
            call()
            best = min(best, clock() - start)
        print(json.dumps(best), flush=True)


# -- measuring ------------------------------------------------------------------------------------


@contextmanager
def asked(runtime: str, name: str, threads: int) -> Iterator[tuple[Any, Callable[[float], float]]]:
    """A process: its answer, and a function that has it run for so many seconds."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.inference", name]
    process = subprocess.Popen(
        [*command, "--serve", runtime, "--threads", str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def answer() -> Any:
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"the process of {runtime} ended: its error is above")
        return json.loads(line)

    def ask(seconds: float) -> float:
        print(seconds, file=process.stdin, flush=True)
        return float(answer())

    try:
        yield np.array(answer()), ask
    finally:
        process.stdin.close()
        process.wait()


def measure(name: str, runtimes: list[str], options: argparse.Namespace) -> Row:
    """The least seconds of each runtime."""
    with ExitStack() as stack:
        processes = {r: stack.enter_context(asked(r, name, options.threads)) for r in runtimes}
        reference = processes[runtimes[0]][0]
        for runtime, (answer, _) in processes.items():
            away = np.abs(answer - reference).max() / max(np.abs(reference).max(), 1e-30)
            if not away <= TOLERANCE:
                raise SystemExit(f"{name}: {runtime} differs from {runtimes[0]} by {away:.1e}")
        times = dict.fromkeys(runtimes, math.inf)
        for number in range(options.rounds):
            for runtime in runtimes[:: 1 if number % 2 else -1]:
                times[runtime] = min(times[runtime], processes[runtime][1](options.seconds))
    return {"what": MODELS[name].what, "seconds": times}


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Forward passes at batch 1.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODELS)}; all if none is given")
    parser.add_argument("--threads", type=int, default=0, help="0: each runtime's own choice")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a runtime in a round")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--serve", choices=RUNTIMES, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    if options.serve:
        serve(options.serve, options.names[0], options.threads)
        return 0
    runtimes = [r for r in RUNTIMES if importlib.util.find_spec(r) is not None]
    missing = [r for r in RUNTIMES if r not in runtimes]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    print(f"{platform.machine()}, {os.cpu_count()} processors\n")
    print(f"| model | {' | '.join(f'{r} us' for r in runtimes)} |\n|{'---|' * (len(runtimes) + 1)}")
    rows = {}
    for name in options.names or MODELS:
        rows[name] = row = measure(name, runtimes, options)
        cells = [f"{1e6 * row['seconds'][r]:.4g}" for r in runtimes]
        print(f"| {name}: {row['what']} | {' | '.join(cells)} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
