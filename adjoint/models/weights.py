"""Published weights: finding them in a folder, and making a model of them.

A folder is as its publisher laid it out: a `config.json` and `model.safetensors`, alone or in
pieces with an index, or `pytorch_model.bin`. Models take the names in such files by themselves:
`load_state_dict` of each knows its own variants.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from adjoint import nn
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, read_json_object
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.files import load
from adjoint.models.configuration import made_for_loading

M = TypeVar("M", bound=nn.Module)

# In the order they are looked for.
FILES = (
    "model.safetensors",
    "pytorch_model.bin",
    "consolidated.00.pth",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
)
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file's object."""
    data = path.read_bytes()
    return read_json_object(data, Budget(len(data), f"from_pretrained: {path}"))


def read_weights(source: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name: a file, or a folder with one or several.

    Files are mapped, not read: elements come from the disk when they are copied into a model.

    Args:
        source: a `.safetensors`, `.bin`, `.pt` or `.pth` file, or a folder that has
            `model.safetensors` or `pytorch_model.bin`, in one piece or several with an index.

    Example:
        >>> import adjoint as ad, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.save({"w": ad.ones(2)}, f"{folder}/model.safetensors")
        ...     read_weights(folder)
        {'w': tensor([1., 1.])}
    """
    path = Path(source)
    if not path.is_dir():
        return _read_file(path)
    for name in FILES:
        if (path / name).is_file():
            if (path / "consolidated.01.pth").is_file():
                raise FileError(
                    f"read_weights: {path} has the weights cut for several devices "
                    "(consolidated.01.pth); join them first"
                )
            return _read_file(path / name)
    for name in INDICES:
        if (path / name).is_file():
            pieces = _pieces(path / name)
            return {k: v for piece in pieces for k, v in _read_file(path / piece).items()}
    raise FileNotFoundError(f"read_weights: {path} has none of {', '.join((*FILES, *INDICES))}")


def _pieces(index: Path) -> list[str]:
    """The files an index names, all of them beside it."""
    places = read_json(index).get("weight_map")
    names: list[Any] = list(places.values()) if isinstance(places, dict) else [None]
    if not all(isinstance(name, str) and _is_name(name) for name in names):
        raise FileError(f"read_weights: {index}: damaged: weight_map must name files beside it")
    return sorted(set(names))


def _is_name(text: str) -> bool:
    """Whether a text can be the name of a file in the folder it is read from."""
    short = 0 < len(text.encode("utf-8", "replace")) <= 255 and text.isprintable()
    return short and Path(text).name == text and text != ".."


def _read_file(path: Path) -> dict[str, Tensor]:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"PK"  # files from before PyTorch 1.6 cannot be mapped
    content = load(path, map_location="cpu", mmap=zipped or path.suffix == ".safetensors")
    if not isinstance(content, Mapping):
        raise FileError(f"read_weights: {path} is no state dict but a {type(content).__name__}")
    content = content.get("state_dict", content)  # where training tools put it
    odd = [k for k, v in content.items() if not isinstance(v, Tensor)]
    if odd:
        raise FileError(f"read_weights: {path} is no state dict: {odd[:3]} are not tensors")
    return dict(content)


def build(
    make: Callable[[], M],
    weights: Mapping[str, Tensor],
    dtype: DType | None = None,
    besides: int = 0,
) -> M:
    """A model with these weights, ready to be used (in evaluation mode).

    The weights bound what is made (see `made_for_loading`).

    What the model needs and the weights lack is an error; what it has no place for, such as the
    head another task was trained with, a warning. Both name every key.
    """
    shapes = [tuple(tensor.shape) for tensor in weights.values()]
    with made_for_loading(shapes, dtype, besides):
        model = make()
    result = model.load_state_dict(weights, strict=False)
    name = type(model).__name__
    if result.missing_keys:
        raise RuntimeError(
            f"{name}: the weights lack {len(result.missing_keys)} keys: "
            f"{', '.join(result.missing_keys)}. Left over: "
            f"{', '.join(result.unexpected_keys) or 'nothing'}"
        )
    if result.unexpected_keys:
        warnings.warn(
            f"{name}: not used of the weights: {', '.join(result.unexpected_keys)}", stacklevel=3
        )
    return model.eval()
