"""Whether a GPT-2 trained on a GPU is PyTorch's: gradients, losses, memory and first steps.

    python -m benchmarks.gpu_parity [first] [gradients] [losses]
        [--batch 16] [--steps 100] [--layers 12] [--stream bfloat16]

The same weights and tokens in each framework, bf16 autocast, AdamW; each run has a process of its
own. Told are the error of every gradient of the first step against PyTorch's in float32, beside
the error that PyTorch's autocast has; losses step by step, beside those of PyTorch's other mode;
the time of a first step with nothing on disk and with everything there; and the memory of a step,
with and without `remat`. The residual stream is in float32, as autocast has it, or in bfloat16
(`gpt_of` of benchmarks.gpu) in all runs but that of float32.
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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu import gpt_of

Arrays = dict[str, "np.ndarray[Any, Any]"]
LENGTH = 1024
OPTIONS: dict[str, dict[str, Any]] = {"compiled": {}, "remat": {"options": {"remat": "memory"}}}
RATE = 3e-5  # at ten times as much the first steps leap, and differ from run to run by 6
FOLLOWED = 257  # tokens that occur, each followed mostly by the same: something can be learnt


def tokens(batch: int, steps: int) -> np.ndarray[Any, Any]:
    """Sequences in which three of four tokens follow from the one before."""
    draws = np.random.default_rng(0)
    out = draws.integers(0, FOLLOWED, (steps, batch, LENGTH + 1))
    follows = draws.random(out.shape) < 0.75
    for place in range(1, LENGTH + 1):
        after = (5 * out[..., place - 1] + 3) % FOLLOWED
        out[..., place] = np.where(follows[..., place], after, out[..., place])
    return out


def names(model: Any) -> dict[str, str]:
    """Our names of PyTorch's parameters."""
    inside = {
        "norm1": "ln_1", "norm2": "ln_2", "qkv": "attn.c_attn", "out": "attn.c_proj",
        "up": "mlp.c_fc", "down": "mlp.c_proj",
    }  # fmt: skip
    whole = {"tokens.weight": "wte.weight", "places.weight": "wpe.weight"}
    whole |= {f"norm.{kind}": f"ln_f.{kind}" for kind in ("weight", "bias")}
    out = {}
    for name, _ in model.named_parameters():
        if name.startswith("blocks."):
            _, number, layer, kind = name.split(".")
            out[name] = f"transformer.h.{number}.{inside[layer]}.{kind}"
        else:
            out[name] = f"transformer.{whole[name]}"
    return out


def turned(name: str) -> bool:
    """Whether a weight is stored the other way round in PyTorch's layers."""
    return name.endswith(("qkv.weight", "out.weight", "up.weight", "down.weight"))


class Training:
    """A model with given weights in one framework."""

    def __init__(self, framework: str, mode: str, folder: Path, layers: int, stream: str) -> None:
        self.ad = importlib.import_module(framework)
        self.functional = importlib.import_module(f"{framework}.nn.functional")
        self.half = mode != "float32"
        self.model = gpt_of(framework, self.half and stream == "bfloat16", layers)
        weights = dict(np.load(folder / "weights.npz"))
        theirs = names(self.model) if framework == "torch" else {}
        with self.ad.no_grad():
            for name, parameter in self.model.named_parameters():
                value = weights[theirs.get(name, name)]
                value = value.T if theirs and turned(name) else value
                parameter.copy_(self.ad.from_numpy(np.ascontiguousarray(value)))
        self.model = self.model.to("cuda")
        self.theirs = theirs
        more = {"fused": True} if framework == "torch" else {}
        self.optimizer = self.ad.optim.AdamW(self.model.parameters(), lr=RATE, **more)
        self.step = self.trained
        self.gradient_step = self.differentiated
        if mode in OPTIONS:
            self.step = self.ad.compile(self.trained, **OPTIONS[mode])
            self.gradient_step = self.ad.compile(self.differentiated, **OPTIONS[mode])

    def differentiated(self, x: Any, y: Any) -> Any:
        with self.ad.autocast("cuda", dtype=self.ad.bfloat16, enabled=self.half):
            out = self.model(x)
            loss = self.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        return loss

    def trained(self, x: Any, y: Any) -> Any:
        loss = self.differentiated(x, y)
        self.optimizer.step()
        return loss

    def gradients(self) -> Arrays:
        """By our names and shapes."""
        return {
            self.theirs.get(name, name): (g.T if self.theirs and turned(name) else g)
            for name, p in self.model.named_parameters()
            for g in [p.grad.float().cpu().numpy()]
        }


