"""A training step of transformers' models under `adjoint run`, eager and compiled, beside PyTorch.

    python benchmarks/ecosystem.py --ours PYTHON --theirs PYTHON [--repeats 10] [name ...]

`--ours` is a Python with transformers and without PyTorch, `--theirs` one that has both. Each model
runs in a process of its own on one thread; the least time of the repeats is told, by the
processor's clock. Losses of the two are not compared here: `tests/ecosystem` does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("bert", "gpt2", "llama", "qwen2", "mistral", "t5", "vit", "whisper")
SIZES = {
    "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip


def model_and_inputs(name: str, torch: Any, library: Any) -> tuple[Any, dict[str, Any]]:
    """A small model and a batch for it."""
    ids = torch.arange(8 * 32).reshape(8, 32) % 1000
    words = {"input_ids": ids, "labels": ids}
    classes = torch.arange(8) % 2
    heads = {"num_key_value_heads": 2}
    match name:
        case "bert":
            made = library.BertForSequenceClassification(library.BertConfig(**SIZES))
            return made, {"input_ids": ids, "labels": classes}
        case "gpt2":
            sizes = {"vocab_size": 1000, "n_embd": 128, "n_layer": 2, "n_head": 4}
            return library.GPT2LMHeadModel(library.GPT2Config(**sizes, n_positions=64)), words
        case "llama":
            return library.LlamaForCausalLM(library.LlamaConfig(**SIZES, **heads)), words
        case "qwen2":
            return library.Qwen2ForCausalLM(library.Qwen2Config(**SIZES, **heads)), words
        case "mistral":
            return library.MistralForCausalLM(library.MistralConfig(**SIZES, **heads)), words
        case "t5":
            sizes = {"vocab_size": 1000, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2}
            config = library.T5Config(**sizes, num_heads=4, decoder_start_token_id=0)
            return library.T5ForConditionalGeneration(config), words
        case "vit":
            config = library.ViTConfig(
                hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                image_size=32, patch_size=8,
            )  # fmt: skip
            pictures = torch.ones(8, 3, 32, 32)
            made = library.ViTForImageClassification(config)
            return made, {"pixel_values": pictures, "labels": classes}
        case "whisper":
            config = library.WhisperConfig(
                vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=2, num_mel_bins=8,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
                decoder_ffn_dim=256, max_source_positions=32, max_target_positions=32,
                pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
            )  # fmt: skip
            made = library.WhisperForConditionalGeneration(config)
            return made, {"input_features": torch.ones(8, 8, 64), "labels": ids}
    raise ValueError(f"no model is called {name}; there are {', '.join(NAMES)}")


def measure(name: str, compiled: bool, repeats: int) -> float:
    """Milliseconds of processor time of one step: forward, backward, AdamW."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    model, inputs = model_and_inputs(name, torch, importlib.import_module("transformers"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    call = torch.compile(model) if compiled else model

    def step() -> None:
        optimizer.zero_grad()
        call(**inputs).loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times) * 1e3


def ask(command: list[str], path: str, name: str, kind: str, repeats: int) -> float | str:
    """What another Python measures, or the last line of its error."""
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    line = [*command, __file__, "--worker", name, kind, "--repeats", str(repeats)]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    for told in done.stdout.splitlines():
        if told.startswith("RESULT "):
            return float(json.loads(told.removeprefix("RESULT ")))
    return (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:60]


def main() -> int:
    """Measure, and print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours")
    parser.add_argument("--theirs")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--worker", nargs=2, metavar=("NAME", "KIND"))
    parser.add_argument("name", nargs="*", default=list(NAMES))
    given = parser.parse_args()
    if given.worker:
        name, kind = given.worker
        print("RESULT", json.dumps(measure(name, kind == "compiled", given.repeats)))
        return 0
    if not given.ours or not given.theirs:
        parser.error("--ours and --theirs say which Pythons to use")
    ours, theirs = [given.ours, "-m", "adjoint.cli", "run"], [given.theirs]
    print(f"{'ms of a step':14s} {'eager':>10s} {'compiled':>10s} {'PyTorch':>10s}")
    for name in given.name:
        row = [
            ask(ours, str(ROOT), name, "eager", given.repeats),
            ask(ours, str(ROOT), name, "compiled", given.repeats),
            ask(theirs, "", name, "eager", given.repeats),
        ]
        cells = (f"{x:10.1f}" if isinstance(x, float) else f" {x}" for x in row)
        print(f"{name:14s} {' '.join(cells)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
