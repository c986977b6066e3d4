"""The arguments of a call by their names, from the signature of what is called.

In PyTorch an operation has several schemas; here one function serves them all, so one signature
answers. Python's own functions and operators have none in either.
"""

from __future__ import annotations

import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.engine.tensor.tensor import Tensor
from adjoint.library import CustomOpDef
from adjoint.nn.modules.module import Module
from adjoint.ops import OpOverload

# What else their second argument may be, by position, is a tensor, and has that name then.
_TENSOR_INSTEAD_OF_DIM = {"max": "other", "min": "other"}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call, each in one place."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _signature(op: Any) -> inspect.Signature | None:
    """The signature of a function of ours or of a registered operation; None of others."""
    if isinstance(op, CustomOpDef):
        return op._signature
    fn: Any = op._fn if isinstance(op, OpOverload) else op
    module = str(getattr(inspect.unwrap(fn), "__module__", None) if callable(fn) else None)
    if module.partition(".")[0] not in ("adjoint", "torch"):
        return None
    try:
        found = inspect.signature(inspect.unwrap(fn))
    except ValueError:
        return None
    parameters = [
        parameter.replace(name="input") if parameter.name == "self" else parameter
        for parameter in found.parameters.values()
        if parameter.name != "out"  # the forms that write to a tensor are others
    ]
    return found.replace(parameters=parameters)


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operation, in a list of one; None of what is no operation.

    >>> import adjoint as ad
    >>> [list(found.parameters) for found in get_signature_for_torch_op(ad.flatten)]
    [['input', 'start_dim', 'end_dim']]
    """
    found = _signature(op)
    signatures = None if found is None else [found]
    return (signatures, None) if return_schemas else signatures


def _arranged(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_names: bool
) -> ArgsKwargsPair | None:
    """The arguments and defaults of a call; None where it does not fit, or has nameless ones."""
    if any(parameter.kind not in _NAMED for parameter in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    by_place = 0 if only_names else len(args)
    items = list(bound.arguments.items())
    return ArgsKwargsPair(tuple(value for _, value in items[:by_place]), dict(items[by_place:]))


def _is_tensor(target: Any, value: Any, hint: Any) -> bool:
    if hint is not None:
        return inspect.isclass(hint) and issubclass(hint, Tensor)
    if not isinstance(value, (Tensor, int, str, type(None))):  # a node, say
        raise RuntimeError(
            f"Tried to normalize arguments to torch.{target.__name__} but the schema match was "
            "ambiguous: its second argument is a dimension or a tensor. Please provide argument "
            "types to the normalize_arguments() call."
        )
    return isinstance(value, Tensor)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call with its defaults: what was not given by position, by name.

    Args:
        target: what is called.
        args: what it is called with, by position.
        kwargs: the same by name.
        arg_types: types of `args`, where nodes stand for them and a name depends on the type.
        kwarg_types: types of `kwargs`; names say enough.
        normalize_to_only_use_kwargs: whether all are given by name.

    Returns:
        The arguments, or None where the signature is not known or does not take them.

    Example:
        >>> import adjoint as ad
        >>> x = ad.ones(2, 3)
        >>> normalize_function(ad.flatten, (x, 1)).kwargs
        {'end_dim': -1}
    """
    signature = _signature(target)
    if signature is None:
        return None
    given = dict(kwargs or {})
    other = _TENSOR_INSTEAD_OF_DIM.get(getattr(target, "__name__", "").partition(".")[0])
    if other is not None and len(args) == 2:
        hint = None if arg_types is None else arg_types[1]
        if _is_tensor(target, args[1], hint):
            whole = {"input": args[0], other: args[1], **given}
            named = whole if normalize_to_only_use_kwargs else given
            return ArgsKwargsPair(() if normalize_to_only_use_kwargs else tuple(args), named)
    return _arranged(signature, tuple(args), given, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of one of Adjoint's layers; None for modules of other classes.

    Args:
        root: the module that has it.
        target: its path there.
        args: what it is called with, by position.
        kwargs: the same by name.
        normalize_to_only_use_kwargs: whether all are given by name.
    """
    module = root.get_submodule(target)
    if not type(module).__module__.startswith(("adjoint.nn.", "torch.nn.")):
        return None
    signature = inspect.signature(module.forward)
    return _arranged(signature, tuple(args), dict(kwargs or {}), normalize_to_only_use_kwargs)


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuse an operation that writes to one of its arguments."""
    name = str(getattr(target, "__name__", "")).partition(".")[0]
    writes = name.endswith("_") and not name.endswith("__")
    if _signature(target) is not None and (writes or "out" in kwargs):
        raise RuntimeError(
            f"Tried to trace mutable operation {name}. FX only supports functional code, so "
            "operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: Any) -> Any:
    """A list or tuple of types as one type; anything else as it is.

    >>> create_type_hint([int, int]), create_type_hint((int, str))
    (list[int], tuple[typing.Any, ...])
    """
    if not isinstance(x, (list, tuple)) or not all(isinstance(item, type) for item in x):
        return x
    inner: Any = next((kind for kind in x if all(issubclass(item, kind) for item in x)), Any)
    return list[inner] if isinstance(x, list) else tuple[inner, ...]


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of a type is taken where a signature has another.

    >>> type_matches(list[int], int), type_matches(float | None, str)
    (True, False)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    options = _alternatives(signature_type)
    if len(options) > 1:
        return argument_type in options or any(type_matches(o, argument_type) for o in options)
    if signature_type == list[int] and argument_type is int:
        return True  # one number stands for as many as are wanted
    if typing.get_origin(signature_type) is list:
        (wanted,) = typing.get_args(signature_type)
        inner = typing.get_args(argument_type)
        if typing.get_origin(argument_type) not in (list, tuple) or not inner:
            return False
        return all(type_matches(wanted, kind) for kind in inner if kind is not ...)
    if signature_type is numbers.Number:
        return argument_type in (int, float)
    if inspect.isclass(signature_type) and inspect.isclass(argument_type):
        return issubclass(argument_type, signature_type)
    return False
