"""Libraries that come with an extra of the package: imported when used, named when missing."""

from __future__ import annotations

import importlib
from typing import Any

# What is imported -> the extra that installs it.
EXTRAS = {
    "PIL": "images",
    "matplotlib": "plot",
    "tensorboard": "tensorboard",
    "tokenizers": "tokenizers",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "gguf": "gguf",
}


class MissingLibrary(ModuleNotFoundError):
    """A library of an extra is needed and not installed; the message says how to install it."""


def find(library: str) -> Any:
    """A library, or None where it is not installed.

    >>> find("no_such_library") is None
    True
    """
    top = library.split(".", maxsplit=1)[0]
    try:
        importlib.import_module(top)
    except ModuleNotFoundError as error:
        if error.name != top:
            raise  # it is there, and something it needs is not
        return None
    return importlib.import_module(library)


def need(library: str, who: str) -> Any:
    """A library, or an error that says who needs it and how to get it."""
    module = find(library)
    if module is None:
        top = library.split(".", maxsplit=1)[0]
        raise MissingLibrary(
            f"{who} needs {top}, which is not installed. Install it with "
            f"`pip install adjoint[{EXTRAS[top]}]`.",
            name=top,
        )
    return module
