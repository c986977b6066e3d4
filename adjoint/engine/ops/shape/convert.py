"""Changing dtype, device or memory layout, not values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, warn_user
from adjoint.engine.core.layout import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
    format_strides,
    has_format,
    preserve_format,
)
from adjoint.engine.core.operations.families import fit, linear
from adjoint.engine.core.operations.met_calls import call_small, may_be_small
from adjoint.engine.core.operations.overrides import ORDINARY
from adjoint.engine.core.operations.public import METHODS, method, public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.result_layouts import as_images, is_last
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.placement import chosen

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


CAST = linear(
    "cast",
    lambda x, dtype: Spec(x.shape, dtype, x.device),
    lambda g, x_spec: fit(g, x_spec) if x_spec.dtype.is_inexact else None,
    batched_params=_same_params,
    keeps_layout=True,
    native_check=True,
    cost="free",
    rounding="exact",
    pointwise=True,
    fragment="plain",
)
TO_DEVICE: Record = linear(
    "to_device",
    lambda x, device, non_blocking=False: Spec(x.shape, x.dtype, device),
    lambda g, x_spec: TO_DEVICE(g, device=x_spec.device),
    batched_params=_same_params,
)
# CLONE(x, strides): a copy with the given strides; None means row-major, "same" x's own order.
CLONE: Record = linear(
    "clone",
    lambda x, strides="same": x,
    lambda g: g,
    batch=lambda size, x, strides="same": CLONE(x, strides="same" if strides == "same" else None),
    keeps_layout=True,
    native_check=True,
    rounding="exact",
    pointwise=True,
    fragment="plain",
    selects=True,
)


def lying_as_images(out: Tensor, *sources: Tensor) -> Tensor:
    """A new result, its channels innermost where those of the images are that it is made of."""
    places = [(tuple(x._array.shape), tuple(x.stride())) for x in sources]
    strides = as_images(places, tuple(out._array.shape))
    if strides is None or tuple(out.stride()) == strides or _is_seen_anew(out, strides):
        return out
    laid: Tensor = CLONE(out, strides=strides)
    return laid


def _is_seen_anew(out: Tensor, strides: tuple[int, ...]) -> bool:
    """Whether a new result has other strides now, of dimensions of one element, without a copy."""
    array = out._array
    if array.__class__ is not ndarray or out._base is not None or array.dtype.isbuiltin != 1:
        return False
    steps = tuple([step * array.itemsize for step in strides])
    pairs = zip(array.shape, array.strides, steps, strict=True)
    if not (array.flags.c_contiguous and all(n == 1 or a == b for n, a, b in pairs)):
        return False
    out._array = out._storage.buffer = ndarray(array.shape, array.dtype, array, 0, steps)
    return True


@public(method=True)
def clone(input: Tensor, *, memory_format: Any = preserve_format) -> Tensor:
    """A copy, in the tape's eyes the identity."""
    if memory_format is preserve_format or memory_format is None:
        return CLONE(input)
    return CLONE(input, strides=_strides(input, memory_format))


def _strides(x: Tensor, memory_format: Any) -> Any:
    return format_strides("memory_format", tuple(x._array.shape), x.stride(), memory_format)


_DENSE, _ORDERED = SmallCalls("contiguous"), SmallCalls("contiguous")


def _dense(x: Tensor) -> Tensor:
    return CLONE(x, strides=None)


def _in_format(x: Tensor, memory_format: Any) -> Tensor:
    return CLONE(x, strides=_strides(x, memory_format))


def has_rows_of_channels(array: Any) -> bool:
    """Whether an array lies row by row, channel by channel, and so in no other format."""
    return (
        array.__class__ is ndarray
        and array.ndim in (4, 5)
        and array.flags.c_contiguous
        and array.shape[1] > 1
        and array.shape[0] * array.shape[1] < array.size
    )


