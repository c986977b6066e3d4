"""The meta device: tensors with shape, dtype and strides, and no elements.

An operation on them is its `infer`; a composite is its composition. Views, writes and the tape go
their usual ways, so a model on it can be built, called and differentiated for its shapes alone.
"""

from __future__ import annotations

from typing import Any, Final

from adjoint.engine.core.device import Device
from adjoint.engine.core.layout import format_strides, preserve_format
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.strides import result_strides
from adjoint.engine.tensor.tensor import Tensor, mark_view, symbolic, symbolic_view

META: Final = Device("meta")


def is_meta(tensor: Tensor) -> bool:
    """Whether a tensor is on the meta device and no value of a capture or transform."""
    array, storage = tensor._array, tensor._storage
    return (
        type(array) is Window
        and array.device is META
        and storage.trace is None
        and storage.level is None
    )


def no_data(name: str) -> Exception:
    """The error for elements asked of a tensor that has none."""
    if name in ("item", "bool", "int", "float", "complex", "index"):
        return RuntimeError(f"Tensor.item() cannot be called on meta tensors (by {name})")
    if name == "numpy":
        return TypeError("can't convert meta device type tensor to numpy. It has no elements.")
    return NotImplementedError(
        f"{name}: Cannot copy out of meta tensor; no data! Use a module's to_empty(device=...), or "
        "empty_like(tensor, device=...), and fill the result."
    )


def asked_for_meta(tensors: list[Any], params: dict[str, Any]) -> bool:
    """Whether an operation takes or makes tensors of the meta device."""
    return params.get("device") is META or (bool(tensors) and any(map(is_meta, tensors)))


def infer_only(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The result of an operation on the meta device: its shape, dtype and strides."""
    compose = record.compose
    if compose is not None:
        return compose(*operands, **params)
    wanted = params.get("device", META)
    if wanted is not META:
        raise no_data(record.name)
    inferred = record.infer(*[x._spec if is_tensor(x) else x for x in operands], **params)
    if record.is_view:
        out = symbolic_view(operands[0], inferred, record, params)
        mark_view(out, operands[0])
        return out
    if "device" in params and not record.creates:
        return _moved(operands[0], inferred)
    many = not isinstance(inferred, Spec)
    specs = tuple(inferred) if many else (inferred,)
    outs = []
    for spec in specs:
        strides = result_strides(record, operands, params, spec.shape)
        outs.append(blank(spec, params.get("strides") if strides is None else strides))
    return tuple(outs) if many else outs[0]


def _moved(x: Tensor, spec: Spec) -> Tensor:
    """A tensor without its elements: it lies as a copy does."""
    return blank(spec, format_strides("to", spec.shape, tuple(x.stride()), preserve_format))


def blank(spec: Spec, strides: tuple[int, ...] | None = None) -> Tensor:
    """A tensor of the meta device."""
    return symbolic(spec._replace(device=META), Storage(None), strides)
