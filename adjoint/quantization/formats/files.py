"""Quantised models in files: safetensors with plain tensors, and metadata that names the layers.

The metadata's entry `adjoint.quantization` is a JSON object: `format` (1), `layers`, from the name
of a module to its kind and options, and `shared`, from the name of a tensor that several modules
have to the name it is stored under.
"""

from __future__ import annotations

import json
import os
from typing import Any

from adjoint import nn
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, read_json_object
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.safetensors import load_file, load_metadata, save_file
from adjoint.quantization.formats.replacing import replaced, submodule
from adjoint.quantization.modules.kept import KINDS, Kept

KEY = "adjoint.quantization"
FORMAT = 1


def save_quantized(
    model: nn.Module, path: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Write a model, quantised layers and all, to a .safetensors file.

    Example:
        >>> import adjoint as ad, os, tempfile
        >>> from adjoint.quantization import Int8WeightOnlyConfig, quantize_
        >>> model, other = nn.Sequential(nn.Linear(8, 2)), nn.Sequential(nn.Linear(8, 2))
        >>> quantize_(model, Int8WeightOnlyConfig())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     save_quantized(model, path)
        ...     _ = load_quantized(other, path)
        >>> bool((other(ad.ones(8)) == model(ad.ones(8))).all())
        True
    """
    layers: dict[str, Any] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        inside = any(name.startswith(f"{outer}.") for outer in layers)  # theirs to write
        if isinstance(module, Kept) and not inside:
            layers[name] = {"kind": module.kind, **module.options()}
    tensors: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    names: dict[Any, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"save_quantized: {name!r} is a {type(tensor).__name__}, no tensor")
        first = names.setdefault(id(tensor), name)
        if first == name:
            tensors[name] = tensor
        else:
            shared[name] = first
    about = {"format": FORMAT, "layers": layers, "shared": shared}
    save_file(tensors, path, {**(metadata or {}), KEY: json.dumps(about)})


def load_quantized(model: nn.Module, path: str | os.PathLike[str]) -> nn.Module:
    """Read such a file into a model of the same architecture, whose layers become the file's.

    The model may be freshly made, in floats; it is changed in place, and given back.
    """
    source = os.fspath(path)
    about = _about(load_metadata(path), source)
    tensors = load_file(path)
    for name, stored in about["shared"].items():
        if stored not in tensors or name in tensors:
            raise FileError(f"load_quantized: {source}: {name!r} shares {stored!r}, damaged")
        tensors[name] = tensors[stored]
    layers: dict[str, nn.Module] = {}
    for name, options in about["layers"].items():
        layers[name] = _layer(name, dict(options), model, tensors, source)
    with replaced(model, layers, f"load_quantized: {source}"):
        model.load_state_dict(tensors)
    return model


def _about(metadata: dict[str, str], source: str) -> dict[str, Any]:
    if KEY not in metadata:
        raise FileError(
            f"load_quantized: {source} does not say how it is quantised (no {KEY!r} in its "
            "metadata). Was it written by save_quantized?"
        )
    text = metadata[KEY].encode()
    about = read_json_object(text, Budget(len(text), f"load_quantized: {source}: {KEY}"))
    if about.get("format") != FORMAT:
        raise FileError(
            f"load_quantized: {source} is of format {about.get('format')!r}, this version of "
            f"Adjoint reads {FORMAT}"
        )
    layers, shared = about.get("layers"), about.get("shared")
    if (
        not isinstance(layers, dict)
        or not isinstance(shared, dict)
        or not all(isinstance(options, dict) for options in layers.values())
        or not all(isinstance(stored, str) for stored in shared.values())
    ):
        raise FileError(f"load_quantized: {source}: damaged description of its layers")
    return about


def _layer(
    name: str, options: dict[str, Any], model: nn.Module, tensors: dict[str, Tensor], source: str
) -> Kept:
    kind = options.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise FileError(f"load_quantized: {source}: {name!r} is of unknown kind {str(kind)[:80]!r}")
    own = {
        key.removeprefix(f"{name}."): value
        for key, value in tensors.items()
        if key.startswith(f"{name}.")
    }
    try:
        return KINDS[kind].in_place_of(submodule(model, name, kind), own, **options)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        raise FileError(
            f"load_quantized: {source}: cannot make {name!r}, a {kind}, of what the file holds: "
            f"{error}"
        ) from error
