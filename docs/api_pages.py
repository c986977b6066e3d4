"""Write the API reference: a page per public module, from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

# Module -> title. A module that is not there (an optional part) is left out.
MODULES = {
    "adjoint": "adjoint",
    "adjoint.autograd": "adjoint.autograd",
    "adjoint.func": "adjoint.func",
    "adjoint.linalg": "adjoint.linalg",
    "adjoint.fft": "adjoint.fft",
    "adjoint.special": "adjoint.special",
    "adjoint.masked": "adjoint.masked",
    "adjoint.signal.windows": "adjoint.signal.windows",
    "adjoint.random": "adjoint.random",
    "adjoint.cuda": "adjoint.cuda",
    "adjoint.graph": "adjoint.graph",
    "adjoint.profiler": "adjoint.profiler",
    "adjoint.debug": "adjoint.debug",
    "adjoint.errors": "adjoint.errors",
    "adjoint.sparse": "adjoint.sparse",
    "adjoint.library": "adjoint.library",
    "adjoint.fx": "adjoint.fx",
    "adjoint.nn": "adjoint.nn",
    "adjoint.nn.functional": "adjoint.nn.functional",
    "adjoint.nn.init": "adjoint.nn.init",
    "adjoint.nn.utils": "adjoint.nn.utils",
    "adjoint.optim": "adjoint.optim",
    "adjoint.optim.lr_scheduler": "adjoint.optim.lr_scheduler",
    "adjoint.amp": "adjoint.amp",
    "adjoint.utils.data": "adjoint.utils.data",
    "adjoint.data.transforms": "adjoint.data.transforms",
    "adjoint.datasets": "adjoint.datasets",
    "adjoint.data": "adjoint.data",
    "adjoint.data.readers": "adjoint.data.readers",
    "adjoint.io": "adjoint.io",
    "adjoint.onnx": "adjoint.onnx",
    "adjoint.export": "adjoint.export",
    "adjoint.quantization": "adjoint.quantization",
    "adjoint.io.safetensors": "adjoint.io.safetensors",
    "adjoint.distributions": "adjoint.distributions",
    "adjoint.metrics": "adjoint.metrics",
    "adjoint.training": "adjoint.training",
    "adjoint.models": "adjoint.models",
    "adjoint.testing": "adjoint.testing",
    "adjoint.hub": "adjoint.hub",
    "adjoint.multiprocessing": "adjoint.multiprocessing",
    "adjoint.distributed": "adjoint.distributed",
    "adjoint.vision.datasets": "adjoint.vision.datasets",
    "adjoint.vision.transforms": "adjoint.vision.transforms",
    "adjoint.vision.utils": "adjoint.vision.utils",
    "adjoint.vision.ops": "adjoint.vision.ops",
}


SECTIONS = (
    "Args",
    "Returns",
    "Raises",
    "Shape",
    "Example",
    "Examples",
    "Note",
    "Yields",
    "Attributes",
)


def fenced(lines: list[str], language: str) -> list[str]:
    return [f"```{language}", *textwrap.dedent("\n".join(lines)).strip().splitlines(), "```", ""]


def blocks(lines: list[str]) -> list[str]:
    """Prose as it is; examples, with what they print, as Python."""
    found: list[str] = []
    example: list[str] = []
    for line in [*lines, ""]:
        if line.lstrip().startswith(">>>") or (example and line.strip()):
            example.append(line)
            continue
        if example:
            found += ["", *fenced(example, "python")]
            example = []
        found.append(line)
    return found


def described(text: str) -> str:
    """A docstring as Markdown: arguments as a list, examples as code."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        if line.rstrip().removesuffix(":") in SECTIONS and line.rstrip().endswith(":"):
            sections.append((line.rstrip().removesuffix(":"), []))
        else:
            sections[-1][1].append(line)
    parts: list[str] = []
    for title, lines in sections:
        body = textwrap.dedent("\n".join(lines)).strip("\n").splitlines()
        if title:
            parts += ["", f"**{title}**", ""]
        if title in ("Args", "Raises", "Attributes"):
            for line in body:
                name, colon, rest = line.partition(":")
                named = colon and not line.startswith(" ")
                parts.append(f"- `{name}`: {rest.strip()}" if named else f"  {line.strip()}")
        else:
            parts += blocks(body)
    return "\n".join(parts).strip()


def entry(name: str, value: Any) -> str:
    """One function or class: its signature and docstring."""
    try:
        signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    except (TypeError, ValueError):
        signature = "(...)"
    text = described(inspect.getdoc(value) or "")
    return f"## `{name}`\n\n```python\n{name}{signature}\n```\n\n{text}\n"


def public_names(module: ModuleType) -> list[str]:
    """The documented callables of a module that are ours, in alphabetical order."""
    found = []
    for name in sorted(dir(module)):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        ours = str(getattr(value, "__module__", "") or "").startswith("adjoint")
        if ours and callable(value) and not inspect.ismodule(value) and inspect.getdoc(value):
            found.append(name)
    return found


def tensor_page(tensor: type) -> str:
    """Tensor's methods and properties."""
    parts = ["# adjoint.Tensor\n"]
    for name in sorted(n for n in dir(tensor) if not n.startswith("_")):
        value = inspect.getattr_static(tensor, name)
        if isinstance(value, property):
            parts.append(f"## `{name}`\n\n{described(inspect.getdoc(value) or '')}\n")
        elif callable(value) and value.__doc__:
            parts.append(entry(name, value))
    return "\n".join(parts)


def write_pages(folder: Path) -> None:
    """Write all pages and their index."""
    folder.mkdir(exist_ok=True)
    listed = ["tensor"]
    adjoint = importlib.import_module("adjoint")
    (folder / "tensor.md").write_text(tensor_page(adjoint.Tensor))
    for path, title in MODULES.items():
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError:
            continue
        names = public_names(module)
        intro = (inspect.getdoc(module) or "").splitlines()[:1]
        pages = [f"# {title}\n", *intro, ""]
        pages += [entry(n, getattr(module, n)) for n in names]
        (folder / f"{path}.md").write_text("\n".join(pages))
        listed.append(path)
    toc = "\n".join(listed)
    (folder / "index.md").write_text(f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{toc}\n```\n")
