"""PyTorch's functions around custom operations: definitions, registrations, namespaces."""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library.custom import (
    EARLY,
    EARLY_ABOVE_TAPE,
    OPERATIONS,
    CustomOpDef,
    check_device_type,
)
from adjoint.library.tags import Tag


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operation of a function; it is then also `ops.namespace.name`.

    Args:
        name: "namespace::name".
        fn: the function, unless used as a decorator.
        mutates_args: the names of arguments it writes to.
        device_types: the devices the function is for; all unless given.
        schema: PyTorch's notation of its arguments; read from the annotations unless given.
        tags: what is said of it beside; kept as `op.tags`.
    """
    given = tags if isinstance(tags, (list, tuple, set)) else () if tags is None else (tags,)

    def make(fn: Callable[..., Any]) -> CustomOpDef:
        said = (Tag.pt2_compliant_tag, *given)
        operation = CustomOpDef(name, fn, mutates_args, schema or _notation_of(fn), said)
        if device_types is not None:
            operation._for_all = False
            operation.register_kernel(device_types, fn)
        return operation

    return make if fn is None else make(fn)


def _notation_of(fn: Callable[..., Any]) -> str | None:
    """The notation of a function whose annotations give one; what it writes to is said apart."""
    try:
        return infer_schema(fn)
    except (ValueError, TypeError, NameError):
        return None


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    operation = OPERATIONS.get(str(op).removesuffix(".default"))
    if operation is None:
        raise RuntimeError(f"operator {op} does not exist: define it first")
    return operation


def define(qualname: str, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Announce an operation, whose kernels `impl` then gives."""
    if isinstance(schema, str) or schema is None:
        _define(qualname, schema, tags)
        return None
    return custom_op(qualname)


def _define(qualname: str, schema: str | None, tags: Any) -> CustomOpDef:
    if qualname in OPERATIONS and qualname not in _ABANDONED:
        raise RuntimeError(
            f"Tried to register an operator ({OPERATIONS[qualname]._schema or qualname}) with the "
            "same name and overload name multiple times. Give one of them another name."
        )
    for tag in tags if isinstance(tags, (list, tuple, set)) else (tags,):
        if not isinstance(tag, Tag):
            raise TypeError(f"define({qualname!r}): tags must be of torch.Tag, received {tag!r}")
    _ABANDONED.discard(qualname)
    return CustomOpDef(qualname, None, (), schema, tags)


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Give an operation its kernel for devices; the operation may be defined later."""

    def take(fn: Callable[..., Any]) -> Callable[..., Any]:
        for key in (types,) if isinstance(types, str) else types:
            _give(qualname, key, fn)
        return fn

    return take if func is None else take(func)


_ABANDONED: set[str] = set()  # operations of libraries that are gone: they may be defined anew
_NAMESPACES: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()
KINDS = ("DEF", "FRAGMENT", "IMPL")
PYTORCHS = frozenset({"aten", "prims", "quantized"})  # namespaces that PyTorch itself defines
AUTOGRAD = "autograd"  # keys begin with it; a device follows, or none stands for all
DEFAULT_KEYS = ("", "default", "compositeexplicitautograd")  # of kernels for every device


def _give(qualname: str, key: str, fn: Callable[..., Any]) -> None:
    """Give an operation a function for one of PyTorch's keys: a device, or what stands for all."""
    kind = key.lower()
    if kind.startswith("autocast"):
        raise NotImplementedError(f"impl: use register_autocast for {key} of {qualname}")
    if kind.startswith(AUTOGRAD):
        _give_above_tape(qualname, key, fn)
    elif kind == "meta":
        _find(qualname).register_fake(fn)
    elif kind == "compositeimplicitautograd":
        _find(qualname).make_transparent(fn)
    else:
        kernel = "" if kind in DEFAULT_KEYS else kind
        _check_key(key, kernel)
        if qualname.removesuffix(".default") in OPERATIONS:
            _find(qualname).register_kernel(kernel, fn)
        else:
            EARLY.setdefault(qualname, {})[kernel] = fn


def _check_key(key: str, device: str) -> None:
    """Refuse a key whose device nobody knows."""
    try:
        check_device_type(device)
    except RuntimeError:
        raise RuntimeError(f"could not parse dispatch key: {key}") from None


def _give_above_tape(qualname: str, key: str, fn: Callable[..., Any]) -> None:
    """Give an operation what is called in its place where operations are taped: `AutogradCPU`."""
    device = key.lower().removeprefix(AUTOGRAD)
    _check_key(key, device)
    if qualname.removesuffix(".default") in OPERATIONS:
        _find(qualname).register_above_tape(device, fn)
    else:
        EARLY_ABOVE_TAPE.setdefault(qualname, {})[device] = fn


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **_: Any) -> Any:
    """How to compute an operation on a device."""
    return _find(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, **_: Any) -> Any:
    """What an operation's results look like."""
    return _find(op).register_fake if func is None else _find(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, **_: Any
) -> None:
    """An operation's derivative."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Any = None, /, **_: Any) -> Any:
    """How to compute an operation for a batch."""
    return _find(op).register_vmap(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: type, func: Any = None, /, **_: Any
) -> Any:
    """What an operation does inside a mode of a class, or for a class of tensors."""
    return _find(op).register_torch_dispatch(torch_dispatch_class, func)


def register_autocast(op: Any, device_type: str, cast_inputs: DType, /, **_: Any) -> None:
    """The dtype that an operation's operands are cast to inside autocast for a device."""
    _find(op).register_autocast(device_type, cast_inputs)


