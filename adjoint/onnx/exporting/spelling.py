"""PyTorch's words for an export: modes, and options that mean something else or nothing here."""

from __future__ import annotations

from enum import Enum
from typing import Any

from adjoint.nn.modules.module import Module


class TrainingMode(Enum):
    """The mode that a model is exported in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """What becomes of operations that have no form; here all are listed and refused."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


# Options that say how PyTorch's exporter goes about it; the model is the same either way.
NO_MATTER = frozenset(
    {"optimize", "autograd_inlining", "fallback", "artifacts_dir", "operator_export_type"}
)
# Options that ask for more than a model when they are on, and why they are refused.
REFUSED = {
    "report": "the error lists what has no form",
    "profile": "adjoint.profiler says where time goes",
    "dump_exported_program": "adjoint.export.save writes a program",
    "keep_initializers_as_inputs": "weights are no inputs",
    "export_modules_as_functions": "nodes name their modules in their metadata",
    "custom_translation_table": "operations are written in those of ONNX itself",
    "custom_opsets": "operations are written in those of ONNX itself",
}


def check_options(options: dict[str, Any]) -> None:
    """Refuse options that nobody knows, and those that would be left undone."""
    for name, value in options.items():
        if name in REFUSED and value:
            raise NotImplementedError(
                f"onnx.export: {name}={value!r} is not supported; {REFUSED[name]}."
            )
        if name not in REFUSED and name not in NO_MATTER:
            raise TypeError(f"onnx.export: got an unexpected keyword argument {name!r}.")


def in_training(training: Any, model: Any) -> bool | None:
    """Whether a model is put in training mode; None to leave every part of it as it is."""
    if _is_program(model) or training is TrainingMode.PRESERVE:
        return None
    return training is TrainingMode.TRAINING or training is True


def _is_program(model: Any) -> bool:
    """Whether it is what `adjoint.export.export` gives, whose mode is settled."""
    return not isinstance(model, Module) and hasattr(model, "graph_signature")


def called(model: Any, args: Any) -> tuple[Any, Any]:
    """What is recorded and its arguments: an exported program is the module that runs it."""
    if not _is_program(model):
        return model, args
    examples, _ = model.example_inputs or ((), {})
    return model.module(), args or examples


_UNDER_WAY: list[Any] = []


class UnderWay:
    """While an export records its model."""

    def __enter__(self) -> None:
        _UNDER_WAY.append(self)

    def __exit__(self, *_: object) -> None:
        _UNDER_WAY.remove(self)


def is_in_onnx_export() -> bool:
    """Whether a model is recorded for ONNX at the moment.

    >>> is_in_onnx_export()
    False
    """
    return bool(_UNDER_WAY)
