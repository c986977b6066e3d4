"""Models outside of Python: sizes and times of C and WebAssembly, and what few bits cost.

    python -m benchmarks.leaving [digits] [wasm] [decode] [language] [files]

`digits`    a convolutional network as a static executable: bytes besides its weights, start to
            answer, and a call of its C function beside the compiled call, one thread
`wasm`      the same network as WebAssembly in wasmtime, beside its C function
`decode`    one token of a GPT-2 small (124M, 128 tokens kept), C function and compiled call
`language`  the perplexity of a small GPT on text it has not seen: float32, int8, int4 by groups
`files`     the bytes of a GPT-2 small (124M) as safetensors: float32, int8, int4 by groups

The least of many repeats, in turns. `python -m benchmarks.integers` has the products of int8,
`examples/quantize_digits.py` accuracy in int8, `make compare` MiniLM's embeddings.
"""

from __future__ import annotations

import copy
import ctypes
import importlib.util
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.quantization as q
from adjoint import nn
from adjoint.export import Exported
from adjoint.export.output.linking import has_zig
from adjoint.models import GPT2, GPT2Config
from adjoint.training.recipes.digits import network
from benchmarks.inference import decoder

IMAGES = 32  # of a call, beside which what Python takes to make it is little
ROOT = Path(__file__).resolve().parent.parent


def least(runs: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """The shortest time of each in milliseconds, in turn."""
    best = [math.inf] * len(runs)
    for _ in range(repeats):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], 1e3 * (time.perf_counter() - start))
    return best


def aligned(nbytes: int) -> Any:
    """Memory at an address that is a multiple of 64."""
    room = np.zeros(nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + nbytes]


def c_function(program: Exported, folder: Path, inputs: Sequence[Any]) -> Callable[[], list[Any]]:
    """The program's C function, loaded from a shared library: gives its outputs."""
    about = program.interface
    library = ctypes.CDLL(str(program.write(folder, "so")[1]))
    given = iter(inputs)
    arguments: list[Any] = []
    outputs = []
    for buffer in about.buffers:
        is_output = buffer.role == "output"
        count = buffer.counts[0]
        array = np.zeros(count, buffer.dtype.name) if is_output else next(given)
        outputs += [array] if is_output else []
        arguments += [ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(count)]
    alive: list[Any] = [inputs]
    if about.takes_state:
        file = np.memmap(folder / f"{about.name}.safetensors", np.uint8, "r")
        state_in = getattr(library, f"{about.name}_state_in")
        state_in.restype = ctypes.c_void_p
        state = state_in(ctypes.c_void_p(file.ctypes.data), ctypes.c_size_t(file.size))
        arguments += [ctypes.c_void_p(state), ctypes.c_size_t(about.state_bytes)]
        alive.append(file)
    arena = aligned(max(about.arena_bytes))
    alive.append(arena)
    arguments += [ctypes.c_void_p(arena.ctypes.data), ctypes.c_size_t(arena.size)]
    function = getattr(library, f"{about.name}_run")

    def call() -> list[Any]:
        code = function(*arguments)
        if code:
            raise RuntimeError(f"{about.name}_run gives {code} with {len(alive)} arrays kept")
        return outputs

    return call


