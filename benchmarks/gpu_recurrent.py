"""Recurrent layers on a GPU: Adjoint, moment by moment and by cuDNN, beside PyTorch.

    python -m benchmarks.gpu_recurrent [--cells LSTM,GRU]
        [--sizes 16x8x64x1,...] [--dtype float32] [--compiled]

A size is moments x sequences x hidden size (and inputs) x layers. All run in one process, in turns,
with the same weights and without TF32: microseconds until the GPU is done, the least of some
rounds, of a call without gradients and of one with all gradients; and how far outputs and gradients
are from PyTorch's, by the largest of each. With `--compiled`: of compiled training steps (SGD), of
PyTorch's the layer under `torch.compile`.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

CELLS = ("LSTM", "GRU", "RNN")
SIZES = (
    "16x1x32x1,16x8x64x1,16x32x128x1,64x1x256x1,64x64x64x1,128x64x128x1,"
    "16x8x64x2,64x64x128x2,64x1x512x2,64x64x512x2,128x32x512x2"
)
SECONDS, ROUNDS = 0.02, 3
Run = Callable[[], Any]


def microseconds(run: Run, wait: Run) -> float:
    """The time of a call, of so many in a row that they take a while."""
    run()
    wait()
    begin = time.perf_counter()
    run()
    wait()
    count = max(3, int(SECONDS / (time.perf_counter() - begin)))
    begin = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - begin) / count * 1e6


class Side:
    """A layer of one framework, with its input."""

    def __init__(self, framework: Any, cell: str, size: tuple[int, ...], dtype: str) -> None:
        length, batch, hidden, layers = size
        self.framework = framework
        self.layer = getattr(framework.nn, cell)(hidden, hidden, layers)
        self.layer = self.layer.to("cuda", getattr(framework, dtype))
        self.x = framework.zeros(
            length, batch, hidden, device="cuda", dtype=getattr(framework, dtype)
        )

    def fill(self, arrays: list[Any]) -> None:
        """Take the numbers of others: the input's, then the parameters'."""
        for mine, theirs in zip((self.x, *self.layer.parameters()), arrays, strict=True):
            mine.data.copy_(self.framework.from_numpy(theirs))

    def forward(self) -> Any:
        with self.framework.no_grad():
            return self.layer(self.x)[0]

    def results(self) -> list[Any]:
        """The outputs and all gradients."""
        x = self.x.detach().requires_grad_()
        out = self.layer(x)[0]
        wanted = [x, *self.layer.parameters()]
        return [out, *self.framework.autograd.grad(out.sum(), wanted)]

    def step(self) -> Run:
        """A compiled training step; PyTorch's without what it does not compile."""
        framework, layer, x = self.framework, self.layer, self.x
        optimizer = framework.optim.SGD(layer.parameters(), lr=1e-3)
        whole = framework.__name__ == "adjoint"
        run = (lambda x: layer(x)[0]) if whole else framework.compile(lambda x: layer(x)[0])

        def step() -> Any:
            loss = run(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        made: Run = framework.compile(step) if whole else step
        return made

    def wait(self) -> None:
        self.framework.cuda.synchronize()


def distance(mine: list[Any], theirs: list[Any]) -> float:
    """The largest difference, as a part of the largest element of what it is in."""
    pairs = [(a.detach().float().cpu().numpy(), b.detach().float().cpu().numpy())
             for a, b in zip(mine, theirs, strict=True)]  # fmt: skip
    return max(float(abs(a - b).max() / max(abs(b).max(), 1e-30)) for a, b in pairs)


def measure(cell: str, size: tuple[int, ...], dtype: str) -> str:
    """A line of the table."""
    ours, torch = (importlib.import_module(name) for name in ("adjoint", "torch"))
    mine, theirs = Side(ours, cell, size, dtype), Side(torch, cell, size, dtype)
    theirs.x.normal_()
    given = (theirs.x, *theirs.layer.parameters())
    mine.fill([t.detach().float().cpu().numpy() for t in given])
    apart = distance(mine.results(), theirs.results())

    rows: list[list[float]] = [[], [], [], [], [], []]
    for _ in range(ROUNDS):
        for first, gradients in ((0, False), (3, True)):
            for at, side in ((0, mine), (1, mine), (2, theirs)):
                run = side.results if gradients else side.forward
                with ours.backends.cudnn.flags(enabled=at != 0):
                    rows[first + at].append(microseconds(run, side.wait))
    shown = [f"{min(row):.0f}" for row in rows]
    where = "x".join(map(str, size))
    forward, whole = (", ".join(shown[at : at + 3]) for at in (0, 3))
    return f"| {cell} {where} {dtype} | {forward} | {whole} | {apart:.1e} |"


def measure_steps(cell: str, size: tuple[int, ...], dtype: str) -> str:
    """A line of the table of compiled steps."""
    ours, torch = (importlib.import_module(name) for name in ("adjoint", "torch"))
    sides = [Side(framework, cell, size, dtype) for framework in (ours, ours, torch)]
    steps = [side.step() for side in sides]
    rows: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        for at, (side, step) in enumerate(zip(sides, steps, strict=True)):
            with ours.backends.cudnn.flags(enabled=at != 0):
                rows[at].append(microseconds(step, side.wait))
    shown = ", ".join(f"{min(row):.0f}" for row in rows)
    return f"| {cell} {'x'.join(map(str, size))} {dtype} | {shown} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if asked.compiled:
        print("| | a compiled step: moments, as chosen, PyTorch |\n|---|---|")
    else:
        print("| | forward: moments, cuDNN, PyTorch | with gradients | apart |\n|---|---|---|---|")
    for cell in asked.cells.split(","):
        for text in asked.sizes.split(","):
            size = tuple(map(int, text.split("x")))
            found = measure_steps if asked.compiled else measure
            print(found(cell, size, asked.dtype), flush=True)


if __name__ == "__main__":
    main()
