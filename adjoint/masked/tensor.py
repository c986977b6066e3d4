"""Tensors with a mask that says which elements count: PyTorch's `torch.masked.MaskedTensor`.

The mask is True where an element counts. Functions of elements are functions of the data, with the
same mask; reductions leave out what does not count; what has no such meaning refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine import assembly
from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.state import config
from adjoint.engine.tensor.tensor import Tensor
from adjoint.ops import aten

FUNCTIONS = assembly.namespace("masked")
UNARY = frozenset(
    """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh
    bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2
    expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isfinite isinf isnan isreal nan_to_num
    neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh
    sqrt square tan tanh trunc relu gelu silu to float double half long int bool clone detach
    contiguous ones_like zeros_like cpu cuda invert
    """.split()
)
BINARY = frozenset(
    """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div
    divide floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract
    true_divide eq ne le ge greater greater_equal gt less_equal lt less maximum minimum fmax fmin
    not_equal truediv floordiv mod and or xor lshift rshift radd rsub rmul rtruediv rfloordiv rmod
    rpow rand ror rxor iadd isub imul itruediv isclose
    """.split()
)
# Functions that move elements: of the data and of the mask alike.
MOVING = frozenset(
    """
    select transpose split t getitem expand view reshape cat unsqueeze squeeze unfold stack permute
    flatten movedim chunk narrow index_select expand_as view_as flip roll unbind T mT
    """.split()
)
METHODS = frozenset("backward detach item requires_grad_ tolist __len__ __iter__ __repr__".split())
REDUCING = frozenset("sum mean amin amax argmin argmax prod norm var std".split())


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether something is a masked tensor.

    >>> import adjoint as ad
    >>> is_masked_tensor(masked_tensor(ad.ones(2), ad.tensor([True, False])))
    True
    """
    return isinstance(obj, MaskedTensor)


class MaskedTensor(Tensor):
    """Data and a mask of the same shape, True where an element counts.

    Example:
        >>> import adjoint as ad
        >>> x = masked_tensor(ad.tensor([1.0, 2.0, 4.0]), ad.tensor([True, False, True]))
        >>> x + 1
        MaskedTensor(
          [  2.0000,       --,   5.0000]
        )
        >>> x.mean()
        MaskedTensor(  2.5000, True)
        >>> x.to_tensor(0)
        tensor([1., 0., 4.])
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> Any:
        _check(data, mask)
        masked = Tensor._make_wrapper_subclass(
            cls, data.shape, dtype=data.dtype, device=data.device
        )
        masked._masked_data = data.detach().clone().requires_grad_(requires_grad)
        masked._masked_mask = mask.clone()
        return masked

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        """All is done by `__new__`."""

    @classmethod
    def _from_values(cls, data: Tensor, mask: Tensor) -> MaskedTensor:
        """Of data that stays on the tape."""
        masked = cls(data.detach(), mask)
        masked._masked_data = data
        return masked

    def get_data(self) -> Tensor:
        """The data; what does not count is anything."""
        return self._masked_data

    def get_mask(self) -> Tensor:
        """True where an element counts."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data, with a value for what does not count."""
        return self._masked_data.masked_fill(~self._masked_mask, value)

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        """Whether its data are on the tape."""
        return self._masked_data.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Have its data want a gradient."""
        if "_masked_data" in self.__dict__:
            self._masked_data.requires_grad_(requires_grad)
        return self

    @property  # type: ignore[misc]
    def grad(self) -> Any:
        """The gradient of its data, with the same mask."""
        grad = self._masked_data.grad
        return None if grad is None else MaskedTensor(grad, self._masked_mask)

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Differentiate; what does not count has a gradient of zero."""
        if isinstance(gradient, MaskedTensor):
            gradient = gradient.to_tensor(0)
        self._masked_data.backward(gradient, *args, **kwargs)

    def item(self) -> Any:
        """The one element, which must count."""
        if not bool(self._masked_mask):
            raise ValueError("MaskedTensor.item: expected an element that counts, it is masked out")
        return self._masked_data.item()

    def tolist(self) -> Any:
        """Nested lists, None for what does not count."""
        return _listed(self._masked_data.tolist(), self._masked_mask.tolist())

    def __len__(self) -> int:
        return len(self._masked_data)

    def __iter__(self) -> Any:
        return iter(self[i] for i in range(len(self)))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self.ndim == 0:
            counts = bool(self._masked_mask)
            shown = _shown(self._masked_data.item()) if counts else "--"
            return f"MaskedTensor({shown}, {counts})"
        inside = _rows(self._masked_data.detach().tolist(), self._masked_mask.tolist())
        return "MaskedTensor(\n" + "\n".join(f"  {line}" for line in inside.split("\n")) + "\n)"

    def detach(self) -> Any:
        """The same data off the tape."""
        return MaskedTensor._from_values(self._masked_data.detach(), self._masked_mask)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Writes in place; other functions are taken over whole before they are operations."""
        name = func.__name__.partition(".")[0]
        if name == "copy_":
            return _copied(*args, **(kwargs or {}))
        if name.endswith("_") and name.rstrip("_") in UNARY | BINARY:
            out = _applied(getattr(aten, name.rstrip("_")), args, kwargs or {})
            target: MaskedTensor = args[0]
            target._masked_data, target._masked_mask = out._masked_data, out._masked_mask
            return target
        return _refuse(name)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The function with a meaning for masks."""
        if func.__name__ in METHODS:
            return vars(cls)[func.__name__](*args, **(kwargs or {}))
        return _applied(func, args, kwargs or {})


