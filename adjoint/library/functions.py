"""PyTorch's functions around custom operations: definitions, registrations, namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint.library.custom import OPERATIONS, CustomOpDef


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
        schema: PyTorch's notation of its arguments; not needed here.
        tags: accepted as PyTorch has it.
    """

    def make(fn: Callable[..., Any]) -> CustomOpDef:
        made = CustomOpDef(name, fn, mutates_args, schema)
        if device_types is not None:
            made.register_kernel(device_types, fn)
            made._kernels.pop("", None)
        return made

    return make if fn is None else make(fn)


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    found = OPERATIONS.get(str(op).removesuffix(".default"))
    if found is None:
        raise RuntimeError(f"operator {op} does not exist: define it first")
    return found


def define(qualname: str, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Announce an operation, whose kernels `impl` then gives."""
    if isinstance(schema, str) or schema is None:
        CustomOpDef(qualname, None, (), schema)
        return None
    return custom_op(qualname)


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Give an operation its kernel for devices."""
    kinds = (
        ""
        if types in ("default", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        else types
    )
    return _find(qualname).register_kernel(kinds, func)


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


class Library:
    """A namespace of operations; PyTorch's lower interface."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Announce an operation."""
        name = schema.split("(", maxsplit=1)[0].strip()
        CustomOpDef(f"{self.ns}::{name}", None, (), schema)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **_: Any) -> None:
        """Give an operation its kernel; a derivative's key is refused."""
        name = str(op_name).split("::")[-1]
        key = dispatch_key.lower()
        if key == "autograd":
            raise NotImplementedError("Library.impl: use register_autograd for derivatives")
        if key == "meta":
            _find(f"{self.ns}::{name}").register_fake(fn)
            return
        _find(f"{self.ns}::{name}").register_kernel(key if key in ("cpu", "cuda") else "", fn)
