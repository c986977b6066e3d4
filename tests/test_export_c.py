"""Exported programs outside of Python: C with the system's compiler, WebAssembly."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.llvm.templates.integers.dots import DOTS
from adjoint.engine.backends.llvm.templates.integers.kernel import integer_text
from adjoint.export import Exported, aot
from adjoint.export.c_source.translate import c_text
from adjoint.export.output.linking import compiler, wasm_linker
from adjoint.export.output.machines import native
from adjoint.nn import functional as F
from adjoint.quantization import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    quantize_,
)

CC = compiler(native())
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler here")
needs_linker = pytest.mark.skipif(wasm_linker() is None, reason="there is no wasm-ld here")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node here")
needs_wasmtime = pytest.mark.skipif(
    importlib.util.find_spec("wasmtime") is None, reason="wasmtime is not installed"
)
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def network() -> nn.Module:
    ad.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )


def training(net: nn.Module) -> Callable[..., Any]:
    optimizer = ad.optim.AdamW(net.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.dropout(net(x), 0.2), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


# Reads all inputs from one file, runs, writes all outputs to another, as often as it is told.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "{name}.h"
static _Alignas({upper}_ALIGNMENT) unsigned char arena[{upper}_ARENA_BYTES{most}];
{state}
int main(int argc, char **argv) {{
    (void)argc;
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    if (!in || !out) return 2;
    {buffers}
    {setup}
    long times = atol(argv[3]);
    for (long k = 0; k < times; k++) {{
        int code = {name}_run({arguments});
        if (code) {{ fprintf(stderr, "%s\\n", {name}_error(code)); return 1; }}
        if (k < 4) {{ {written} }}
    }}
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");  // where Linux tells the most memory held
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6)) fputs(line, stdout);
    if (status) fclose(status);
    return fclose(out);
}}
"""


def main_text(program: Exported, point: tuple[int, ...] = ()) -> str:
    """A C program that runs an exported one."""
    about = program.interface
    name, upper = about.name, about.name.upper()
    at = about.points().index(point) if point else 0
    types = {"float32": "float", "int64": "int64_t"}
    buffers, written, given = "", "", [str(n) for n in point]
    for each in about.buffers:
        count = each.counts[at]
        buffers += f"static {types[each.dtype.name]} {each.name}[{count}];\n"
        if each.role == "output":
            written += f"fwrite({each.name}, sizeof {each.name}, 1, out);"
        else:
            buffers += f"if (fread({each.name}, sizeof {each.name}, 1, in) != 1) return 3;\n"
        given += [each.name, str(count)]
    state, setup = "", ""
    if about.takes_state and about.embedded:
        state = f"static _Alignas(64) unsigned char state[{upper}_STATE_BYTES];"
        setup = f"if ({name}_state_init(state, sizeof state)) return 4;"
        given += ["state", "sizeof state"]
    elif about.takes_state:
        state = "static _Alignas(64) unsigned char file[1 << 16];"
        setup = (
            'FILE *held = fopen(argv[4], "rb"); size_t bytes = fread(file, 1, sizeof file, held);'
            f"const void *state = {name}_state_in(file, bytes); if (!state) return 5;"
            f"if ({name}_state_in(file, bytes - 1)) return 6; fclose(held);"
        )
        given += ["state", f"{upper}_STATE_BYTES"]
    given += ["arena", "sizeof arena"] + (["NULL"] if about.threads else [])
    return MAIN.format(
        name=name, upper=upper, state=state, buffers=buffers, setup=setup, written=written,
        arguments=", ".join(given), most="_MAX" if about.sizes else "",
    )  # fmt: skip