def _applied(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives, by the kind it is of."""
    name = func.__name__.strip("_").removesuffix("_method")
    with having(subclasses=False):
        if name in OWN:
            return OWN[name](*args, **kwargs)
        if name in REDUCING:
            return _reduced(name, *args, **kwargs)
        if name in MOVING:
            return _moved(func, args, kwargs)
        if name in UNARY and not isinstance(args[1] if len(args) > 1 else None, Tensor):
            data = func(args[0]._masked_data, *args[1:], **kwargs)
            return MaskedTensor._from_values(data, args[0]._masked_mask)
        if name in BINARY or name == "pow":
            return _binary(func, args, kwargs)
    return _refuse(name)


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copies, which is a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor of data that stay on the tape."""
    return MaskedTensor._from_values(data, mask)


def _refuse(name: str) -> Any:
    raise NotImplementedError(
        f"{config.display_name}.masked: {name} is not there for masked tensors. Use to_tensor(), "
        "get_data() and get_mask()."
    )


def _check(data: Any, mask: Any) -> None:
    if not isinstance(data, Tensor):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor):
        raise TypeError("mask must be a Tensor")
    if data.layout is not strided or mask.layout is not strided:
        raise TypeError(
            f"MaskedTensor: data and mask are dense here, received {data.layout} and {mask.layout}"
        )
    if mask.dtype is not bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype.is_complex:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


def _data(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_data, x))
    return x._masked_data if isinstance(x, MaskedTensor) else x


def _mask(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_mask, x))
    return x._masked_mask if isinstance(x, MaskedTensor) else x


