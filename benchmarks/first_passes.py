"""Eager programs in their first fifty steps, each in a new process: Adjoint beside PyTorch.

    python -m benchmarks.first_passes [program ...] [--processes 1] [--threads 1] [--parts]

Every program is a short script of an everyday kind, many of them with shapes that change from step
to step. Told is the processor time of all threads in milliseconds: of step 1, step 2, steps 3 to 9,
steps 10 to 50, and of all fifty. Adjoint begins once with an empty disk cache and once with what
that left; PyTorch's process is run in between. Imports are not in it, the least of several
processes is told. `--parts` tells besides, of Adjoint, what was made on the way: programs recorded,
planned, compiled or found on disk, and what native code finds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 50
PARTS = {"1": (0, 1), "2": (1, 2), "3-9": (2, 9), "10-50": (9, STEPS), "all": (0, STEPS)}
Step = Callable[[int], Any]  # what is done in the step of a number from 0 on
FLOAT = np.float32


class Tools:
    """What programs are written with: a framework and its random numbers."""

    def __init__(self, fw: Any) -> None:
        self.fw, self.nn, self.F = fw, fw.nn, fw.nn.functional
        self.rng = np.random.default_rng(0)
        self.drawn = self.rng.standard_normal(1 << 18).astype(FLOAT)

    def normal(self, *shape: int) -> Any:
        """Numbers around zero, which are drawn before the clock begins."""
        count = int(np.prod(shape))
        begin = int(self.rng.integers(0, self.drawn.size - count))
        return self.fw.from_numpy(self.drawn[begin : begin + count].copy().reshape(shape))

    def classes(self, most: int, *shape: int) -> Any:
        """Whole numbers under `most`."""
        return self.fw.from_numpy(self.rng.integers(0, most, shape))

    def trained(self, model: Any, loss_of: Callable[..., Any], lr: float = 1e-3) -> Any:
        """A step of training on a batch."""
        optimizer = self.fw.optim.AdamW(model.parameters(), lr=lr)

        def train(*batch: Any) -> float:
            optimizer.zero_grad()
            loss = loss_of(*batch)
            loss.backward()
            optimizer.step()
            return float(loss.item())

        return train


def perceptron(t: Tools) -> Any:
    """Three layers for 28 by 28 pixels."""
    nn = t.nn
    return nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def mlp(t: Tools) -> Step:
    """A perceptron on batches of 64."""
    net = perceptron(t)
    train = t.trained(net, lambda x, y: t.F.cross_entropy(net(x), y))
    return lambda _: train(t.normal(64, 784), t.classes(10, 64))


def last_batch(t: Tools) -> Step:
    """The same over epochs of nine batches, the last of 23; each is followed by an evaluation."""
    net = perceptron(t)
    train = t.trained(net, lambda x, y: t.F.cross_entropy(net(x), y))

    def step(k: int) -> Any:
        if k % 10 < 9:
            count = 64 if k % 10 < 8 else 23
            return train(t.normal(count, 784), t.classes(10, count))
        with t.fw.no_grad():
            right = [
                (net(t.normal(n, 784)).argmax(1) == t.classes(10, n)).float().sum().item()
                for n in (100, 100, 37)
            ]
        return sum(right)

    return step


def batch_sizes(t: Tools) -> Step:
    """The same on batches of ever other sizes."""
    net = perceptron(t)
    train = t.trained(net, lambda x, y: t.F.cross_entropy(net(x), y))

    def step(_: int) -> float:
        count = int(t.rng.integers(8, 129))
        return train(t.normal(count, 784), t.classes(10, count))  # type: ignore[no-any-return]

    return step


def convolutions(t: Tools) -> Any:
    """Convolutions with norms, for images of any size."""
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def cnn(t: Tools) -> Step:
    """A small network of convolutions on 16 images of 32 by 32."""
    net = convolutions(t)
    train = t.trained(net, lambda x, y: t.F.cross_entropy(net(x), y))
    return lambda _: train(t.normal(16, 3, 32, 32), t.classes(10, 16))


def image_sizes(t: Tools) -> Step:
    """The same on four images of ever other sizes."""
    net = convolutions(t)
    train = t.trained(net, lambda x, y: t.F.cross_entropy(net(x), y))

    def step(_: int) -> float:
        height, width = (int(n) for n in t.rng.integers(24, 72, 2))
        return train(t.normal(4, 3, height, width), t.classes(10, 4))  # type: ignore[no-any-return]

    return step


def gpt_of(t: Tools) -> Any:
    """A language model of two blocks, written out as tutorials do."""
    fw, nn, F = t.fw, t.nn, t.F
    width, heads, most, words = 64, 4, 256, 65

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            B, T, C = x.shape
            parts = self.qkv(self.ln1(x)).split(C, dim=2)
            q, k, v = (p.view(B, T, heads, C // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
            return x + self.mlp(self.ln2(x))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(most, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(fw.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return GPT()


def gpt_lengths(t: Tools) -> Step:
    """A language model trained on texts that grow by four tokens a step."""
    net = gpt_of(t)

    def loss_of(x: Any) -> Any:
        scores = net(x[:, :-1])
        return t.F.cross_entropy(scores.reshape(-1, 65), x[:, 1:].reshape(-1))

    train = t.trained(net, loss_of)
    return lambda k: train(t.classes(65, 4, 9 + 4 * k))


def gpt_generation(t: Tools) -> Step:
    """It writes four tokens a step, each from all before it."""
    net, text = gpt_of(t), [t.classes(65, 1, 1)]

    def step(_: int) -> float:
        with t.fw.no_grad():
            for _ in range(4):
                scores = net(text[0])[:, -1, :] / 0.8
                chosen = t.fw.multinomial(t.F.softmax(scores, dim=-1), 1)
                text[0] = t.fw.cat((text[0], chosen), dim=1)
        return float(text[0][0, -1].item())

    return step


def cached_generation(t: Tools) -> Step:
    """One block of attention that writes four tokens a step and keeps keys and values."""
    fw, F = t.fw, t.F
    qkv, out, words = t.nn.Linear(64, 192), t.nn.Linear(64, 65), t.nn.Embedding(65, 64)
    kept: list[Any] = []
    token = [t.classes(65, 1, 1)]

    def step(_: int) -> float:
        with fw.no_grad():
            for _ in range(4):
                parts = qkv(words(token[0])).view(1, 1, 3, 4, 16).permute(2, 0, 3, 1, 4)
                q, k, v = parts[0], parts[1], parts[2]
                if kept:
                    k, v = fw.cat((kept[0], k), dim=2), fw.cat((kept[1], v), dim=2)
                kept[:] = [k, v]
                scores = F.softmax(q @ k.transpose(-2, -1) / 4.0, dim=-1)
                y = (scores @ v).transpose(1, 2).reshape(1, 1, 64)
                token[0] = out(y)[:, -1].argmax(-1, keepdim=True)
        return float(token[0].item())

    return step


def lstm_packed(t: Tools) -> Step:
    """A recurrent network on packed sequences of other lengths in every batch."""
    rnn, head = t.nn.LSTM(16, 32, batch_first=True), t.nn.Linear(32, 4)
    both, utils = t.nn.ModuleList([rnn, head]), t.nn.utils.rnn

    def loss_of(x: Any, lengths: Any, y: Any) -> Any:
        packed = utils.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = rnn(packed)
        return t.F.cross_entropy(head(hidden[-1]), y)

    train = t.trained(both, loss_of)

    def step(_: int) -> float:
        lengths = t.fw.from_numpy(t.rng.integers(5, 40, 8))
        longest = int(lengths.max())
        return train(t.normal(8, longest, 16), lengths, t.classes(4, 8))  # type: ignore[no-any-return]

    return step


def lstm_lengths(t: Tools) -> Step:
    """A recurrent network on batches whose sequences have one length, another in each."""
    words, rnn = t.nn.Embedding(200, 24), t.nn.LSTM(24, 32, batch_first=True)
    head = t.nn.Linear(32, 2)
    both = t.nn.ModuleList([words, rnn, head])
    train = t.trained(both, lambda x, y: t.F.cross_entropy(head(rnn(words(x))[0].mean(dim=1)), y))

    def step(_: int) -> float:
        length = int(t.rng.integers(5, 60))
        return train(t.classes(200, 16, length), t.classes(2, 16))  # type: ignore[no-any-return]

    return step


PROGRAMS: dict[str, Callable[[Tools], Step]] = {
    program.__name__: program
    for program in (
        mlp, last_batch, batch_sizes, cnn, image_sizes, gpt_lengths, gpt_generation,
        cached_generation, lstm_packed, lstm_lengths,
    )
}  # fmt: skip


def counted() -> dict[str, list[float]]:
    """How often parts are run from now on, and their seconds of processor time, by name."""
    found: dict[str, list[float]] = {}
    places = {
        "recorded": ("adjoint.engine.graph.eager.recorded", "recorded"),
        "open recordings": ("adjoint.engine.graph.eager.many_sizes.open_recordings", "opened"),
        "planned": ("adjoint.engine.compiler.schedule.build", "plan_for"),
        "many sizes": ("adjoint.engine.backends.llvm.program.sized", "planned"),
        "machine code": ("adjoint.engine.backends.llvm.runtime.jit", "assemble"),
        "small calls": ("adjoint.engine.graph.eager.small_calls", "entry_of"),
        "straight": ("adjoint.engine.graph.eager.straight", "straight_program"),
    }
    for name, (module, function) in places.items():
        holder: Any = importlib.import_module(module)
        run = getattr(holder, function, None)
        if run is None:
            continue
        taken = found[name] = [0, 0.0]

        def timed(*args: Any, run: Any = run, taken: Any = taken, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return run(*args, **kwargs)
            finally:
                taken[0] += 1
                taken[1] += time.process_time() - start

        for other in [*sys.modules.values()]:
            if getattr(other, "__dict__", {}).get(function) is run:
                setattr(other, function, timed)
    return found


def measure(framework: str, program: str, threads: int, parts: bool) -> dict[str, Any]:
    """All steps of a program in this process."""
    fw = importlib.import_module(framework)
    if threads:
        fw.set_num_threads(threads)
    fw.manual_seed(0)
    found = counted() if parts and framework == "adjoint" else {}
    step = PROGRAMS[program](Tools(fw))
    times = []
    out = 0.0
    for k in range(STEPS):
        start = time.process_time()
        out = step(k)
        times.append(1e3 * (time.process_time() - start))
    return {"times": times, "out": out, "parts": found}


def apart(framework: str, program: str, cache: str, given: Any) -> dict[str, Any]:
    """`measure` in a process of its own, which keeps programs in a folder."""
    threads = str(given.threads)
    limits = {"OMP_NUM_THREADS": threads} if given.threads else {}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.first_passes", "--one", framework,
         program, "--threads", threads, *["--parts"] * given.parts],
        env={
            **os.environ, "XDG_CACHE_HOME": cache, "PYTHONDONTWRITEBYTECODE": "", **limits,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(title: str, runs: list[dict[str, Any]], than: float = 0.0) -> float:
    """A row of the table; returns its total."""
    sums = [{n: sum(run["times"][a:b]) for n, (a, b) in PARTS.items()} for run in runs]
    least = min(sums, key=lambda s: s["all"])
    factor = f"{least['all'] / than:8.2f}x" if than else " " * 9
    print(f"{title:28}" + "".join(f"{x:9.1f}" for x in least.values()) + factor, flush=True)
    for name, (count, seconds) in runs[-1]["parts"].items():
        if count:
            print(f"    {name:20}{count:7}{1e3 * seconds:9.1f} ms", flush=True)
    return least["all"]


def main() -> None:
    """Measure the programs asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--one", nargs=2)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, given.threads, given.parts)))
        return
    print(f"{'steps':28}" + "".join(f"{name:>9}" for name in PARTS))
    for program in given.programs or PROGRAMS:
        runs: dict[str, list[dict[str, Any]]] = {"PyTorch": [], "empty cache": [], "from disk": []}
        for _ in range(given.processes):
            with tempfile.TemporaryDirectory() as cache:
                runs["empty cache"].append(apart("adjoint", program, cache, given))
                if not given.no_torch:
                    runs["PyTorch"].append(apart("torch", program, cache, given))
                runs["from disk"].append(apart("adjoint", program, cache, given))
        than = 0.0
        for title, seen in runs.items():
            if seen:
                total = line(f"{program}, {title}", seen, than)
                than = than or (total if title == "PyTorch" else 0.0)


if __name__ == "__main__":
    main()
