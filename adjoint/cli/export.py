"""`adjoint export model.py --to c`: a program from what a Python file defines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from adjoint.cli import torch_alias
from adjoint.cli.run import check_readable, execute
from adjoint.engine.core.arguments import Parser
from adjoint.export.output.machines import DESTINATIONS, NATIVE, PORTABLE

# What is written -> the machine it is for, unless another is named.
TO = {"c": PORTABLE, "o": NATIVE, "so": NATIVE, "ll": NATIVE, "wasm": "wasm32", "onnx": ""}


def export(argv: Sequence[str]) -> int:
    """Run the file, export its `model` with its `args`, and list what was written."""
    chosen = parser().parse_args(list(argv))
    check_readable(chosen.file)
    torch_alias.install()
    before = sys.modules.get("__main__")
    try:
        execute(Path(chosen.file), [chosen.file])
        script: Any = sys.modules["__main__"]
    finally:
        if before is not None:
            sys.modules["__main__"] = before
    model, args = (_attribute(script, chosen, name) for name in (chosen.model, chosen.args))
    dynamic = getattr(script, "dynamic", None)
    folder = Path(chosen.out)
    for path in _write(chosen, model, args, dynamic, folder):
        print(f"{path} ({path.stat().st_size} bytes)")
    return 0


def _write(
    chosen: argparse.Namespace, model: Any, args: Any, dynamic: Any, folder: Path
) -> list[Path]:
    if chosen.to == "onnx":
        from adjoint.onnx import export as to_onnx

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{chosen.name}.onnx"
        to_onnx(model, args, str(path), dynamic=_dims(dynamic))
        return [path]
    from adjoint.export.ahead import aot

    exported = aot(
        model,
        args,
        name=chosen.name,
        machine=chosen.machine or TO[chosen.to],
        weights=chosen.weights,
        threads=chosen.threads,
        dynamic=dynamic,
    )
    return exported.write(folder, chosen.to)


def _dims(dynamic: Any) -> Any:
    """Dynamic sizes without their ranges, which ONNX has not."""
    if not dynamic:
        return None
    return {
        name: {d: said[0] if isinstance(said, tuple) else said for d, said in dims.items()}
        for name, dims in dynamic.items()
    }


def _attribute(script: ModuleType, chosen: argparse.Namespace, name: str) -> Any:
    if not hasattr(script, name):
        raise ValueError(
            f"{chosen.file} defines no {name!r}. It defines `model`, a module or function, and "
            "`args`, its example arguments; --model and --args give other names."
        )
    return getattr(script, name)


def parser() -> argparse.ArgumentParser:
    """What `adjoint export` takes."""
    options = Parser(prog="adjoint export", description="A model for where Python is not.")
    options.add_argument(
        "file", help="a Python file that defines `model` and `args`, an example of its arguments"
    )
    options.add_argument("--to", required=True, choices=list(TO), help="the format to write")
    options.add_argument("--out", default=".", help="the folder to write to (this one)")
    options.add_argument("--name", default="model", help="prefix of functions and files (model)")
    options.add_argument("--model", default="model", help="the name of the model in the file")
    options.add_argument("--args", default="args", help="the name of its arguments in the file")
    options.add_argument(
        "--machine", choices=[NATIVE, *DESTINATIONS], help="the processor to make code for"
    )
    options.add_argument(
        "--weights",
        default="embedded",
        choices=["embedded", "file"],
        help="inside the program (the default), or in a file beside it",
    )
    options.add_argument(
        "--threads", action="store_true", help="calls can use a pool of worker threads"
    )
    return options
