"""The GPU table: Adjoint compiled and eager beside PyTorch eager and torch.compile.

    python -m benchmarks.gpu [--json FILE] [--frameworks adjoint,torch] [row ...]

Rows: add, gelu, softmax, norm, columns, product; attention and attention128 (heads of 64 and 128),
attention_both and attention128_both (with its gradients); tiny, gpt4, gpt16, gpt32, and gpt16half
and gpt32half, whose residual stream is in bfloat16 (under autocast alone it is in float32); llama,
vit, lstm, odd (sizes), and decode (one token of GPT-2 at batch 1 with a cache); resnet50 (256
images of 224 x 224, channels last), unet (of a diffusion model, 64 images of 64 x 64). Kernels are
told as GB/s or TFLOP/s; training steps as milliseconds and tokens/s or images/s, first over a burst
of 5 steps, then over 50 (the card slows down under load), with the first step's time, memory and
losses. Each framework runs in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
GIB = 1 << 28  # float32 elements of a GiB
APART = 0.05  # of losses
ATTENTION = ("attention", "attention128", "attention_both", "attention128_both")
KERNELS = ("add", "gelu", "softmax", "norm", "columns", "product", *ATTENTION)
GPTS = {"gpt4": 4, "gpt16": 16, "gpt32": 32, "gpt16half": 16, "gpt32half": 32}
STEPS = {"tiny": 32, **GPTS, "resnet50": 256, "unet": 64}
MODELS = ("llama", "vit", "lstm", "odd")
IMAGES = ("resnet50", "unet")
SHORT = ("tiny", "decode", "odd")  # steps that are timed by many


def timed(run: Callable[[], Any], wait: Callable[[], Any], count: int) -> float:
    """Seconds a call, of so many in a row."""
    for _ in range(3):
        run()
    wait()
    start = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - start) / count


def kernel(name: str, ad: Any, functional: Any) -> tuple[Any, tuple[Any, ...], float, str]:
    """A function, its arguments, and its work: bytes, or floating-point operations."""
    if name == "product":
        x = ad.randn(8192, 8192, device="cuda").to(ad.bfloat16)
        return (lambda a, b: a @ b), (x, x + 0), 2 * 8192.0**3, "TFLOP/s"
    if name in ATTENTION:
        return attention(name, ad, functional.scaled_dot_product_attention)
    a = ad.randn(GIB, device="cuda")
    rows = a.reshape(-1, 1024)
    table: dict[str, tuple[Any, tuple[Any, ...], float]] = {
        "add": (lambda x, y: x + y, (a, a + 1), 12.0 * GIB),
        "gelu": (lambda x: functional.gelu(x, approximate="tanh"), (a,), 8.0 * GIB),
        "softmax": (lambda x: x.softmax(-1), (rows,), 8.0 * GIB),
        "norm": (lambda x: functional.layer_norm(x, (1024,)), (rows,), 8.0 * GIB),
        "columns": (lambda x: x.sum(0), (rows,), 4.0 * GIB),
    }
    return (*table[name], "GB/s")


def attention(name: str, ad: Any, attend: Any) -> tuple[Any, tuple[Any, ...], float, str]:
    """Causal attention over 4,096 tokens; its backward is 2.5 times the work of its forward."""
    size = 128 if "128" in name else 64
    q, k, v, g = (ad.randn(4, 16, 4096, size, device="cuda").to(ad.bfloat16) for _ in range(4))
    work = 2 * 2 * 4 * 16 * 4096.0**2 * size / 2
    if not name.endswith("both"):
        return (lambda a, b, c: attend(a, b, c, is_causal=True)), (q, k, v), work, "TFLOP/s"
    q, k, v = (x.requires_grad_() for x in (q, k, v))

    def both(a: Any, b: Any, c: Any) -> Any:
        out = attend(a, b, c, is_causal=True)
        return ad.autograd.grad(out, (a, b, c), g)

    return both, (q, k, v), 3.5 * work, "TFLOP/s"


def gpt_of(framework: str, half_stream: bool = False, layers: int = 12) -> Any:
    """GPT-2 124M with a vocabulary of 50,304, without dropout.

    With a half stream the sum of its embeddings is rounded to bfloat16: what each block adds to it
    is so under autocast, and therefore every sum after it.
    """
    if framework == "adjoint":
        models = importlib.import_module("adjoint.models.gpt2")
        net = models.GPT2(models.GPT2Config(vocab_size=50304, dropout=0.0, n_layer=layers))
        first = net.transformer["h"][0]
    else:
        net = importlib.import_module("benchmarks.gpu_torch").GPT2(50304, layers=layers)
        first = net.blocks[0]
    if half_stream:
        first.register_forward_pre_hook(lambda _, given: (given[0].bfloat16(),))
    return net


def images(name: str, framework: str, ad: Any) -> tuple[Any, Any, Any, Any]:
    """A network for images, its optimizer, a batch and its targets."""
    batch, more = STEPS[name], {"fused": True} if framework == "torch" else {}
    if name == "resnet50":
        home = "torchvision" if framework == "torch" else "adjoint.vision"
        net = importlib.import_module(f"{home}.models").resnet50()
        x, y = ad.randn(batch, 3, 224, 224), ad.randint(0, 1000, (batch,)).to("cuda")
    else:
        nn = importlib.import_module(f"{framework}.nn")
        net = importlib.import_module("benchmarks.gpu_nets").unet(ad, nn)
        x, y = ad.randn(batch, 3, 64, 64), ad.randn(batch, 3, 64, 64).to("cuda")
    net, x = (z.to("cuda", memory_format=ad.channels_last) for z in (net, x))
    optimizer = ad.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, **more)
    return net, optimizer, x, y


def image_step(name: str, framework: str, ad: Any, functional: Any) -> tuple[Any, Any, Any, int]:
    """A step on images: its loss is of classes, or of squares."""
    ad.manual_seed(0)
    net, optimizer, x, y = images(name, framework, ad)
    loss_of = functional.mse_loss if name == "unet" else functional.cross_entropy

    def step(x: Any, y: Any) -> Any:
        with ad.autocast("cuda", dtype=ad.bfloat16):
            loss = loss_of(net(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, x, y, STEPS[name]


def training(name: str, framework: str, ad: Any, functional: Any) -> tuple[Any, Any, Any, int]:
    """A step, its arguments, and how many tokens (or samples) it takes."""
    if name in IMAGES:
        return image_step(name, framework, ad, functional)
    nn = importlib.import_module(f"{framework}.nn")
    batch = STEPS.get(name, 0)
    ad.manual_seed(0)
    if name == "decode":
        ad.set_grad_enabled(False)
        one = importlib.import_module("benchmarks.gpu_models").decoder(ad)
        return one, ad.tensor([17]).to("cuda"), ad.tensor([300]).to("cuda"), 1
    if name in MODELS:
        net, x, y, count = importlib.import_module("benchmarks.gpu_models").trained(name, ad)
        half = True
    elif name == "tiny":
        net = nn.Sequential(
            nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
        ).to("cuda")
        x, y = ad.randn(32, 16).to("cuda"), ad.randint(0, 2, (32,)).to("cuda")
        half, count = False, 32
    else:
        net = gpt_of(framework, name.endswith("half")).to("cuda")
        tokens = ad.randint(0, 50257, (batch, 1025)).to("cuda")
        x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        half, count = True, batch * 1024
    more = {"fused": True} if framework == "torch" else {}
    optimizer = ad.optim.AdamW(net.parameters(), lr=3e-4, **more)

    def step(x: Any, y: Any) -> Any:
        with ad.autocast("cuda", dtype=ad.bfloat16, enabled=half):
            out = net(x)
            loss = functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, x, y, count


def measure(name: str, framework: str, mode: str) -> Row:
    """One row, in this process."""
    ad = importlib.import_module(framework)
    functional = importlib.import_module(f"{framework}.nn.functional")
    wait = ad.cuda.synchronize
    if name in KERNELS:
        fn, arguments, work, unit = kernel(name, ad, functional)
        run = ad.compile(fn) if mode == "compiled" else fn
        seconds = timed(lambda: run(*arguments), wait, 20)
        scale = 1e12 if unit == "TFLOP/s" else 1e9
        return {"ms": seconds * 1e3, "rate": work / seconds / scale, "unit": unit}
    step, x, y, count = training(name, framework, ad, functional)
    fast = {"mode": "reduce-overhead"} if framework == "torch" and name in SHORT else {}
    run = ad.compile(step, **fast) if mode == "compiled" else step
    start = time.perf_counter()
    first = run(x, y).item()
    cold = time.perf_counter() - start
    burst = timed(lambda: run(x, y), wait, 100 if name in SHORT else 5)
    sustained = timed(lambda: run(x, y), wait, 500 if name in SHORT else 50)
    each, unit = (1.0, "images/s") if name in IMAGES else (1e3, "k/s")
    return {
        "ms": burst * 1e3, "rate": count / burst / each, "sustained": count / sustained / each,
        "unit": unit, "first": cold, "GiB": ad.cuda.memory_reserved() / 2**30,
        "losses": [first, run(x, y).item()],
    }  # fmt: skip


def asked(name: str, framework: str, mode: str) -> Row:
    """One row, in a process of its own."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu", "--one", name, framework, mode]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:] or ["no output"]}
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def told(row: Row) -> str:
    if "error" in row:
        return f"error: {row['error'][0][:150]}"
    text = f"{row['ms']:10.3f} ms {row['rate']:10.1f} {row['unit']}"
    if "sustained" in row:
        text += (
            f", sustained {row['sustained']:.1f}, first {row['first']:.1f} s, "
            f"{row['GiB']:.1f} GiB, losses {row['losses'][0]:.4f} {row['losses'][1]:.4f}"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=[*KERNELS, "tiny", "gpt4", "gpt16"])
    parser.add_argument("--frameworks", default="adjoint,torch")
    parser.add_argument("--modes", default="eager,compiled")
    parser.add_argument("--json")
    parser.add_argument("--one", nargs=3)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(*chosen.one)))
        return
    rows: dict[str, Row] = {}
    for name in chosen.rows:
        for framework in chosen.frameworks.split(","):
            for mode in chosen.modes.split(","):
                row = rows[f"{name} {framework} {mode}"] = asked(name, framework, mode)
                print(f"{name:10} {framework:8} {mode:9} {told(row)}", flush=True)
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
