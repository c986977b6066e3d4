"""Peak memory of a GPT training step, compiled and eager, beside PyTorch's eager one.

    python -m benchmarks.memory [--layers 4] [--batch 16]

Each runs in a process of its own: the model is built and a small step done first (batch 1), so that
libraries, parameters' optimizer state and machine code are there; then steps at the batch asked
for. Printed are the growth of the peak resident size over the size before those steps, parameters
and optimizer state, and their sum. PyTorch must be installed for its row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

KINDS = ("speed", "balanced", "memory", "eager", "pytorch")


def status(field: str) -> int:
    """A size that Linux states of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status states no {field}")


def parts(kind: str) -> tuple[Any, Any, Any]:
    """The framework: its module, nn and functional."""
    if kind == "pytorch":
        import torch
        from torch import nn
        from torch.nn import functional

        return torch, nn, functional
    import adjoint as ad
    from adjoint import nn as own
    from adjoint.nn import functional as own_functional

    return ad, own, own_functional


def model_of(nn: Any, F: Any, lib: Any, layers: int) -> Any:
    """A GPT in the API both share."""

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.proj = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, 4, 32).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 256, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.tokens(x) + self.places(lib.arange(64))
            return self.head(self.norm(self.blocks(h)))

    return Model()


def measure(kind: str, layers: int, batch: int) -> dict[str, float]:
    """Sizes of this process around steps of one kind."""
    lib, nn, F = parts(kind)
    lib.manual_seed(0)
    model = model_of(nn, F, lib, layers)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x).reshape(-1, 256), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    is_eager = kind in ("eager", "pytorch")
    run = step if is_eager else lib.compile(step, options={"remat": kind})
    data = [lib.randint(0, 256, (n, 64)) for n in (1, 1, batch, batch)]
    for _ in range(3):
        run(*data[:2])
    optimizer.zero_grad()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    for _ in range(5):
        loss = run(*data[2:])
    state = 3 * sum(p.numel() * 4 for p in model.parameters())
    grown = status("VmHWM") - before
    return {"grown": grown, "state": state, "loss": float(loss)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.layers, options.batch)))
        return
    print("| step | growth MB | parameters and state MB | together MB | loss |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        command = [sys.executable, "-m", "benchmarks.memory", "--only", kind]
        command += ["--layers", str(options.layers), "--batch", str(options.batch)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"| {kind} | {done.stderr.strip().splitlines()[-1]} |")
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        grown, state = row["grown"] / 1e6, row["state"] / 1e6
        print(f"| {kind} | {grown:.1f} | {state:.1f} | {grown + state:.1f} | {row['loss']:.4f} |")


if __name__ == "__main__":
    main()
