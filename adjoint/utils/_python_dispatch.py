"""Taking operations over below functions: PyTorch's `torch.utils._python_dispatch`.

A mode sees every operation as Adjoint's records have it (`ops.aten.<record>`), those of backward
included. Unlike PyTorch's, it stands above the tape: what a mode computes with tensors is what
is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.ops import OpOverload

__all__ = ["BaseTorchDispatchMode", "TorchDispatchMode", "return_and_correct_aliasing"]
_OVERLOADS: dict[str, OpOverload] = {}
JOINING = frozenset(("cat", "stack"))  # their records take the tensors one by one


def overload_of(record: Record) -> OpOverload:
    """A record under the name that handlers know it by."""
    if record.name not in _OVERLOADS:
        fn = _taking_a_list(record) if record.name in JOINING else record
        _OVERLOADS[record.name] = OpOverload(f"aten::{record.name}.default", fn)
    return _OVERLOADS[record.name]


def _taking_a_list(record: Record) -> Callable[..., Any]:
    """A record of any number of tensors that also takes them as PyTorch has them: in one list."""
    public = PUBLIC["", record.name].fn

    def call(*operands: Any, **params: Any) -> Any:
        listed = bool(operands) and isinstance(operands[0], (list, tuple))
        return public(*operands, **params) if listed else record(*operands, **params)

    return call


def arguments_of(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What handlers are given of a call: tensors that are joined in one list, then where."""
    if record.name not in JOINING:
        return operands, params
    dim = params["dim"]
    return ((list(operands), dim) if dim else (list(operands),)), {}


class TorchDispatchMode:
    """Takes over every operation inside its `with` block.

    Example:
        >>> import adjoint as ad
        >>> class Names(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> x = ad.ones(2)
        >>> with Names():
        ...     y = x.exp() * 2
        exp.default
        mul.default
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What to do with an operation; a mode of one's own says."""
        raise NotImplementedError(f"{type(self).__name__} must define __torch_dispatch__")

    def _take(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        types = tuple({type(x) for x in operands if is_tensor(x) and type(x) is not Tensor})
        args, kwargs = arguments_of(record, operands, params)
        return self.__torch_dispatch__(overload_of(record), types, args, kwargs)

    def __enter__(self) -> Any:
        CONTEXT.set(takers=(*CONTEXT.takers, self._take))
        return self

    def __exit__(self, *error: object) -> None:
        CONTEXT.set(takers=CONTEXT.takers[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that runs each operation as it is."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run it."""
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes entered, innermost last."""
    return [taker.__self__ for taker in CONTEXT.takers]


def _get_current_dispatch_mode() -> Any:
    """The innermost mode, or None."""
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is entered."""
    return bool(CONTEXT.takers)


def _disable_current_modes() -> Any:
    """A `with` block in which no mode is entered."""
    return CONTEXT.having(takers=())


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """A handler's result, as the operation would return it: written operands are themselves.

    Which tensors share memory needs no correction here: wrappers hold what they are made of.
    """
    if func.__name__.partition(".")[0].endswith("_") and args and is_tensor(args[0]):
        return args[0]
    return out


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor is of a class that says which tensors it is made of."""
    kind = type(t)
    return (
        is_tensor(t)
        and kind is not Tensor
        and hasattr(kind, "__tensor_flatten__")
        and hasattr(kind, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any,
    callback: Callable[[str, Any], Any],
    outer_size: Any = None,
    outer_stride: Any = None,
) -> Any:
    """A wrapper made anew of what a function gives for each tensor inside it, by name."""
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(parts, context, size, stride)


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )
