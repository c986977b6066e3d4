"""Tensors that stand for others: `__torch_dispatch__` of classes, and `_make_wrapper_subclass`.

A wrapper has a shape, a dtype and a device, and no elements of its own; each operation on it is
handed to its class as `ops.aten.<record>`, and what the class returns is the result. The tape
stands above that, as PyTorch's does: rules are applied to wrappers, and are handed over in turn.

A wrapper's storage knows its class and attributes, so that what the tape keeps of it (an alias of
a result, say) is the wrapper again when a rule uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy import array

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.public import INPLACE
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state import config
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, alias, symbolic
from adjoint.ops import OpOverload
from adjoint.utils._python_dispatch import arguments_of, overload_of

# Methods that are no operation of a record, and go to a wrapper's class by their own names.
NAMED = ("detach", "__setitem__", "item", "tolist", "numpy", "data_ptr", "untyped_storage")
_COPY = OpOverload("aten::copy_.default", Tensor.copy_)
# Methods that end like those that write, and change no elements.
FLAGS = ("requires_grad_", "detach_", "share_memory_", "rename_")


@dataclass(frozen=True, slots=True, eq=False)
class Dress:
    """What a wrapper is besides a tensor: kept in its storage."""

    cls: type[Any]
    attributes: dict[str, Any]


def make_wrapper_subclass(
    cls: type[Any],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    *_: Any,
    **__: Any,
) -> Any:
    """A tensor of a class with `__torch_dispatch__`: it looks so, and has no elements."""
    if handler_of(cls) is None:
        raise RuntimeError(
            f"_make_wrapper_subclass: {cls.__name__} must define __torch_dispatch__, which says "
            "what operations on its instances do."
        )
    place = CPU if device is None else Device(device)
    spec = Spec(tuple(map(int, size)), dtype or get_default_dtype(), place)
    layout_ = None if strides is None else tuple(map(int, strides))
    wrapper = symbolic(spec, Storage(None), layout_).as_subclass(cls)
    wrapper._storage.payload = Dress(cls, wrapper.__dict__)
    return wrapper.requires_grad_(requires_grad)


def handler_of(cls: type[Any]) -> Any:
    """The `__torch_dispatch__` of a class, None where it has none of its own."""
    for base in cls.__mro__:
        if base is not Tensor and "__torch_dispatch__" in vars(base):
            return cls.__torch_dispatch__
    return None


def dress_of(x: Any) -> Dress | None:
    """What a tensor is besides, where it is a wrapper or an alias of one."""
    payload = x._storage.payload if is_tensor(x) else None
    return payload if type(payload) is Dress else None


def restored(x: Any) -> Any:
    """The wrapper that a tensor is an alias of, at the tensor's own place on the tape."""
    dress = dress_of(x)
    if dress is None or type(x) is dress.cls:
        return x
    wrapper = recast(x, dress.cls)
    wrapper.__dict__.update(dress.attributes)
    return wrapper


