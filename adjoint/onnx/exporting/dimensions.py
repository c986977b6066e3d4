"""Which dimensions may change, from each of the ways to say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adjoint.engine.core.errors import ShapeIndexError
from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.exporting.recording import Dims, ExampleArguments

AUTO = " if the model allows it"  # how the label of a dimension ends that may turn out fixed


def dynamic_dims(dynamic: Any, given: ExampleArguments) -> Dims:
    """Which dimensions may change, by the call's tensors."""
    open_dims: Dims = {}
    for position, dims in _by_tensor(dynamic, given) if dynamic else ():
        if position >= len(given.tensors):
            raise ValueError(
                f"onnx.export: dynamic dimensions of input {position}; there are "
                f"{len(given.tensors)}."
            )
        name, rank = given.names[position], given.examples[position].ndim
        for dim, label in _labels(dims, name):
            if not -rank <= dim < rank:
                raise ShapeIndexError(
                    f"onnx.export: dimension {dim} of input {name!r}, which has {rank}."
                )
            own = f"{name}_dim_{dim % rank}"
            open_dims.setdefault(position, {})[dim % rank] = (
                own + label if label == AUTO else (label or own)
            )
    return open_dims


def _by_tensor(dynamic: Any, given: ExampleArguments) -> list[tuple[int, Any]]:
    """What is said of each tensor: by inputs' names, by parameters' names, or in order."""
    if isinstance(dynamic, Mapping):
        dynamic = _of_several(dynamic, dict(given.parameters))
        of_parameters = dynamic.keys() <= dict(given.parameters).keys()
        if not of_parameters or dynamic.keys() <= set(given.names):
            return _by_name(dynamic, given)
        arguments = given.parameters
        said = [dynamic.get(name) for name, _ in arguments]
    else:
        arguments, said = given.parameters, list(dynamic)
        nested = any(not isinstance(value, Tensor) for _, value in arguments)
        if len(said) != len(arguments) or not nested:
            return list(enumerate(said))
    spread = [
        entry
        for shapes, (_, value) in zip(said, arguments, strict=True)
        for entry in _spread(shapes, value)
    ]
    return list(enumerate(spread))


def _of_several(dynamic: Mapping[Any, Any], parameters: Mapping[str, Any]) -> dict[Any, Any]:
    """What is said of a parameter `*args`, to each that it stands for."""
    spread: dict[Any, Any] = {}
    for name, said in dynamic.items():
        if name not in parameters and f"{name}_0" in parameters and isinstance(said, (list, tuple)):
            spread |= {f"{name}_{place}": part for place, part in enumerate(said)}
        else:
            spread[name] = said
    return spread


def _by_name(dynamic: Mapping[Any, Any], given: ExampleArguments) -> list[tuple[int, Any]]:
    """Names of inputs; those of outputs may be among them, whose sizes follow."""
    stray = [name for name in dynamic if name not in given.names]
    if len(stray) == len(dynamic) or any(not isinstance(name, str) for name in stray):
        raise ValueError(
            f"onnx.export: dynamic dimensions of {stray}; the inputs are {given.names}."
        )
    return [(given.names.index(name), dims) for name, dims in dynamic.items() if name not in stray]


def _spread(said: Any, value: Any) -> Iterator[Any]:
    """What is said of an argument, for each tensor in it."""
    if isinstance(value, Tensor):
        yield said
    elif isinstance(value, Mapping) and isinstance(said, Mapping):
        for key, item in value.items():
            yield from _spread(said.get(key), item)
    elif isinstance(value, (list, tuple)) and isinstance(said, (list, tuple)):
        if len(said) != len(value):
            raise ValueError(
                f"onnx.export: dynamic dimensions of {len(said)} where an argument has "
                f"{len(value)}: {said!r}."
            )
        for part, item in zip(said, value, strict=True):
            yield from _spread(part, item)
    else:
        tensors = [leaf for leaf in flatten(value)[0] if isinstance(leaf, Tensor)]
        if said and tensors:
            raise ValueError(
                f"onnx.export: dynamic dimensions {said!r} of a {type(value).__name__} of "
                f"{len(tensors)} tensors. Say them in the same containers."
            )
        yield from [None] * len(tensors)


def _labels(dims: Any, name: str) -> Iterator[tuple[int, str]]:
    """Each dimension that may change with what it is called, "" where it has no name."""
    if not dims:
        return
    if isinstance(dims, Mapping):
        pairs = list(dims.items())
    elif all(type(d) is int for d in dims):
        pairs = [(d, "") for d in dims]  # these
    else:
        pairs = list(enumerate(dims))  # something of each
    for dim, label in pairs:
        if label is None or isinstance(label, int):
            continue  # PyTorch's ways to say that it is fixed
        hint = getattr(label, "name", None)
        text = label if isinstance(label, str) else getattr(label, "__name__", None)
        if text is None and hint not in ("AUTO", "DYNAMIC", "STATIC"):
            raise ValueError(
                f"onnx.export: dimension {dim} of input {name!r} is called {label!r}; expected a "
                "name, a Dim or a hint."
            )
        if hint != "STATIC":
            yield dim, AUTO if hint == "AUTO" else text or ""


def without(dims: Dims, labels: set[str]) -> Dims:
    """The dimensions that are left when some turn out fixed."""
    left = {
        position: {dim: label for dim, label in entries.items() if label not in labels}
        for position, entries in dims.items()
    }
    return {position: entries for position, entries in left.items() if entries}
