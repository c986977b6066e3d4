"""A network trained here, then compiled ahead of time and run by two C programs.

`examples/c/classify.c` classifies digits; `examples/c/fine_tune.c` trains: a whole step is one
function of C's. Needs a C compiler, the system's or ziglang's. With `--static` the classifier is
also linked with all it needs, and its size and the time from its start to its answer are shown.

python examples/export_digits.py [--quick] [--static] [folder]
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.export.output.linking import compiler, has_zig, link
from adjoint.export.output.machines import native
from adjoint.nn import functional as F
from adjoint.training.recipes.digits import data, network

SOURCES = Path(__file__).resolve().parent / "c"


def trained(train: Any, steps: int) -> nn.Module:
    """The recipe's network after some steps."""
    images, labels = train.tensors
    net = network()
    optimizer = ad.optim.Adam(net.parameters(), lr=4e-3)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        chosen = ad.randint(0, len(labels), (50,))
        step(images[chosen], labels[chosen])
    return net.eval()


def build(folder: Path, net: nn.Module) -> None:
    """Export the network and a training step, and link the C programs."""
    ad.export.aot(
        net, ad.zeros(1, 1, 8, 8), name="digits", input_names=["image"], output_names=["scores"]
    ).write(folder)
    optimizer = ad.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    ad.export.aot(step, (ad.zeros(32, 1, 8, 8), ad.zeros(32, dtype=ad.int64)), name="step").write(
        folder
    )
    for program, code in (("classify", "digits"), ("fine_tune", "step")):
        source, executable = SOURCES / f"{program}.c", folder / program
        inputs = [str(source), str(folder / f"{code}.o"), "-I", str(folder)]
        link([*inputs, "-O2", "-o", str(executable)], native())


def build_static(folder: Path) -> Path:
    """The classifier with its C library inside: musl by ziglang where it is, else the system's."""
    executable = folder / "classify_static"
    inputs = [str(SOURCES / "classify.c"), str(folder / "digits.o"), "-I", str(folder)]
    musl = [sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine()}-linux-musl"]
    options = ["-O2", "-static", "-s", "-Wl,--gc-sections", "-o", str(executable)]
    link([*inputs, *options], native(), musl if has_zig() else None)
    return executable


def start_to_answer(program: Path, folder: Path) -> float:
    """Milliseconds from a program's start to the class of one image: the least of many starts."""
    row = 4 * (1 + 64)
    (folder / "one.bin").write_bytes((folder / "test.bin").read_bytes()[:row])
    best = float("inf")
    for _ in range(50):
        began = time.perf_counter()
        subprocess.run([program, folder / "one.bin"], stdout=subprocess.DEVNULL, check=True)
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def rows(part: Any, path: Path) -> None:
    """Images as the C programs read them: a label, then its pixels."""
    images, labels = part.tensors
    flat = images.reshape(len(labels), -1).numpy()
    np.hstack([labels.numpy()[:, None], flat]).astype(np.float32).tofile(path)


def main(arguments: list[str]) -> None:
    """Train, export, compile, run."""
    quick = "--quick" in arguments
    given = [a for a in arguments if not a.startswith("-")]
    folder = Path(given[0] if given else "runs/export")
    folder.mkdir(parents=True, exist_ok=True)
    ad.manual_seed(0)
    train, test = data()
    net = trained(train, 60 if quick else 400)
    rows(train, folder / "train.bin")
    rows(test, folder / "test.bin")
    if compiler(native()) is None:
        print("there is no C compiler here; nothing was linked")
        return
    build(folder, net)
    for command in (
        [folder / "classify", folder / "test.bin", "20"],
        [folder / "fine_tune", folder / "train.bin", "20" if quick else "200"],
    ):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
        print(done.stdout.strip())
    size = (folder / "classify").stat().st_size
    print(f"the classifier is {size} bytes, weights included")
    if "--static" in arguments:
        executable = build_static(folder)
        weights = sum(4 * tensor.numel() for tensor in net.state_dict().values())
        print(
            f"linked statically: {executable.stat().st_size - weights} bytes besides {weights} of "
            f"weights, {start_to_answer(executable, folder):.1f} ms from start to answer"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