def _binary(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of two operands; masks of both must be the same."""
    masks = [x._masked_mask for x in args[:2] if isinstance(x, MaskedTensor)]
    if len(masks) == 2 and not aten.equal(masks[0], masks[1]):
        raise ValueError(
            "Input masks must match. If you need support for this, combine them with where()."
        )
    if any(isinstance(x, Tensor) for x in (*args[2:], *kwargs.values())):
        raise TypeError(
            "MaskedTensor binary ops do not support Tensor arguments aside from the lhs and rhs"
        )
    data = func(*map(_data, args), **kwargs)
    return MaskedTensor._from_values(data, masks[0].expand(data.shape))


def _copied(target: MaskedTensor, source: Tensor, non_blocking: bool = False) -> MaskedTensor:
    """Write a source's data into the target's; the mask stays, and is that of a masked source."""
    with having(subclasses=False):
        mask = _mask(source) if isinstance(source, MaskedTensor) else target._masked_mask
        if not aten.equal(target._masked_mask, mask.expand(target.shape)):
            raise ValueError("copy_: the masks of both must match. Copy get_data() instead.")
        target._masked_data.copy_(_data(source), non_blocking)
    return target


def _moved(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data = func(*map(_data, args), **{k: _data(v) for k, v in kwargs.items()})
    mask = func(*map(_mask, args), **{k: _mask(v) for k, v in kwargs.items()})
    if isinstance(data, (list, tuple)):
        pairs = zip(data, mask, strict=True)
        return tuple(MaskedTensor._from_values(*pair) for pair in pairs)
    return MaskedTensor._from_values(data, mask)


def _reduced(name: str, x: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    """What counts reduced; a result counts where anything did."""
    data, mask = x._masked_data, x._masked_mask
    out = FUNCTIONS[name](data, *args, mask=mask, **kwargs)
    args = args[1:] if name == "norm" else args  # the first is its order
    dim = args[0] if args else kwargs.get("dim")
    if dim is None:
        return MaskedTensor._from_values(out, mask.any().expand(out.shape))
    keepdim = bool(kwargs.get("keepdim", args[1] if len(args) > 1 else False))
    return MaskedTensor._from_values(out, mask.any(dim, keepdim=keepdim))


def _all(input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    out = input._masked_data.masked_fill(~input._masked_mask, True).all(*args, **kwargs)
    return MaskedTensor._from_values(out, input._masked_mask.any(*args, **kwargs))


def _where(condition: Any, input: Any, other: Any) -> MaskedTensor:
    """A choice of data and of masks; what has no mask counts."""
    parts = [
        (x._masked_data, x._masked_mask)
        if isinstance(x, MaskedTensor)
        else (x, aten.ones_like(aten.as_tensor(x), dtype=bool_))
        for x in (input, other)
    ]
    (one, counts), (two, counts_too) = parts
    data = aten.where(condition, one, two)
    mask = aten.where(condition, counts, counts_too).expand(data.shape)
    return MaskedTensor._from_values(data, mask)


def _softmax(input: MaskedTensor, dim: int, *_: Any, dtype: Any = None, **__: Any) -> MaskedTensor:
    out = FUNCTIONS["softmax"](input._masked_data, dim, dtype=dtype, mask=input._masked_mask)
    return MaskedTensor._from_values(out, input._masked_mask)


def _log_softmax(
    input: MaskedTensor, dim: int, *_: Any, dtype: Any = None, **__: Any
) -> MaskedTensor:
    out = FUNCTIONS["log_softmax"](input._masked_data, dim, dtype=dtype, mask=input._masked_mask)
    return MaskedTensor._from_values(out, input._masked_mask)


OWN: dict[str, Callable[..., Any]] = {
    "all": _all,
    "where": _where,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "to_dense": lambda input, *_, **__: input,
    "is_contiguous": lambda input, *a, **k: input._masked_data.is_contiguous(*a, **k),
    "stride": lambda input, *a, **k: input._masked_data.stride(*a, **k),
    "size": lambda input, *a, **k: input._masked_data.size(*a, **k),
    "dim": lambda input: input._masked_data.dim(),
    "numel": lambda input: input._masked_data.numel(),
}


# -- shown as text -----------------------------------------------------------------------------


def _shown(number: Any) -> str:
    return f"{number:8.4f}" if isinstance(number, float) else str(number)


def _rows(data: Any, mask: Any) -> str:
    if not isinstance(data, list) or not data:
        return "[]"
    if isinstance(data[0], list):
        inside = [_rows(d, m) for d, m in zip(data, mask, strict=True)]
        shifted = ["\n".join(f"  {line}" for line in text.split("\n")) for text in inside]
        return "[\n" + ",\n".join(shifted) + "\n]"
    shown = [_shown(number) for number in data]
    width = max(len(text) if counts else 8 for text, counts in zip(shown, mask, strict=True))
    pairs = zip(shown, mask, strict=True)
    return "[" + ", ".join(text if counts else "--".rjust(width) for text, counts in pairs) + "]"


def _listed(data: Any, mask: Any) -> Any:
    if isinstance(data, list):
        return [_listed(d, m) for d, m in zip(data, mask, strict=True)]
    return data if mask else None