@method
def contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its elements lie in memory in the order asked for, else such a copy."""
    if memory_format is contiguous_format:
        array = self._array
        if array.__class__ is ndarray:  # no recording's own
            if array.flags.c_contiguous:
                return self
            if not self._requires_grad and may_be_small(self):
                dense = call_small(_DENSE, _dense, (self,), {})
                if dense is not None:
                    return dense
        capture = CONTEXT.capture
        if capture is not None and capture.reshapes.doubts(self):
            dense = self.view(self.shape) if self.is_contiguous() else CLONE(self, strides=None)
            capture.reshapes.pair(self, dense)
            return dense
        return self if self.is_contiguous() else CLONE(self, strides=None)
    if memory_format is preserve_format:
        if self.is_contiguous():
            return self
        raise RuntimeError("contiguous: preserve memory format is unsupported by contiguous")
    array = self._array
    if not has_rows_of_channels(array) and has_format(
        tuple(array.shape), self.stride(), memory_format
    ):
        return self
    if array.__class__ is ndarray and may_be_small(self):
        ordered = call_small(_ORDERED, _in_format, (self, memory_format), {})
        if ordered is not None:
            return ordered
    return _in_format(self, memory_format)


def lying_as(x: Tensor, out: Tensor) -> Tensor:
    """A result in the memory layout of `x`, of its shape, where what computed it changed that."""
    if x.is_contiguous():
        return out
    strides = _strides(x, preserve_format)
    return out if tuple(out.stride()) == strides else CLONE(out, strides=strides)


# -- to -----------------------------------------------------------------------------------------


def _read_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `to`, by name, whichever of its three forms was used."""
    if args and is_tensor(args[0]):
        names: tuple[str, ...] = ("other", "non_blocking", "copy")
    elif args and isinstance(args[0], (DType, type)):
        names = ("dtype", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    if len(args) > len(names):
        raise TypeError(f"to: takes at most {len(names)} arguments here, received {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name in ("non_blocking", "copy"):
        if not isinstance(given.get(name, False), (bool, int)):
            raise TypeError(f"to: {name} must be bool, received {given[name]!r}")
    for name, value in kwargs.items():
        if name in given or name not in (*names, "other", "device", "dtype", "memory_format"):
            raise TypeError(f"to: unexpected argument {name!r}")
        given[name] = value
    other = given.pop("other", None)
    if other is not None:
        given |= {"dtype": other.dtype, "device": other.device}
    return given


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert dtype and/or device; the tensor itself where nothing changes.

    >>> import adjoint as ad
    >>> ad.tensor([1.7]).to(ad.int64)
    tensor([1])
    """
    if len(args) == 1 and not kwargs and isinstance(args[0], DType):  # the usual call
        return self if args[0] is self.dtype else _cast(self, args[0])
    given = _read_to(args, kwargs)
    return convert(
        self,
        given.get("dtype"),
        given.get("device"),
        given.get("copy", False),
        given.get("memory_format"),
        bool(given.get("non_blocking", False)),
    )


def convert(
    x: Tensor,
    dtype: DType | None,
    device: Any,
    copy: bool = False,
    memory_format: Any = None,
    non_blocking: bool = False,
) -> Tensor:
    """x with another dtype, device or layout; x itself where nothing changes."""
    if dtype is not None and dtype.__class__ is not DType:
        dtype = dt.as_dtype("to", dtype)
    if memory_format is not None and not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"to: memory_format must be a memory format, received {memory_format!r}")
    if device is not None and not isinstance(device, (str, int, Device)):
        kind = device.__class__
        raise TypeError(
            f"to: expected a device, dtype or tensor, received {device!r}, a "
            f"{kind.__module__}.{kind.__name__}"
        )
    out = x
    if device is not None and not _same_device(Device(device), x.device):
        out = moved(out, Device(device), non_blocking)
    if dtype is not None and dtype is not x.dtype:
        out = _cast(out, dtype)
    if memory_format is not None and memory_format is not preserve_format:
        return _ordered(x, out, copy, memory_format)
    return CLONE(x) if out is x and copy else out


def moved(x: Tensor, device: Device, non_blocking: bool) -> Tensor:
    """x on another device; where asked, the host does not wait for a copy of pinned memory."""
    device = chosen(device)  # plain "cuda" is the GPU that is current, for a recording as well
    if non_blocking and device.type == "cuda" and x.device.type == "cpu":
        return TO_DEVICE(x, device=device, non_blocking=True)
    return TO_DEVICE(x, device=device)


def _ordered(x: Tensor, out: Tensor, copy: bool, memory_format: MemoryFormat) -> Tensor:
    """A conversion's result in a memory format; x itself if it already suggests that one."""
    if out is x and not copy and _suggested(x) is memory_format:
        return x
    strides = _strides(out, memory_format)
    if out is x or tuple(out.stride()) != (strides or contiguous_strides(out._array.shape)):
        return CLONE(out, strides=strides)
    return out


def _suggested(x: Tensor) -> MemoryFormat:
    """The format PyTorch takes a tensor for: channels lie innermost where strides say so."""
    if not is_last((tuple(x._array.shape), tuple(x.stride()))):
        return contiguous_format
    return channels_last if x.ndim == 4 else channels_last_3d


def _same_device(wanted: Device, have: Device) -> bool:
    return wanted == have or (wanted.type == have.type and wanted.index is None)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    if x.dtype.is_complex and dtype.category in (dt.INT, dt.FLOAT):
        warn_user("Casting complex values to real discards the imaginary part")
    return CAST(x, dtype=dtype)


# -- by name ------------------------------------------------------------------------------------

CONVERSIONS = {
    "bool": dt.bool_, "byte": dt.uint8, "char": dt.int8, "short": dt.int16, "int": dt.int32,
    "long": dt.int64, "half": dt.float16, "bfloat16": dt.bfloat16, "float": dt.float32,
    "double": dt.float64, "cfloat": dt.complex64, "cdouble": dt.complex128,
}  # fmt: skip


def _conversion(name: str, dtype: DType) -> Callable[..., Any]:
    def convert_to(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
        if memory_format is preserve_format and self.dtype is not dtype:  # the usual call
            return _cast(self, dtype)
        return convert(self, dtype, None, memory_format=memory_format)

    convert_to.__name__ = convert_to.__qualname__ = name
    convert_to.__doc__ = f"This tensor as {dtype.name}."
    return convert_to


def _unless_it_is(dtype: DType, convert_to: Callable[..., Any]) -> Callable[..., Any]:
    """A conversion that hands a tensor of its dtype back, which has no program to look for."""

    @functools.wraps(convert_to)
    def variant(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and self.dtype is dtype:
            return self
        return convert_to(self, *args, **kwargs)

    return variant


for _name, _dtype in CONVERSIONS.items():
    method(_conversion(_name, _dtype))
    METHODS[_name] = _unless_it_is(_dtype, METHODS[_name])


@method
def chalf(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
    """Complex numbers of half precision, which Adjoint does not have."""
    raise DTypeError("chalf: complex32 is not supported. Use cfloat() (complex64) instead.")


_TYPE_NAMES = {
    dt.bool_: "Bool", dt.uint8: "Byte", dt.int8: "Char", dt.int16: "Short", dt.int32: "Int",
    dt.int64: "Long", dt.float16: "Half", dt.bfloat16: "BFloat16", dt.float32: "Float",
    dt.float64: "Double", dt.complex64: "ComplexFloat", dt.complex128: "ComplexDouble",
}  # fmt: skip
_BY_TYPE_NAME = {f"{v}Tensor": k for k, v in _TYPE_NAMES.items()}
_TYPE_NAMES |= {
    dt.uint16: "UInt16", dt.uint32: "UInt32", dt.uint64: "UInt64", dt.complex32: "ComplexHalf",
    dt.float8_e4m3fn: "Float8_e4m3fn", dt.float8_e5m2: "Float8_e5m2",
}  # fmt: skip
_ON_CPU = {k: f"torch.{v}Tensor" for k, v in _TYPE_NAMES.items()}


@method(name="type")
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The type's name such as "torch.FloatTensor", or the tensor converted to a dtype."""
    if dtype is None:
        where = "" if self.device.type == "cpu" else f"{self.device.type}."
        return f"torch.{where}{_TYPE_NAMES[self.dtype]}Tensor"
    device = None
    if isinstance(dtype, str):
        name = dtype.rsplit(".", 1)[-1]
        if name not in _BY_TYPE_NAME:
            raise ValueError(f"type: invalid type: {dtype!r}")
        device = "cuda" if ".cuda." in dtype else "cpu"
        dtype = _BY_TYPE_NAME[name]
    elif isinstance(dtype, type):  # a tensor type such as FloatTensor
        if not hasattr(dtype, "dtype"):
            raise ValueError(f"type: invalid type: {dtype.__name__!r}")
        dtype, device = getattr(dtype, "dtype", None), getattr(dtype, "device_type", None)
    return convert(self, dtype, device)


def _unless_it_asks(convert_to: Callable[..., Any]) -> Callable[..., Any]:
    """`type` where it says what a tensor is, or hands it back: there is no program to look for."""

    @functools.wraps(convert_to)
    def variant(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and self._array.__class__ is ndarray:
            if not args:
                return _ON_CPU[self.dtype]
            if args[0] is self.dtype and len(args) == 1:
                return self
        return convert_to(self, *args, **kwargs)

    return variant


METHODS["type"] = _unless_it_asks(METHODS["type"])


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor with the dtype and device of `other`."""
    return convert(self, other.dtype, other.device)


def asks_nothing(x: Tensor, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether `to` is asked for the CPU, by which x is, and its own dtype, and for no copy."""
    if len(args) > 2 or not named.keys() <= {"device", "dtype", "non_blocking"}:
        return False
    if not isinstance(named.get("non_blocking", False), bool):
        return False
    if not args:
        device, dtype = named.get("device"), named.get("dtype")
        return (device is None or is_cpu(device)) and (dtype is None or dtype is x.dtype)
    if "device" in named or "dtype" in named:
        return False
    if len(args) == 1:
        return args[0] is x.dtype or is_cpu(args[0])
    return is_cpu(args[0]) and (args[1] is None or args[1] is x.dtype)


def is_cpu(device: Any) -> bool:
    """Whether an argument says that something is to be on the CPU."""
    return device is CPU or (device.__class__ is str and device == "cpu")


def _unless_it_is_there(convert_to: Callable[..., Any]) -> Callable[..., Any]:
    """`to` and `type_as` where they hand the tensor back: to the CPU, its dtype, another's."""

    @functools.wraps(convert_to)
    def variant(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._array.__class__ is not ndarray:
            return convert_to(self, *args, **kwargs)
        if kwargs or len(args) == 2:
            if asks_nothing(self, args, kwargs):
                return self
        elif len(args) == 1:
            (wanted,) = args
            if wanted is self.dtype:
                return self
            if is_cpu(wanted):
                return self
            array = getattr(wanted, "_array", None)
            of_its_dtype = array.__class__ is ndarray and array.dtype is self._array.dtype
            if of_its_dtype and wanted.__class__ in ORDINARY:  # none that takes functions over
                return self
        return convert_to(self, *args, **kwargs)

    return variant


for _name in ("to", "type_as"):
    METHODS[_name] = _unless_it_is_there(METHODS[_name])