class Library:
    """A namespace of operations; PyTorch's lower interface.

    Args:
        ns: the namespace.
        kind: "DEF" for the one that defines it, "FRAGMENT" for more definitions, "IMPL" for
            kernels alone.
        dispatch_key: what kernels are for, unless `impl` says.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in KINDS:
            raise ValueError(f"Unsupported kind: {kind}. There are {', '.join(KINDS)}")
        if ns == "prim":
            raise ValueError(f"{ns} is a reserved namespace. Give the library another name.")
        if kind == "DEF" and (ns in _NAMESPACES or ns in PYTORCHS):
            raise RuntimeError(
                f"Only a single library of kind 'DEF' can be used to register the namespace {ns}; "
                "define more operations with kind 'FRAGMENT'."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        if kind == "DEF":
            _NAMESPACES[ns] = self
        self._defined: list[str] = []
        weakref.finalize(self, _abandon, self._defined)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Announce an operation."""
        if self.kind == "IMPL":
            raise RuntimeError(
                f"define({schema.partition('(')[0]!r}): Cannot define an operator with a library "
                "of kind 'IMPL'. Use 'DEF' or 'FRAGMENT'."
            )
        name = schema.split("(", maxsplit=1)[0].strip().rpartition("::")[2]
        _define(f"{self.ns}::{name}", schema, tags)
        self._defined.append(f"{self.ns}::{name}")
        return name

    def _destroy(self) -> None:
        """Take back what it defined."""
        for name in self._defined:
            OPERATIONS.pop(name, None)
        self._defined.clear()
        if _NAMESPACES.get(self.ns) is self:
            del _NAMESPACES[self.ns]

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **_: Any) -> None:
        """Give an operation its kernel, or with a key of autograd what is called in its place."""
        name = str(op_name).split("::")[-1]
        _give(f"{self.ns}::{name}", dispatch_key or self.dispatch_key, fn)


def _abandon(names: list[str]) -> None:
    _ABANDONED.update(names)


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library whose operations are there inside a `with` block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


class FakeContext:
    """What a function of `register_fake` may ask for: sizes that only running would tell."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Refused: sizes are known when a program is recorded."""
        raise NotImplementedError(
            "new_dynamic_size: a result whose size depends on elements cannot be recorded"
        )


def get_ctx() -> FakeContext:
    """What a function of `register_fake` may ask for."""
    return FakeContext()


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    op_name: str | None = None,
) -> str:
    """PyTorch's notation of a function's arguments and results, from its annotations.

    Example:
        >>> import adjoint as ad
        >>> def scaled(x: ad.Tensor, by: float = 2.0) -> ad.Tensor: ...
        >>> infer_schema(scaled, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    hints = typing.get_type_hints(prototype_function)
    written = mutates_args if isinstance(mutates_args, str) else set(mutates_args)
    parameters = inspect.signature(prototype_function).parameters
    unknown = [] if isinstance(written, str) else sorted(written - parameters.keys())
    if unknown:
        raise ValueError(
            f"infer_schema: {unknown} in mutates_args were not found in the custom op's signature"
        )
    parts, star = [], False
    for place, parameter in enumerate(parameters.values()):
        if parameter.name not in hints:
            raise ValueError(
                f"infer_schema: parameter {parameter.name} must have a type annotation"
            )
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                f"infer_schema: parameter {parameter.name}: positional-only arguments, varargs and "
                "varkwargs have no notation"
            )
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        kind = _schema_of(hints[parameter.name])
        if parameter.name in written and written != "unknown" and not kind.startswith("Tensor"):
            raise ValueError(
                f"infer_schema: parameter {parameter.name} is in mutates_args, but only tensors "
                "and lists of tensors can be written to"
            )
        if parameter.name in written or (written == "unknown" and kind.startswith("Tensor")):
            kind = kind.replace("Tensor", f"Tensor(a{place}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_schema_value(parameter)}"
        parts.append(f"{kind} {parameter.name}{default}")
    if "return" not in hints:
        raise ValueError("infer_schema: no return type annotation was provided")
    result = hints["return"]
    results = [] if result in (None, type(None)) else [result]
    if typing.get_origin(result) is tuple:
        results = list(typing.get_args(result))
    shown = [_schema_of(result) for result in results]
    answer = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    return f"{op_name or ''}({', '.join(parts)}) -> {answer}"


_SCHEMA_NAMES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "Scalar",
    DType: "ScalarType",
    Device: "Device",
}


def _schema_of(hint: Any) -> str:
    if hint in _SCHEMA_NAMES:
        return _SCHEMA_NAMES[hint]
    inner = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in inner if part is not type(None)]
        if len(rest) == 1 and len(inner) == 2:
            return f"{_schema_of(rest[0])}?"
        if set(rest) <= {int, float, bool, complex}:
            return "Scalar" if len(rest) == len(inner) else "Scalar?"
    if origin in (list, Sequence) and len(inner) == 1:
        return f"{_schema_of(inner[0])}[]"
    raise ValueError(f"infer_schema: no notation for {hint}")


def _schema_value(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if isinstance(value, DType):
        return value.name
    if value is not None and not isinstance(value, (str, int, float, bool, Device)):
        raise ValueError(
            f"infer_schema: parameter {parameter.name} has an unsupported default value type "
            f"{type(value)}"
        )
    return f'"{value}"' if isinstance(value, (str, Device)) else str(value)
