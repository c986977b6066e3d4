"""Programs exported for other machines, run there: linked by ziglang, emulated by QEMU."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.export import aot
from adjoint.export.ahead import Exported
from adjoint.export.output.linking import compiler
from adjoint.export.output.machines import DESTINATIONS
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

# QEMU's name, and the processor where its default has too few instructions. It has no AVX-512.
EMULATORS = {
    "x86-64-v2": ("qemu-x86_64", "max"),
    "x86-64-v3": ("qemu-x86_64", "max"),
    "x86-64-v4": ("", ""),
    "aarch64": ("qemu-aarch64", "max"),
    "riscv64": ("qemu-riscv64", "rv64"),
    "arm": ("qemu-arm", "max"),
}
MAIN = """
#include <stdio.h>
#include "net.h"
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES];
static _Alignas(NET_ALIGNMENT) {type} x[NET_X_COUNT];
static _Alignas(NET_ALIGNMENT) float y[NET_Y_COUNT];
int main(void) {{
    if (fread(x, sizeof *x, NET_X_COUNT, stdin) != NET_X_COUNT) return 100;
    int code = net_run(x, NET_X_COUNT, y, NET_Y_COUNT, arena, sizeof arena);
    if (code) return code;
    return fwrite(y, sizeof *y, NET_Y_COUNT, stdout) != NET_Y_COUNT;
}}
"""


def mlp() -> tuple[nn.Module, ad.Tensor]:
    parts = nn.Linear(13, 37), nn.GELU(), nn.LayerNorm(37), nn.Linear(37, 5), nn.Softmax(-1)
    return nn.Sequential(*parts), ad.randn(7, 13)


def images() -> tuple[nn.Module, ad.Tensor]:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(32, 4),
    )  # fmt: skip
    return net.eval(), ad.randn(2, 3, 11, 11)


def language() -> tuple[nn.Module, ad.Tensor]:
    config = GPT2Config(vocab_size=31, n_positions=12, n_embd=16, n_layer=2, n_head=2)
    return GPT2(config).eval(), ad.randint(0, 31, (2, 12))


def integers() -> tuple[nn.Module, ad.Tensor]:
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8)).eval()
    quantize_(net, Int8DynamicActivationInt8WeightConfig())
    return net, ad.randn(3, 64)


MODELS: dict[str, Callable[[], tuple[nn.Module, ad.Tensor]]] = {
    "mlp": mlp, "images": images, "language": language, "integers": integers,
}  # fmt: skip


# Of this processor: what it is and what it must be able to do, to run a program by itself.
NATIVE = {
    "aarch64": ("aarch64", ()),
    "x86-64-v2": ("x86_64", ("sse4_2",)),
    "x86-64-v3": ("x86_64", ("avx2", "fma", "bmi2")),
    "x86-64-v4": ("x86_64", ("avx512f", "avx512bw", "avx512dq", "avx512vl")),
}


def runs_here(machine: str) -> bool:
    family, wanted = NATIVE.get(machine, ("", ()))
    facts = Path("/proc/cpuinfo")
    if platform.machine() != family or not facts.exists():
        return False
    flags = set(facts.read_text().split())
    return all(flag in flags for flag in wanted)


def answer(program: Exported, x: ad.Tensor, machine: str, folder: Path) -> np.ndarray:
    emulator, processor = EMULATORS[machine]
    program.write(folder)
    kind = {"float32": "float", "int64": "int64_t"}[str(x.numpy().dtype)]
    (folder / "main.c").write_text(MAIN.format(type=kind))
    command = compiler(DESTINATIONS[machine])
    assert command is not None
    files = [str(folder / name) for name in ("main.c", "net.o")]
    subprocess.run([*command, "-static", *files, "-o", str(folder / "main"), "-lm"], check=True)
    run = [*([] if runs_here(machine) else [emulator, "-cpu", processor]), str(folder / "main")]
    done = subprocess.run(run, input=x.numpy().tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("machine", EMULATORS)
@pytest.mark.parametrize("model", MODELS)
def test_other_machines_compute_the_same(model: str, machine: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    emulator = EMULATORS[machine][0]
    if not runs_here(machine) and (not emulator or shutil.which(emulator) is None):
        pytest.skip(f"no processor for {machine} and no emulator: apt-get install qemu-user")
    ad.manual_seed(0)
    net, x = MODELS[model]()
    program = aot(net, x, name="net", input_names=["x"], output_names=["y"], machine=machine)
    with ad.no_grad():
        expected = net(x).numpy()
    found = answer(program, x, machine, tmp_path).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
