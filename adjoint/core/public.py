"""The public surface: which functions exist, under which names and in which forms.

An operation's function is declared once with `@public`; the facade, the Tensor methods, the
in-place forms and the `out=` variants are derived from this table.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from adjoint.core.autocast import with_autocast
from adjoint.core.record import HOOKS, is_tensor

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Public:
    """One public function and its forms."""

    name: str
    fn: Callable[..., Any]
    namespaces: tuple[str, ...]  # "" is the top level; "linalg", "fft", "special", ...
    method: bool
    inplace: bool
    out: bool


PUBLIC: dict[tuple[str, str], Public] = {}  # (namespace, name)
METHODS: dict[str, Callable[..., Any]] = {}  # Tensor methods, in-place forms left out
INPLACE: dict[str, Callable[..., Any]] = {}  # name without the underscore -> function
PROPERTIES: dict[str, Any] = {}  # a getter, or a whole property


def public(
    *,
    method: bool | str = False,
    inplace: bool = False,
    out: bool = False,
    function: bool = True,
    namespaces: tuple[str, ...] = ("",),
    aliases: tuple[str, ...] = (),
    name: str = "",
) -> Callable[[F], F]:
    """Publish a function of the operation layer.

    method     also a Tensor method (first argument becomes self)
    inplace    also an in-place method, the name with an underscore
    out        accepts `out=`
    function   False where PyTorch has the method only
    aliases    further names with all the same forms
    """

    def declare(fn: F) -> F:
        base = name or fn.__name__.rstrip("_")
        plain = with_autocast(base, _with_numpy_names(fn))
        published = _checked(_with_out(plain) if out else plain)
        for each in (base, *aliases):
            if function:
                for space in namespaces:
                    PUBLIC[space, each] = Public(
                        each, published, namespaces, bool(method), inplace, out
                    )
            if method:
                METHODS[each] = plain
            if inplace:
                INPLACE[each] = fn
        return published  # type: ignore[return-value]

    return declare


@overload
def method(fn: F) -> F: ...
@overload
def method(*, name: str = ..., aliases: tuple[str, ...] = ...) -> Callable[[F], F]: ...
def method(fn: F | None = None, *, name: str = "", aliases: tuple[str, ...] = ()) -> Any:
    """Publish a Tensor method that is not also a function (or differs from the function)."""

    def declare(fn: F) -> F:
        for each in (name or fn.__name__, *aliases):
            METHODS[each] = fn
        return fn

    return declare if fn is None else declare(fn)


def prop(fn: F) -> F:
    """Publish a read-only Tensor property."""
    PROPERTIES[fn.__name__] = fn
    return fn


def _checked(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as a function of a namespace, where nothing says that `input` is a tensor.

    Methods need no such check, and it costs nothing until something is missing.
    """
    annotations = inspect.unwrap(fn).__annotations__
    wanted = [name for name, kind in annotations.items() if kind == "Tensor" and name != "return"]
    if not wanted:
        return fn

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except AttributeError as error:
            given = inspect.signature(fn).bind(*args, **kwargs).arguments
            for name in wanted:
                if name in given and not is_tensor(given[name]):
                    kind = type(given[name]).__name__
                    raise TypeError(
                        f"{fn.__name__}(): argument {name!r} must be Tensor, not {kind}"
                    ) from error
            raise

    return variant


# NumPy's names for arguments, which PyTorch accepts as well.
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def _with_numpy_names(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, accepting NumPy's spelling of the arguments it has."""
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    renames = {theirs: ours for theirs, ours in _NUMPY_NAMES.items() if ours in names}
    if not renames or "axis" in names:
        return fn

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for theirs, ours in renames.items():
                if theirs in kwargs:
                    kwargs[ours] = kwargs.pop(theirs)
        return fn(*args, **kwargs)

    return variant


def _with_out(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def variant(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return fn(*args, **kwargs)
        return HOOKS.assign_out(fn.__name__, out, fn(*args, **kwargs))

    return variant
