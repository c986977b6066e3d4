"""Tensors that know what they show: images, videos, masks, boxes, key points.

Operations on them give plain tensors, as in torchvision: only `clone`, `to`, `detach`,
`requires_grad_` and `pin_memory` keep the class. `set_return_type("TVTensor")` has all keep it.

Until that is asked for, or a program makes a class of its own, these classes take no function over
(see `__torch_function__`), so that operations on plain tensors need not look for them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Self

from adjoint.data.transforms.basic import to_channels_first
from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.errors import DTypeValueError, ShapeValueError
from adjoint.engine.core.operations.overrides import ORDINARY, having
from adjoint.engine.core.operations.public import INPLACE, METHODS
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.overriding import INWARD, OPERATORS, subclassed
from adjoint.engine.tensor.tensor import Tensor


class _Returning:
    """What operations give: plain tensors, or tensors of the class they were given."""

    keeps_class = False


def plain(tensor: Tensor) -> Tensor:
    """The tensor without its class, on the same elements."""
    if type(tensor) is Tensor:
        return tensor
    bare: Tensor = recast(tensor, Tensor)
    return bare


class TVTensor(Tensor):
    """What images, videos, masks and boxes have in common; programs may derive their own."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if not cls.__module__.startswith("adjoint."):
            _take_over()
        super().__init_subclass__(**kwargs)

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Self:
        return cls._labelled(cls._to_tensor(data, dtype, device, requires_grad))

    @staticmethod
    def _to_tensor(
        data: Any, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Tensor:
        if requires_grad is None:
            requires_grad = isinstance(data, Tensor) and data.requires_grad
        tensor = as_tensor(plain(data) if isinstance(data, Tensor) else data, dtype, device)
        return tensor if tensor.requires_grad == requires_grad else tensor.requires_grad_()

    @classmethod
    def _labelled(cls, tensor: Tensor) -> Self:
        labelled: Self = recast(plain(tensor), cls)
        return labelled

    @classmethod
    def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Self:
        """A tensor as one of this class, with what `like` knows beside its elements."""
        return cls._labelled(tensor)

    def __copy__(self) -> Self:
        return type(self).wrap(plain(self), self)

    def __repr__(self, **_: Any) -> str:
        name, text = type(self).__name__, repr(plain(self)).removeprefix("tensor")
        aligned = text.replace("\n" + " " * len("tensor"), "\n" + " " * len(name))
        known = ", ".join(f"{k}={v}" for k, v in self._known().items())
        tells = isinstance(self, (Image, Video, BoundingBoxes, KeyPoints))
        return f"{name}{aligned[:-1]}, {known})" if tells else f"{name}{aligned}"

    def _known(self) -> dict[str, Any]:
        """What it knows beside its elements."""
        return {}


KEEPING = ("clone", "to", "detach", "pin_memory", "requires_grad_")


def _method(name: str) -> Callable[..., Any]:
    """Tensor's method, with a plain result even where that is the tensor itself, or a kept one."""
    raw = getattr(Tensor, name)
    writes = name.startswith("__i") or name == "__setitem__" or name.endswith("_")

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with having(subclasses=False):
            result = raw(self if writes else plain(self), *args, **kwargs)
        if result is NotImplemented:
            return result
        if name in KEEPING:
            return result if result is self else type(self).wrap(result, self)
        return _with_class(result, self) if _Returning.keeps_class else _stripped(result)

    method.__name__ = name
    return method


def _install() -> None:
    """Put the methods on the class; those of families that load on first use stay Tensor's."""
    for name in sorted(
        {*KEEPING, *METHODS, *(f"{base}_" for base in INPLACE), *OPERATORS} - INWARD
    ):
        if callable(vars(Tensor).get(name)):
            setattr(TVTensor, name, _method(name))


_install()


def _override(
    cls: type[Any], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Run the function on plain tensors; keep the class of the first where that is asked for."""
    if not all(issubclass(kind, TVTensor) or issubclass(cls, kind) for kind in types):
        return NotImplemented
    with having(subclasses=False):
        result = func(*args, **(kwargs or {}))
    flat = [leaf for given in (*args, *(kwargs or {}).values()) for leaf in _parts(given)]
    first = next(leaf for leaf in flat if isinstance(leaf, TVTensor))
    return _with_class(result, first) if _Returning.keeps_class else _stripped(result)


def _parts(given: Any) -> Any:
    return given if isinstance(given, (list, tuple)) else (given,)


def _with_class(result: Any, first: TVTensor) -> Any:
    if isinstance(result, TVTensor):
        return result
    if isinstance(result, Tensor):
        if isinstance(first, (BoundingBoxes, KeyPoints)):
            return type(first)._labelled(result, **first._known())
        return type(first).wrap(result, first)
    if type(result) in (list, tuple):
        return type(result)(_with_class(part, first) for part in result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_with_class(part, first) for part in result))
    return result


def _stripped(result: Any) -> Any:
    return plain(result) if isinstance(result, TVTensor) else result


def _take_over() -> None:
    """From now on functions ask these classes what becomes of them."""
    if "__torch_function__" in vars(TVTensor):
        return
    TVTensor.__torch_function__ = classmethod(_override)  # type: ignore[attr-defined]
    kinds: list[type[Any]] = [TVTensor, *TVTensor.__subclasses__()]
    for cls in kinds:
        ORDINARY.discard(cls)
        subclassed(cls)


class Image(TVTensor):
    """An image (..., C, H, W); one without channels (H, W) gets one.

    Example:
        >>> import adjoint as ad
        >>> picture = Image(ad.zeros(2, 2))
        >>> picture.shape, type(picture + 1).__name__, type(picture.to(ad.float64)).__name__
        (adjoint.Size([1, 2, 2]), 'Tensor', 'Image')
    """

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Self:
        given = to_channels_first(data) if is_picture(data) else data
        tensor = cls._to_tensor(given, dtype, device, requires_grad)
        if tensor.ndim < 2:
            raise ShapeValueError(
                f"Image: expected (..., H, W), received shape {tuple(tensor.shape)}"
            )
        return cls._labelled(tensor[None] if tensor.ndim == 2 else tensor)


class Video(TVTensor):
    """Pictures after one another (..., T, C, H, W)."""

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        if tensor.ndim < 4:
            raise ShapeValueError(
                f"Video: expected (..., T, C, H, W), received shape {tuple(tensor.shape)}"
            )
        return cls._labelled(tensor)


class Mask(TVTensor):
    """Which pixels belong to what: a number per pixel (H, W), or one mask per object (N, H, W)."""

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Self:
        given = to_channels_first(data) if is_picture(data) else data
        return cls._labelled(cls._to_tensor(given, dtype, device, requires_grad))


class BoundingBoxFormat(Enum):
    """What the numbers of a box are.

    Corners (XYXY), a corner and the sides (XYWH), the middle and the sides (CXCYWH). Of turned
    boxes: a corner or the middle, the sides and an angle in degrees, counter-clockwise (XYWHR,
    CXCYWHR), or all four corners from the top left one on, clockwise (XYXYXYXY).
    """

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


def is_rotated_bounding_format(format: BoundingBoxFormat | str) -> bool:
    """Whether boxes of a format are turned."""
    return as_format(format).name in ("XYWHR", "CXCYWHR", "XYXYXYXY")


def as_format(given: BoundingBoxFormat | str) -> BoundingBoxFormat:
    """A format by its name."""
    if isinstance(given, BoundingBoxFormat):
        return given
    if not isinstance(given, str):
        raise ValueError(f"format should be str or BoundingBoxFormat, got {type(given)}")
    return BoundingBoxFormat[given.upper()]


class BoundingBoxes(TVTensor):
    """Boxes (N, 4) in an image; turned ones are (N, 5) or (N, 8).

    Args:
        data: the numbers.
        format: what they are, see `BoundingBoxFormat`.
        canvas_size: height and width of the image.
        clamping_mode: whether transforms cut boxes off at the edges ("soft", "hard") or not (None).

    Example:
        >>> BoundingBoxes([1, 2, 3, 4], format="XYXY", canvas_size=(8, 9))
        BoundingBoxes([[1, 2, 3, 4]], format=BoundingBoxFormat.XYXY, canvas_size=(8, 9), \
clamping_mode=soft)
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: tuple[int, int],
        clamping_mode: str | None = "soft",
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        if is_rotated_bounding_format(format) and not tensor.dtype.is_floating_point:
            raise DTypeValueError(
                f"Rotated bounding boxes should be floating point tensors, got {tensor.dtype}."
            )
        return cls._labelled(_rows(tensor), format, canvas_size, clamping_mode)

    @classmethod
    def _labelled(
        cls,
        tensor: Tensor,
        format: BoundingBoxFormat | str = BoundingBoxFormat.XYXY,
        canvas_size: tuple[int, int] = (0, 0),
        clamping_mode: str | None = "soft",
    ) -> Self:
        if clamping_mode not in (None, "soft", "hard"):
            raise ValueError(f"clamping_mode must be None, hard or soft, got {clamping_mode}.")
        boxes: Self = recast(plain(tensor), cls)
        boxes.format = as_format(format)
        boxes.canvas_size = canvas_size
        boxes.clamping_mode = clamping_mode
        return boxes

    @classmethod
    def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Self:
        """A tensor as boxes that differ from others in what is given."""
        return cls._labelled(_rows(tensor), **(like._known() | kwargs))

    def _known(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "canvas_size": self.canvas_size,
            "clamping_mode": self.clamping_mode,
        }


def _rows(tensor: Tensor) -> Tensor:
    if tensor.ndim not in (1, 2):
        raise ShapeValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
    return tensor[None] if tensor.ndim == 1 else tensor


class KeyPoints(TVTensor):
    """Points (..., 2) in an image, x and y of each.

    Args:
        data: the numbers; groups of points (polygons, skeletons) have further dimensions.
        canvas_size: height and width of the image.

    Example:
        >>> KeyPoints([[1, 2], [3, 4]], canvas_size=(8, 9))
        KeyPoints([[1, 2],
                   [3, 4]], canvas_size=(8, 9))
    """

    canvas_size: tuple[int, int]

    def __new__(
        cls,
        data: Any,
        *,
        canvas_size: tuple[int, int],
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        return cls._labelled(_pairs(tensor), canvas_size)

    @classmethod
    def _labelled(cls, tensor: Tensor, canvas_size: tuple[int, int] = (0, 0)) -> Self:
        points: Self = recast(plain(tensor), cls)
        points.canvas_size = canvas_size
        return points

    @classmethod
    def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Self:
        """A tensor as points that differ from others in what is given."""
        return cls._labelled(_pairs(tensor), **(like._known() | kwargs))

    def _known(self) -> dict[str, Any]:
        return {"canvas_size": self.canvas_size}


def _pairs(tensor: Tensor) -> Tensor:
    if tensor.ndim != 1 and (not tensor.ndim or tensor.shape[-1] != 2):
        raise ShapeValueError(f"Expected a tensor of shape (..., 2), not {tuple(tensor.shape)}")
    return tensor[None] if tensor.ndim == 1 else tensor


def wrap(wrappee: Tensor, *, like: Any, **kwargs: Any) -> Any:
    """A tensor as one of the class of another, with what that knows beside its elements."""
    kind = type(like)
    return kind.wrap(wrappee, like, **kwargs) if hasattr(kind, "wrap") else plain(wrappee)


class set_return_type:
    """What operations on these tensors give, from now on or within a `with` block.

    Args:
        return_type: "TVTensor" for the class of what they are given, or "Tensor".

    Example:
        >>> with set_return_type("TVTensor"):
        ...     type(Mask([[1, 2]]) + 1).__name__
        'Mask'
    """

    def __init__(self, return_type: str) -> None:
        choices = {"tensor": False, "tvtensor": True}
        if return_type.lower() not in choices:
            raise ValueError(f"return_type must be 'TVTensor' or 'Tensor', got {return_type}")
        self.before = _Returning.keeps_class
        _Returning.keeps_class = choices[return_type.lower()]
        if _Returning.keeps_class:
            _take_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _Returning.keeps_class = self.before