def load_example(name: str) -> Any:
    """A module of `examples/`, which are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digits(folder: Path) -> None:
    example = load_example("export_digits")
    ad.manual_seed(0)
    _, test = example.data()
    net = network().eval()
    example.rows(test, folder / "test.bin")
    example.build(folder, net)
    executable = example.build_static(folder)
    weights = sum(4 * tensor.numel() for tensor in net.state_dict().values())
    started = example.start_to_answer(executable, folder)
    library = "musl by ziglang" if has_zig() else "the system's C library"
    print(
        f"digits: {(executable.stat().st_size - weights) / 1e3:.0f} kB with {library}, besides "
        f"{weights / 1e3:.0f} kB of weights; {started:.2f} ms from start to answer"
    )
    x = ad.randn(1, 1, 8, 8)
    in_c, compiled = both(net, (x,), folder, "digits_c", repeats=2000)
    print(f"digits: one image {1e3 * in_c:.0f} us in C, {1e3 * compiled:.0f} us compiled")


def both(
    net: Any,
    args: tuple[Any, ...],
    folder: Path,
    name: str,
    repeats: int,
    weights: str = "embedded",
) -> list[float]:
    """Milliseconds of the C function and of the compiled call, which give the same."""
    program = ad.export.aot(net, args, name=name, weights=weights)
    in_c = c_function(program, folder, [np.ascontiguousarray(x.numpy()) for x in args])
    compiled = ad.compile(net)
    with ad.no_grad():
        wanted = compiled(*args)
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        np.testing.assert_allclose(in_c()[0], first.numpy().ravel(), rtol=1e-3, atol=1e-3)
        return least([in_c, lambda: compiled(*args)], repeats)


def wasm(folder: Path) -> None:
    import wasmtime

    net = network().eval()
    x = ad.randn(IMAGES, 1, 8, 8)
    weights = sum(4 * tensor.numel() for tensor in net.state_dict().values())
    program = ad.export.aot(net, x, name="page", machine="wasm32")
    program.write(folder, "wasm")
    size = (folder / "page.wasm").stat().st_size - weights
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, str(folder / "page.wasm"))
    shown: Any = wasmtime.Instance(store, module, []).exports(store)
    memory, run = shown["memory"], shown["page_run"]
    start = -(-shown["__heap_base"].value(store) // 64) * 64
    arena_bytes = max(program.interface.arena_bytes)
    memory.grow(store, arena_bytes // 65536 + 2)
    memory.write(store, x.numpy().tobytes(), start)
    out = start + 4 * x.numel()
    arena = out + 64 * IMAGES
    native = ad.export.aot(net, x, name="here")
    in_c = c_function(native, folder, [np.ascontiguousarray(x.numpy())])

    def in_wasm() -> None:
        if run(store, start, x.numel(), out, 10 * IMAGES, arena, arena_bytes):
            raise RuntimeError("page_run failed")

    in_wasm()
    outputs = np.frombuffer(memory.read(store, out, out + 40 * IMAGES), np.float32)
    np.testing.assert_allclose(outputs, in_c()[0], rtol=1e-3, atol=1e-4)
    slow, fast = least([in_wasm, in_c], 300)
    print(
        f"wasm: {size / 1e3:.0f} kB besides weights; {IMAGES} images {slow:.2f} ms in wasmtime, "
        f"{fast:.2f} ms in C: {slow / fast:.2f}"
    )


def decode(folder: Path) -> None:
    ad.manual_seed(0)
    model = decoder(ad, 768, 12, 12, 50257).eval()
    keys, values = ad.randn(12, 1, 12, 128, 64), ad.randn(12, 1, 12, 128, 64)
    args = (ad.tensor([[7]]), keys, values)
    in_c, compiled = both(model, args, folder, "decode", repeats=12, weights="file")
    print(f"decode: {in_c:.1f} ms a token in C, {compiled:.1f} ms compiled")


def language(folder: Path) -> None:
    """Bytes of the documentation: the last tenth is what the model has not seen."""
    text = b"\n".join(path.read_bytes() for path in sorted((ROOT / "docs").rglob("*.md")))
    tokens = ad.tensor(list(text))
    split, length = len(text) * 9 // 10, 64
    ad.manual_seed(0)
    config = GPT2Config(256, length, n_embd=128, n_layer=2, n_head=4, dropout=0.0)
    model = GPT2(config)
    optimizer = ad.optim.AdamW(model.parameters(), lr=2e-3)

    @ad.compile
    def step(rows: Any) -> Any:
        scores = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    places = ad.arange(length + 1)
    for _ in range(300):
        step(tokens[ad.randint(0, split - length - 1, (16, 1)) + places])
    model.eval()
    held_out = tokens[
        split + ad.arange(0, len(text) - split - length - 1, length)[:, None] + places
    ]

    def perplexity(module: Any) -> float:
        with ad.no_grad():
            scores = ad.cat([module(rows[:, :-1]) for rows in held_out.split(64)])
        return math.exp(
            nn.functional.cross_entropy(scores.flatten(0, 1), held_out[:, 1:].flatten()).item()
        )

    plain = perplexity(model)
    path = folder / "gpt.safetensors"
    ad.io.safetensors.save_file(model.state_dict(), path)
    print(f"language: perplexity {plain:.3f} in float32")
    for name, how in (
        ("int8", q.Int8WeightOnlyConfig()),
        ("int8 inputs and weights", q.Int8DynamicActivationInt8WeightConfig()),
        ("int4, groups of 128", q.Int4WeightOnlyConfig(128)),
    ):
        few = GPT2(config)
        few.load_state_dict(ad.io.safetensors.load_file(path))
        q.quantize_(few, how)
        changed = perplexity(few.eval())
        print(f"language: perplexity {changed:.3f} in {name}: {100 * (changed / plain - 1):+.2f}%")


def files(folder: Path) -> None:
    """Layers and embeddings in few bits; the output layer is the embedding, which is kept once."""
    model = GPT2(GPT2Config())
    path = folder / "floats.safetensors"
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    ad.io.safetensors.save_file(state, path)
    whole = path.stat().st_size
    print(f"files: {whole / 1e6:.0f} MB in float32")

    def chosen(module: nn.Module, name: str) -> bool:
        layers = isinstance(module, (nn.Linear, nn.Embedding))
        return layers or hasattr(module, "linear_parameters")

    for name, how in (
        ("int8", q.Int8WeightOnlyConfig()),
        ("int4, groups of 128", q.Int4WeightOnlyConfig(128, search=False)),
    ):
        few = copy.deepcopy(model)
        q.quantize_(few, how, chosen)
        q.save_quantized(few, folder / "few.safetensors")
        size = (folder / "few.safetensors").stat().st_size
        print(f"files: {size / 1e6:.0f} MB in {name}: {whole / size:.2f} times smaller")


PARTS: dict[str, Callable[[Path], None]] = {
    "digits": digits,
    "wasm": wasm,
    "decode": decode,
    "language": language,
    "files": files,
}


def main(chosen: Sequence[str]) -> None:
    """Measure the parts chosen, all by themselves."""
    ad.set_num_threads(1)
    for name in chosen or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