class Wrappers:
    """What records ask of wrappers (`HOOKS.wrappers`)."""

    make = staticmethod(make_wrapper_subclass)
    restored = staticmethod(restored)

    @staticmethod
    def among(operands: tuple[Any, ...]) -> bool:
        """Whether an operand is a wrapper."""
        return any(is_tensor(x) and type(x._storage.payload) is Dress for x in operands)

    @staticmethod
    def process(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """An operation on wrappers: their class's, then the tape's."""
        tracked = CONTEXT.grad_enabled and any(x.requires_grad for x in operands if is_tensor(x))
        if record.compose is not None and tracked and not record.differentiable:
            return record.compose(*operands, **params)
        given = arguments_of(record, tuple(map(restored, operands)), params)
        outs = hand_over(overload_of(record), *given)
        results = outs if isinstance(outs, tuple) else (outs,)
        if not all(map(is_tensor, results)) or (record.outputs == 1) != (len(results) == 1):
            raise TypeError(
                f"{record.name}: __torch_dispatch__ returned {type(outs).__name__}; the operation "
                f"has {record.outputs or 'several'} results."
            )
        if tracked:
            fresh = tuple([_off_operands(out, operands) for out in results])
            outs = fresh if isinstance(outs, tuple) else fresh[0]
            HOOKS.attach(record, operands, params, outs)
        return outs

    @staticmethod
    def written(name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An in-place operation that came past the class: `Tensor.add_(x, 1)`."""
        return _handing(name)(target, *args, **kwargs)

    @staticmethod
    def copied(target: Any, value: Any) -> None:
        """Write to a tensor, or to what a wrapper stands for; one of the two is a wrapper."""
        hand_over(_COPY, (restored(target), restored(value)), {})

    @staticmethod
    def cloned(x: Any) -> Any:
        """A wrapper of its own, which stands for a copy."""
        with CONTEXT.having(grad_enabled=False):
            return restored(x).clone()

    @staticmethod
    def elements(x: Any) -> Any:
        """What a wrapper's class says that the elements are, as an array."""
        wrapper = restored(x)
        values = wrapper.item() if x.numel() == 1 else wrapper.tolist()
        return array(values).reshape(tuple(x.shape))

    @staticmethod
    def prepare(cls: type[Any]) -> None:
        """Give a new class the methods that hand over what is no operation of a record."""
        HOOKS.load_rest()
        for name in (*NAMED, *_writing()):
            if getattr(cls, name, None) is getattr(Tensor, name, None) or _asks(cls, name):
                setattr(cls, name, _method(name))
        if not any("__repr__" in vars(base) for base in cls.__mro__ if base not in Tensor.__mro__):
            setattr(cls, "__repr__", _shown)  # noqa: B010


@functools.cache
def _writing() -> tuple[str, ...]:
    """The methods that write, and the operators that do."""
    names = [n for n in {*dir(Tensor), *(f"{base}_" for base in INPLACE)} if n.endswith("_")]
    methods = [n for n in names if not n.startswith("_") and n not in FLAGS]
    operators = [n for n in names if n.startswith("__i") and n.replace("__i", "__", 1) in names]
    return (*methods, *operators)


def _asks(cls: type, name: str) -> bool:
    """Whether a method of a class is the one that asks `__torch_function__`."""
    return hasattr(getattr(cls, name, None), "__torch_function_of__")


def _off_operands(out: Any, operands: tuple[Any, ...]) -> Any:
    """A result of its own: a class may have returned an operand."""
    if not any(out is x for x in operands) and out._node is None:
        return out
    return restored(alias(out))


def hand_over(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the classes of wrappers among arguments make of a call; the most derived one first."""
    if CONTEXT.capture is not None:
        raise CaptureError(
            f"compile: {func.__name__}: tensors with __torch_dispatch__ are not recorded. Compile "
            "what is inside them."
        )
    each = [x for arg in args for x in (arg if isinstance(arg, list) else [arg])]
    types = list(dict.fromkeys(type(x) for x in each if dress_of(x) is not None))
    types.sort(key=lambda kind: -len(kind.__mro__))
    with CONTEXT.having(grad_enabled=False):
        for kind in types:
            result = handler_of(kind)(func, tuple(types), args, kwargs)
            if result is not NotImplemented:
                return result
    names = ", ".join(kind.__name__ for kind in types)
    raise TypeError(f"no implementation found for {func!r} on types {names}: all refused")


def _method(name: str) -> Callable[..., Any]:
    raw = getattr(Tensor, name)
    shown = (
        f"{name[3:-2]}_" if name.startswith("__i") else name.removeprefix("__").removesuffix("__")
    )
    func = OpOverload(f"aten::{shown}.default", raw)
    written = name not in NAMED

    @functools.wraps(raw)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if dress_of(self) is None:
            return raw(self, *args, **kwargs)
        if written and CONTEXT.grad_enabled and self.requires_grad:
            raise NotImplementedError(
                f"{config.display_name}.Tensor.{name}: a {type(self).__name__} that wants a "
                "gradient is not changed in place on the tape. Use no_grad(), or the form without "
                "'_'."
            )
        result = hand_over(func, (restored(self), *args), kwargs)
        return self if written else result

    return method


_handing = functools.cache(_method)


def _shown(self: Any) -> str:
    shape = tuple(self.shape)
    return f"{type(self).__name__}(shape={shape}, dtype={self.dtype}, device={self.device})"


HOOKS.wrappers = Wrappers