def worker(
    framework: str, mode: str, folder: Path, layers: int, stream: str, what: str
) -> dict[str, Any]:
    """One run: its gradients are written to a file, the rest is told."""
    training = Training(framework, mode, folder, layers, stream)
    ad = training.ad
    batches = ad.from_numpy(np.load(folder / "tokens.npy")).to("cuda")
    x, y = batches[..., :-1].contiguous(), batches[..., 1:].contiguous()
    if what == "gradients":
        few = slice(0, 4)  # rows: PyTorch's float32 keeps much
        training.gradient_step(x[0, few].contiguous(), y[0, few].contiguous())
        np.savez(folder / f"{framework}_{mode}.npz", **training.gradients())
        return {}
    start = time.perf_counter()
    losses = [training.step(x[0], y[0]).item()]
    first = time.perf_counter() - start
    count = 3 if what == "first" else len(x)
    kept = [training.step(x[n], y[n]) for n in range(1, count)]
    return {
        "losses": losses + [loss.item() for loss in kept], "first": first,
        "GiB": ad.cuda.memory_reserved() / 2**30, "peak": ad.cuda.max_memory_allocated() / 2**30,
    }  # fmt: skip


def asked(*words: str) -> dict[str, Any]:
    """A worker's answer."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu_parity", "--one", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def tell_gradients(*model: str) -> None:
    """Errors of each parameter's gradient, relative to its norm."""
    folder = Path(model[0])
    runs = {"exact": ("torch", "float32"), "theirs": ("torch", "eager")}
    runs["ours"] = ("adjoint", "compiled")
    found: dict[str, Arrays] = {}
    for name, (framework, mode) in runs.items():
        asked(framework, mode, *model, "gradients")
        found[name] = dict(np.load(folder / f"{framework}_{mode}.npz"))
    errors = {
        who: {
            name: float(np.linalg.norm(found[who][name] - exact) / np.linalg.norm(exact))
            for name, exact in found["exact"].items()
        }
        for who in ("ours", "theirs")
    }
    ratios = {name: errors["ours"][name] / errors["theirs"][name] for name in errors["ours"]}
    worst = max(ratios, key=lambda name: ratios[name])
    print(
        f"gradients of {len(ratios)} parameters, error over that of PyTorch's autocast: median "
        f"{np.median([*ratios.values()]):.3f}, largest {ratios[worst]:.3f} ({worst}: "
        f"{errors['ours'][worst]:.2e} beside {errors['theirs'][worst]:.2e})"
    )


def tell_losses(*model: str) -> None:
    """How far losses are apart."""
    runs = {"PyTorch": ("torch", "eager"), "torch.compile": ("torch", "compiled")}
    runs |= {"Adjoint": ("adjoint", "compiled"), "with remat": ("adjoint", "remat")}
    found = {who: asked(*run, *model, "losses") for who, run in runs.items()}
    base = np.asarray(found["PyTorch"]["losses"])
    for who, run in found.items():
        losses = np.asarray(run["losses"])
        apart = np.abs(losses - base)
        print(
            f"{who:14} losses {losses[0]:.4f} ... {losses[-1]:.4f}, apart from PyTorch's by "
            f"{apart.mean():.5f}, at most {apart.max():.5f}; {run['GiB']:.1f} GiB reserved, "
            f"{run['peak']:.1f} in use at the peak"
        )


def tell_first(*model: str) -> None:
    """The time of a process's first step."""
    for told in ("nothing on disk", "from the disk"):
        first = asked("adjoint", "compiled", *model, "first")["first"]
        print(f"first step, {told}: {first:.1f} s", flush=True)


PARTS = {"first": tell_first, "gradients": tell_gradients, "losses": tell_losses}


def main() -> None:
    parser = argparse.ArgumentParser(description="A GPT-2 beside PyTorch's, number by number.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--stream", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if chosen.one:
        framework, mode, folder, layers, stream, what = chosen.one
        print(json.dumps(worker(framework, mode, Path(folder), int(layers), stream, what)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), (name, str(chosen.layers), chosen.stream)
        np.save(folder / "tokens.npy", tokens(chosen.batch, chosen.steps))
        importlib.import_module("adjoint").manual_seed(0)
        weights = {key: p.numpy() for key, p in _weights(chosen.layers).items()}
        np.savez(folder / "weights.npz", **weights)
        os.environ["XDG_CACHE_HOME"] = name  # nothing on disk at first
        for part in chosen.parts or PARTS:
            PARTS[part](*model)


def _weights(layers: int) -> dict[str, Any]:
    return {key: p.detach() for key, p in gpt_of("adjoint", layers=layers).named_parameters()}


if __name__ == "__main__":
    main()
