"""Write the API reference: a page per public module, from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
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
    "adjoint.io": "adjoint.io",
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


def entry(name: str, value: Any) -> str:
    """One function or class: its signature and docstring."""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = "(...)"
    text = textwrap.dedent(inspect.getdoc(value) or "")
    body = textwrap.indent(text, "    ")
    return f"## `{name}`\n\n```text\n{name}{signature}\n\n{body}\n```\n"


def public_names(module: ModuleType) -> list[str]:
    """The documented callables of a module, in alphabetical order."""
    found = []
    for name in sorted(dir(module)):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        if callable(value) and not inspect.ismodule(value) and inspect.getdoc(value):
            found.append(name)
    return found


def tensor_page(tensor: type) -> str:
    """Tensor's methods and properties."""
    parts = ["# adjoint.Tensor\n"]
    for name in sorted(n for n in dir(tensor) if not n.startswith("_")):
        value = inspect.getattr_static(tensor, name)
        if isinstance(value, property):
            parts.append(f"## `{name}`\n\n```text\n{inspect.getdoc(value) or ''}\n```\n")
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
