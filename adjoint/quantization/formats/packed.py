"""GPTQ and AWQ checkpoints: whole numbers packed in int32, and a config that says how.

    GPTQ  qweight (in / n, out), n numbers of a column in each; qzeros (in / group, out / n), less 1
    AWQ   qweight (in, out / 8), eight numbers of a row in each, in the order 0 2 4 6 1 3 5 7

Both have `scales` (in / group, out). Groups of neighbours are kept as they are in a
WeightOnlyLinear; those of GPTQ's activation order are brought together, and inputs are put in the
same order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, read_json_object
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.safetensors import load_file
from adjoint.quantization.formats.replacing import replaced, submodule
from adjoint.quantization.modules.weight_only import WeightOnlyLinear
from adjoint.quantization.weights import GroupedWeight, pack

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
PARTS = ("qweight", "qzeros", "scales", "g_idx")


def unpack(words: Any, bits: int, axis: int) -> Any:
    """Numbers of some bits from int32, the lowest first, along an axis.

    >>> unpack(np.array([[0x21]], np.int32), 4, 1)[:, :3]
    array([[1, 2, 0]], dtype=uint8)
    """
    count = 32 // bits
    shifts = np.arange(count, dtype=np.uint32) * bits
    wide = words.view(np.uint32)
    numbers = (np.expand_dims(wide, -1) >> shifts) & ((1 << bits) - 1)
    shape = list(words.shape)
    shape[axis] *= count
    return np.moveaxis(numbers, -1, axis + 1).reshape(shape).astype(np.uint8)


def gptq_weight(
    tensors: dict[str, Any], bits: int, group: int, plus_one: bool
) -> tuple[GroupedWeight, Tensor | None]:
    """The weight of a GPTQ layer, and the order of its inputs if that is not theirs."""
    numbers = unpack(tensors["qweight"], bits, 0).T  # (out, in)
    zeros = unpack(tensors["qzeros"], bits, 1).T  # (out, groups)
    if plus_one:
        zeros = (zeros + 1) & ((1 << bits) - 1)
    features = numbers.shape[1]
    places = np.asarray(tensors.get("g_idx", np.arange(features) // group))
    order = None
    if not (places == np.arange(features) // group).all():
        order_of_groups = np.argsort(places, kind="stable")
        if not (places[order_of_groups] == np.arange(features) // group).all():
            raise ValueError(f"groups of other sizes than {group}")
        numbers, order = numbers[:, order_of_groups], ad.tensor(order_of_groups.astype(np.int64))
    return _grouped(numbers, zeros, tensors["scales"], bits, group), order


def awq_weight(tensors: dict[str, Any], bits: int, group: int) -> GroupedWeight:
    """The weight of an AWQ layer."""
    if bits != 4:
        raise ValueError(f"AWQ of {bits} bits")
    back = np.argsort(AWQ_ORDER)

    def ordered(words: Any) -> Any:
        numbers = unpack(words, bits, 1)
        return numbers.reshape(len(numbers), -1, 8)[..., back].reshape(numbers.shape)

    numbers, zeros = ordered(tensors["qweight"]).T, ordered(tensors["qzeros"]).T
    return _grouped(numbers, zeros, tensors["scales"], bits, group)


def _grouped(numbers: Any, zeros: Any, scales: Any, bits: int, group: int) -> GroupedWeight:
    scale = np.ascontiguousarray(np.asarray(scales).T.astype(np.float32))
    if zeros.shape != scale.shape or scale.shape != (len(numbers), numbers.shape[1] // group):
        raise ValueError(
            f"numbers {numbers.shape}, zero points {zeros.shape} and scales {scale.shape} in "
            f"groups of {group} do not fit together"
        )
    numbers, zeros = np.ascontiguousarray(numbers), np.ascontiguousarray(zeros)
    if bits == 4:
        return GroupedWeight(pack(ad.tensor(numbers)), ad.tensor(scale), ad.tensor(zeros), 4, group)
    moved = [(x.astype(np.int16) - 128).astype(np.int8) for x in (numbers, zeros)]
    return GroupedWeight(ad.tensor(moved[0]), ad.tensor(scale), ad.tensor(moved[1]), 8, group)


def _config(folder: Path) -> dict[str, Any]:
    for name in ("config.json", "quantize_config.json"):
        path = folder / name
        if path.is_file():
            data = path.read_bytes()
            about = read_json_object(data, Budget(len(data), f"load_packed: {path}"))
            config = about.get("quantization_config", about)
            if isinstance(config, dict) and "bits" in config:
                return config
    raise FileError(
        f"load_packed: {folder} has no quantization_config in config.json, nor quantize_config.json"
    )


def load_packed(model: nn.Module, folder: str | os.PathLike[str]) -> nn.Module:
    """Read a GPTQ or AWQ checkpoint into a model of the same architecture, in place.

    Linear layers that the files hold packed become layers of 4 or 8 bits with the same numbers; all
    other tensors are loaded under their names.
    """
    path = Path(folder)
    about = _config(path)
    method, bits = about.get("quant_method", "gptq"), about["bits"]
    group = about.get("group_size", -1)
    sound = type(bits) is int and type(group) is int and (group == -1 or 0 < group < 1 << 31)
    if method not in ("gptq", "awq") or bits not in (4, 8) or not sound:
        raise NotImplementedError(
            f"load_packed: GPTQ of 4 and 8 bits and AWQ of 4 are read; {path} has {method!r} with "
            f"{bits!r} bits and groups of {group!r}"
        )
    plus_one = about.get("checkpoint_format", "gptq") != "gptq_v2"
    parts: dict[str, dict[str, Any]] = {}
    rest: dict[str, Tensor] = {}
    for file in sorted(path.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            prefix, _, last = name.rpartition(".")
            if last in PARTS:
                parts.setdefault(prefix, {})[last] = tensor.numpy()
            else:
                rest[name] = tensor
    layers = {
        name: _layer(model, name, own, rest, method, bits, group, plus_one)
        for name, own in parts.items()
    }
    for name, layer in layers.items():
        rest |= {f"{name}.{key}": value for key, value in layer.state_dict().items()}
    with replaced(model, layers, f"load_packed: {path}"):
        model.load_state_dict(rest)
    return model


def _layer(
    model: nn.Module,
    name: str,
    own: dict[str, Any],
    rest: dict[str, Tensor],
    method: str,
    bits: int,
    group: int,
    plus_one: bool,
) -> nn.Module:
    module = submodule(model, name, "load_packed")
    if not isinstance(module, nn.Linear):
        raise RuntimeError(
            f"load_packed: {name!r} is packed in the file, and a {type(module).__name__} in the "
            "model"
        )
    features = module.in_features
    try:
        for part in ("qweight", "qzeros"):
            if own[part].dtype != np.int32 or own[part].ndim != 2:
                raise ValueError(f"{part} of {own[part].dtype}, {own[part].shape}")
        size = features if group == -1 else group
        order = None
        if method == "gptq":
            grouped, order = gptq_weight(own, bits, size, plus_one)
        else:
            grouped = awq_weight(own, bits, size)
        converted = WeightOnlyLinear(grouped, rest.pop(f"{name}.bias", None), order)
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise FileError(f"load_packed: damaged or unknown layer {name!r}: {error}") from error
    have, want = (converted.out_features, converted.in_features), (module.out_features, features)
    if have != want:
        raise FileError(f"load_packed: {name!r} is {have} in the file, {want} in the model")
    return converted