def outputs(
    folder: Path, program: Exported, to: str, args: tuple[Any, ...], flags: list[str],
    point: tuple[int, ...] = (), times: int = 1,
) -> Any:  # fmt: skip
    """What the program writes when C runs it."""
    assert CC is not None
    program.write(folder, to)
    name = program.interface.name
    (folder / "main.c").write_text(main_text(program, point))
    code = folder / f"{name}.{to}"
    command = [*CC, *STRICT, *flags, f"-I{folder}", str(folder / "main.c"), str(code)]
    subprocess.run([*command, "-o", str(folder / "main"), "-lm"], check=True)
    (folder / "in").write_bytes(b"".join(x.detach().numpy().tobytes() for x in args))
    called = [str(folder / "main"), str(folder / "in"), str(folder / "out"), str(times)]
    done = subprocess.run(
        [*called, str(folder / f"{name}.safetensors")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "out", np.float32)


def sanitizers(folder: Path) -> bool:
    """Whether the compiler has them."""
    assert CC is not None
    (folder / "empty.c").write_text("int main(void) { return 0; }")
    made = [*CC, *SANITIZED, str(folder / "empty.c"), "-o", str(folder / "empty")]
    return subprocess.run(made, capture_output=True, check=False).returncode == 0


@needs_cc
@pytest.mark.parametrize("weights", ["embedded", "file"])
def test_object(weights: str, tmp_path: Path) -> None:
    net = network()
    x = ad.randn(3, 1, 8, 8)
    program = aot(net, x, name="net", weights=weights)
    found = outputs(tmp_path, program, "o", (x,), ["-O1"])
    np.testing.assert_allclose(found, net(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)


@needs_cc
def test_one_file_under_sanitizers(tmp_path: Path) -> None:
    """The C file of a network: no complaint of a compiler or sanitizer, the same results."""
    flags = SANITIZED if sanitizers(tmp_path) else ["-O1"]
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x = ad.randn(4, 6)
    program = aot(net, x, name="net", machine="portable")
    found = outputs(tmp_path, program, "c", (x,), flags)
    np.testing.assert_allclose(found, net(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-6)


@needs_cc
def test_dots_in_one_file(tmp_path: Path) -> None:
    """Networks of whole numbers as C for this machine, whose own dots have a form in C."""
    parts = [nn.Sequential(nn.Linear(128, 64)), nn.ReLU(), nn.Sequential(nn.Linear(64, 3))]
    quantize_(parts[0], Int4WeightOnlyConfig(group_size=64))
    quantize_(parts[2], Int8DynamicActivationInt8WeightConfig())
    net = nn.Sequential(*parts).eval()
    x = ad.randn(1, 128)
    found = outputs(tmp_path, aot(net, x, name="net"), "c", (x,), ["-O1"])
    np.testing.assert_allclose(found, net(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)


@needs_cc
@pytest.mark.slow
def test_every_dot_in_c(tmp_path: Path) -> None:
    """Kernels of products of int8 by every processor's dots, as C that any processor runs."""
    import ctypes

    from llvmlite import binding

    assert CC is not None
    random = np.random.default_rng(0)
    m, n, k = 3, 5, 130
    a, b = (random.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    parts = [integer_text(f"run_{name}", name, 1) for name in DOTS]
    declared = sorted(set[str]().union(*(names for _, names in parts)))
    module = binding.parse_assembly("\n".join([*declared, *(text for text, _ in parts)]))
    text = c_text(str(module), "", "dots").replace('#include "dots.h"', "")
    text = text.replace("static void g_run", "void g_run")
    (tmp_path / "dots.c").write_text(f"#include <stdint.h>\n#include <stddef.h>\n{text}")
    library = tmp_path / "dots.so"
    command = [*CC, "-O1", "-w", "-shared", "-fPIC", str(tmp_path / "dots.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    functions = ctypes.CDLL(str(library))
    for name in DOTS:
        c = np.zeros((m, n), np.int32)
        words = [x.ctypes.data for x in (a, b, c)]
        words += [m, n, k, k, k, n, m, 1, 8, 1, 1, 1, *[0] * 6]
        given = np.array(words, np.int64)
        functions[f"g_run_{name}"](pointer(given), ctypes.c_int64(0), ctypes.c_int64(1))
        assert (c == a.astype(np.int64) @ b.astype(np.int64).T).all(), name


@pytest.mark.parametrize("machine", ["native", "x86-64-v4"])
def test_c_for_wide_registers(machine: str, tmp_path: Path) -> None:
    """C has no vectors of which some lanes are read: products and rows go another way there."""
    net = nn.Sequential(nn.Linear(37, 70), nn.Softmax(-1))
    aot(net, ad.zeros(29, 37), machine=machine).write(tmp_path, "c")
    assert "masked" not in (tmp_path / "model.c").read_text()


@needs_cc
@pytest.mark.slow
def test_training_under_sanitizers(tmp_path: Path) -> None:
    """The C file of a training step: no complaint of a compiler or sanitizer, the same losses."""
    flags = SANITIZED if sanitizers(tmp_path) else ["-O1"]
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = ad.randn(4, 6), ad.randint(0, 3, (4,))
    step = training(net)
    program = aot(step, (x, y), name="step", machine="portable")
    found = outputs(tmp_path, program, "c", (x, y), flags, times=4)
    compiled = ad.compile(step)
    want = [compiled(x, y).item() for _ in range(4)]
    np.testing.assert_allclose(found, want, rtol=1e-4)


@needs_cc
@pytest.mark.slow
def test_networks_under_sanitizers(tmp_path: Path) -> None:
    if not sanitizers(tmp_path):
        pytest.skip("the compiler has no sanitizers")
    net = network()
    sizes = {"input": {0: ("batch", 1, 6)}}
    program = aot(net, ad.zeros(2, 1, 8, 8), name="net", machine="portable", dynamic=sizes)
    for n in (1, 2, 5):
        x = ad.randn(n, 1, 8, 8)
        found = outputs(tmp_path, program, "c", (x,), SANITIZED, point=(n,))
        np.testing.assert_allclose(found, net(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)


@needs_cc
@pytest.mark.slow
def test_flat_memory(tmp_path: Path) -> None:
    """A hundred thousand calls take no more memory than one."""
    net = nn.Linear(6, 3)
    x = ad.randn(2, 6)
    program = aot(net, x, name="net")
    outputs(tmp_path, program, "o", (x,), ["-O1"])
    peaks = []
    for times in ("1", "100000"):
        command = [str(tmp_path / name) for name in ("main", "in", "out")]
        done = subprocess.run([*command, times], capture_output=True, text=True, check=True)
        peaks += [int(line.split()[1]) for line in done.stdout.splitlines()]  # in kB
    if not peaks:
        pytest.skip("the system does not tell how much memory a process held")
    assert peaks[0] < 16_000, "a program of a few kB, and not its parent"
    assert peaks[1] <= peaks[0] + 64


@needs_cc
def test_shared_library_and_threads(tmp_path: Path) -> None:
    """Workers that the caller starts and ends compute what one thread does."""
    import ctypes

    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64))
    x = ad.randn(64, 256)
    program = aot(net, x, name="net", threads=True, weights="file")
    program.write(tmp_path, "so")
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    file = (tmp_path / "net.safetensors").read_bytes()
    pool, arena = aligned(1024 + 2048 * 2, 128), aligned(max(program.interface.arena_bytes), 64)
    held = aligned(len(file), 64)
    held[:] = np.frombuffer(file, np.uint8)
    library.net_state_in.restype = ctypes.c_void_p
    state = library.net_state_in(pointer(held), ctypes.c_size_t(len(file)))
    given, out = x.numpy(), np.zeros((64, 64), np.float32)
    assert library.net_pool_start(pointer(pool), ctypes.c_size_t(10), 2) == -1
    assert library.net_pool_start(pointer(pool), ctypes.c_size_t(pool.size), 2) == 0
    for _ in range(50):
        out[:] = 0
        assert library.net_run(
            pointer(given), ctypes.c_size_t(given.size), pointer(out), ctypes.c_size_t(out.size),
            ctypes.c_void_p(state), ctypes.c_size_t(program.interface.state_bytes),
            pointer(arena), ctypes.c_size_t(arena.size), pointer(pool),
        ) == 0  # fmt: skip
        np.testing.assert_allclose(out, net(x).detach().numpy(), rtol=1e-3, atol=1e-4)
    library.net_pool_stop(pointer(pool))
    ad.io.safetensors.load_file(tmp_path / "net.safetensors")


def aligned(nbytes: int, to: int) -> Any:
    held = np.zeros(nbytes + to, np.uint8)
    start = -held.ctypes.data % to
    return held[start : start + nbytes]


def pointer(array: Any) -> Any:
    import ctypes

    return ctypes.c_void_p(array.ctypes.data)


# -- WebAssembly ----------------------------------------------------------------------------------

SCRIPT = """
import { load } from "./step.mjs";
import { readFileSync } from "fs";
const at = (name) => readFileSync(new URL(name, import.meta.url));
const program = await load(at("step.wasm"));
const given = JSON.parse(at("in.json"));
const x = new Float32Array(given.x), y = new BigInt64Array(given.y.map(BigInt));
const losses = [0, 1, 2].map(() => program.run({ x, y }).output[0]);
const said = [];
const wrong = [{ x: x.subarray(1), y }, { x, y: x }, { x, y: y.map(() => 9n) }];
for (const each of wrong) {
  try { program.run(each); } catch (error) { said.push(error.message); }
}
program.reset();
losses.push(program.run({ x, y }).output[0], program.tensor("lr")[0]);
console.log(JSON.stringify({ losses, said }));
"""


@needs_linker
@needs_node
def test_training_in_javascript(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    x, y = ad.randn(4, 6), ad.randint(0, 3, (4,))
    step = training(net)
    aot(step, (x, y), name="step", machine="wasm32").write(tmp_path, "wasm")
    (tmp_path / "in.json").write_text(json.dumps({"x": x.flatten().tolist(), "y": y.tolist()}))
    (tmp_path / "run.mjs").write_text(SCRIPT)
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(tmp_path / "run.mjs")], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    compiled = ad.compile(step)
    want = [compiled(x, y).item() for _ in range(3)]
    np.testing.assert_allclose(found["losses"], [*want, want[0], 0.01], rtol=1e-4)
    assert "expected 24 elements" in found["said"][0]
    assert "y is a BigInt64Array" in found["said"][1]
    assert "out of bounds" in found["said"][2]


@needs_linker
@needs_node
def test_the_page_s_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/webassembly.md: its Python makes what its JavaScript runs (from a file, not fetched)."""
    page = (Path(__file__).parent.parent / "docs" / "webassembly.md").read_text()
    python, script = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("python", "javascript")
    )
    assert len(python) == len(script) == 1
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(compile(python[0], "webassembly.md", "exec"), scope)
    fetched = 'fetch("net.wasm").then((r) => r.arrayBuffer())'
    assert fetched in script[0]
    read = '(await import("node:fs")).readFileSync(new URL("net.wasm", import.meta.url))'
    told = script[0].replace(fetched, read) + "console.log(JSON.stringify([...scores]));\n"
    (tmp_path / "page" / "run.mjs").write_text(told)
    assert NODE is not None
    done = subprocess.run([NODE, "page/run.mjs"], capture_output=True, text=True, check=True)
    want = scope["net"](ad.tensor([[1.0, 2.0, 3.0, 4.0]]))[0].detach()
    np.testing.assert_allclose(json.loads(done.stdout), want.numpy(), rtol=1e-4, atol=1e-6)


@needs_linker
@needs_wasmtime
def test_wasmtime(tmp_path: Path) -> None:
    import wasmtime

    net = network()
    x = ad.randn(2, 1, 8, 8)
    program = aot(net, x, name="net", machine="wasm32")
    program.write(tmp_path, "wasm")
    assert (tmp_path / "net.wasm").stat().st_size < 400_000
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, str(tmp_path / "net.wasm"))
    assert not module.imports
    shown: Any = wasmtime.Instance(store, module, []).exports(store)
    memory = shown["memory"]
    start = -(-shown["__heap_base"].value(store) // 64) * 64
    memory.grow(store, 4)
    memory.write(store, x.numpy().tobytes(), start)
    out, arena = start + 1024, start + 2048
    size = max(program.interface.arena_bytes)
    assert shown["net_run"](store, start, 128, out, 10, arena, size) == 0
    found = np.frombuffer(memory.read(store, out, out + 40), np.float32)
    np.testing.assert_allclose(found, net(x).detach().numpy().ravel(), rtol=1e-4, atol=1e-5)
    assert shown["net_run"](store, start, 127, out, 10, arena, size) > 0
