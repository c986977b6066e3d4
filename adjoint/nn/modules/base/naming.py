"""Errors out of a layer name it: its class, its options and the shapes it was called with."""

from __future__ import annotations

from os import PathLike
from typing import Any, Final

from numpy import ndarray

from adjoint.engine.core.errors import (
    BoundsError,
    DeviceError,
    DTypeError,
    DTypeTypeError,
    DTypeValueError,
    ShapeError,
    ShapeIndexError,
    ShapeValueError,
)
from adjoint.engine.core.origins import below_root, module_path, modules_at_work
from adjoint.engine.tensor.tensor import Tensor

# Only these exactly: a subclass may carry more than its message, or be caught by what it says.
NAMED: Final = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    AssertionError,
    NotImplementedError,
    BoundsError,
    ShapeError,
    ShapeValueError,
    ShapeIndexError,
    DTypeError,
    DTypeValueError,
    DTypeTypeError,
    DeviceError,
)
PICTURES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
_MARK: Final = "_adjoint_layer"
# What raises here speaks of the call itself (no forward, a hook's result), not of its arguments.
CALLING: Final = frozenset(("adjoint.nn.modules.module", "adjoint.nn.modules.base.hooks"))


def name_layer(
    error: Exception, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Add to an error's message which layer raised it.

    The innermost layer is named, and only where every frame from its call to the error is
    Adjoint's own: what a program's own forward or hook raises says what its author wrote.

    >>> import adjoint as ad
    >>> try:
    ...     ad.nn.GLU()(ad.ones(2, 3))
    ... except RuntimeError as error:
    ...     print(error)
    glu: halving dimension must be even, but dimension 1 is size 3
      in GLU(dim=-1), called with (2, 3)
    """
    plain = type(error) in NAMED and len(error.args) == 1 and isinstance(error.args[0], str)
    if not plain or hasattr(error, _MARK) or not _ours(error):
        return
    setattr(error, _MARK, type(module).__name__)
    given = ", ".join(
        [_said(x) for x in args] + [f"{name}={_said(x)}" for name, x in kwargs.items()]
    )
    layer = f"{type(module).__name__}({module.extra_repr()})"
    stack = modules_at_work()
    if len(stack) > 1:
        layer = f"{below_root(module_path(stack))}: {layer}"
    remedy = next((r for r in map(_remedy, args) if r), "") if type(error) is TypeError else ""
    error.args = (f"{error.args[0]}\n  in {layer}, called with {given or 'nothing'}{remedy}",)


def _remedy(x: Any) -> str:
    """What makes a tensor of something that is none.

    >>> _remedy("leaf.jpg")
    '. A layer takes tensors: read the file first, transforms.ToTensor()(image).unsqueeze(0)'
    """
    one = "transforms.ToTensor()(image).unsqueeze(0)"
    if isinstance(x, (str, PathLike)) and str(x).lower().endswith(PICTURES):
        return f". A layer takes tensors: read the file first, {one}"
    if hasattr(x, "getbands"):  # an image of Pillow's
        return f". A picture becomes a batch of one by {one}"
    return ". adjoint.from_numpy makes a tensor of it" if isinstance(x, ndarray) else ""


def _ours(error: Exception) -> bool:
    """Whether only Adjoint's frames lie below the call, the last one being an operation's."""
    trace = error.__traceback__
    name = ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name != "adjoint" and not name.startswith("adjoint."):
            return False
        trace = trace.tb_next
    return name not in CALLING


def _said(x: Any) -> str:
    """A tensor by its shape, anything else by its type or, where short, its value."""
    if isinstance(x, Tensor):
        return str(tuple(x.shape))
    if isinstance(x, (tuple, list)):
        inner = ", ".join(_said(v) for v in x)
        return f"[{inner}]"
    return repr(x) if x is None or isinstance(x, (bool, int, float, str)) else type(x).__name__
