"""Reading a model from an ONNX file."""

from __future__ import annotations

from typing import Any

from adjoint.onnx.module import OnnxModule
from adjoint.onnx.reading import read_model


def load(source: Any) -> OnnxModule:
    """A model from an ONNX file (a path, or open), its bytes or its message, as a module.

    It trains and compiles as others do. Nothing outside the file's folder is read, and nothing is
    executed but the operators of ONNX.
    """
    model, folder = read_model(source)
    return OnnxModule(model, folder)
