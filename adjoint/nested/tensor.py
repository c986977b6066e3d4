"""Rows of different lengths in one tensor: PyTorch's nested tensors of jagged layout.

The rows lie one after the other in `values`, and `offsets` says where each begins. Functions on
nested tensors are functions on the values, wherever that is the same; what is not refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from math import prod
from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import jagged
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.state import config
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.attention.varlen import varlen_attn
from adjoint.ops import aten

# Functions of each element by itself; operators have the same names with underscores.
ELEMENTWISE = frozenset(
    """
    add sub subtract rsub mul multiply div divide true_divide truediv floor_divide pow neg
    negative abs absolute exp expm1 log log1p sqrt rsqrt square sin cos tanh sigmoid relu relu6
    gelu silu mish elu selu celu leaky_relu softplus hardtanh hardswish hardsigmoid logsigmoid
    clamp clip dropout eq ne lt le gt ge isnan isfinite logical_not logical_and logical_or where
    to float double half bfloat16 long int bool type_as clone detach contiguous nan_to_num sign
    round floor ceil erf reciprocal alpha_dropout threshold softsign tanhshrink masked_fill
    zeros_like ones_like rand_like randn_like full_like empty_like cpu cuda maximum minimum fmax
    fmin lerp remainder fmod mod bitwise_and bitwise_or bitwise_xor bitwise_not and or xor invert
    logical_xor isclose isinf addcmul addcdiv atan2 trunc log2 log10 exp2 tan sinh cosh erfc
    """.split()
)
WRITING = frozenset("zero_ fill_ copy_".split())  # in place, with no other form
# Functions of the last dimension, whose first argument is nested.
LAST = frozenset("linear layer_norm rms_norm embedding one_hot".split())


class NestedTensor(Tensor):
    """A batch of rows of different lengths: (B, *, ...), the dimension * being ragged.

    Example:
        >>> import adjoint as ad
        >>> batch = ad.nested.nested_tensor([ad.ones(2, 3), ad.ones(4, 3)])
        >>> [tuple(row.shape) for row in (batch * 2).unbind()]
        [(2, 3), (4, 3)]
        >>> tuple(batch.to_padded_tensor(0.0).shape)
        (2, 4, 3)
    """

    _rows: Tensor  # all rows, one after the other
    _offsets: Tensor
    _heads_first: bool  # (B, H, *, D): the ragged dimension is the third

    def __new__(cls, values: Tensor, offsets: Tensor, *, heads_first: bool = False) -> Any:
        lengths = offsets.diff()
        longest = int(lengths.max()) if len(lengths) else 0
        rest = tuple(values.shape[1:])
        shape = (len(lengths), longest, *rest)
        if heads_first:
            shape = (len(lengths), rest[0], longest, *rest[1:])
        nested = Tensor._make_wrapper_subclass(cls, shape, dtype=values.dtype, device=values.device)
        nested._rows, nested._offsets, nested._heads_first = values, offsets, heads_first
        return nested

    def __init__(self, values: Tensor, offsets: Tensor, *, heads_first: bool = False) -> None:
        """All is done by `__new__`."""

    # -- what it is -------------------------------------------------------------------------------

    is_nested = True

    @property
    def layout(self) -> Any:
        """`jagged`."""
        return jagged

    def values(self) -> Tensor:
        """All rows, one after the other."""
        return self._rows

    def offsets(self) -> Tensor:
        """Where each row begins, and the end."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """None, as in PyTorch where rows have no gaps between them: `offsets().diff()` has them."""
        return None

    def _lengths(self) -> Tensor:
        """How long each row is."""
        return self._offsets.diff()

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        """Whether its values are on the tape."""
        return self._rows.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Have its values want a gradient."""
        if "_rows" in self.__dict__:
            self._rows.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The gradient of its values, nested likewise."""
        grad = self._rows.grad
        return None if grad is None else self._like(grad)

    @grad.setter
    def grad(self, grad: Any) -> None:
        self._rows.grad = None if grad is None else grad._rows

    @property
    def _elements(self) -> Tensor:
        """Where a gradient of it arrives: at its values."""
        return self._rows

    def as_gradient(self, grad: Tensor) -> NestedTensor:
        """The gradient of its values, nested likewise."""
        return self._like(grad)

    def backward(self, gradient: Any = None, *_: Any, **__: Any) -> None:
        """Differentiate; the gradient is nested likewise."""
        if not isinstance(gradient, NestedTensor):
            raise RuntimeError("NestedTensor.backward: give a nested gradient of the same lengths.")
        self._rows.backward(gradient._rows)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The rows."""
        if dim:
            raise RuntimeError("NestedTensor.unbind: only along dimension 0.")
        rows = self._rows.split(self._lengths().tolist())
        return tuple(row.transpose(0, 1) if self._heads_first else row for row in rows)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """The rows in one tensor, each filled up to the longest (or to a size)."""
        lengths = self._lengths()
        ragged = 2 if self._heads_first else 1
        longest = int(lengths.max()) if output_size is None else int(output_size[ragged])
        if int(lengths.max()) > longest:
            raise ShapeError(
                f"to_padded_tensor: a row has {int(lengths.max())} entries, the size {longest}."
            )
        rows, place = self._rows, self._places(longest)
        flat = rows.new_full((len(self) * longest, *rows.shape[1:]), padding)
        padded = flat.index_copy(0, place, rows).reshape(len(self), longest, *rows.shape[1:])
        return padded.transpose(1, 2) if self._heads_first else padded

    def _places(self, longest: int) -> Tensor:
        """Where each entry of the values is in a padded batch."""
        lengths = self._lengths()
        row = aten.arange(len(self), device=lengths.device).repeat_interleave(lengths)
        first = self._offsets[:-1].repeat_interleave(lengths)
        return row * longest + aten.arange(len(self._rows), device=lengths.device) - first

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _made, (self._rows, self._offsets, self._heads_first)

    def __copy__(self) -> NestedTensor:
        return self._like(self._rows)

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        if id(self) not in memo:
            parts = (deepcopy(self._rows, memo), deepcopy(self._offsets, memo), self._heads_first)
            memo[id(self)] = _made(*parts)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"NestedTensor(rows={self._lengths().tolist()}, values={tuple(self._rows.shape)})"

    # -- what is done with it ---------------------------------------------------------------------

    def _like(self, values: Tensor, *, heads_first: bool | None = None) -> NestedTensor:
        turned = self._heads_first if heads_first is None else heads_first
        return NestedTensor(values, self._offsets, heads_first=turned)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Writes in place, and operators; other functions are taken over whole before."""
        name = func.__name__.partition(".")[0]
        with having(subclasses=False):
            if name in WRITING or (name.endswith("_") and name[:-1] in ELEMENTWISE):
                return _written(getattr(Tensor, name), args, kwargs or {})
            if name in ELEMENTWISE:
                return _elementwise(getattr(aten, name), args, kwargs or {})
        raise NotImplementedError(
            f"{config.display_name}.nested: {func.__name__} is not there for nested tensors. Use "
            "unbind(), values() or to_padded_tensor()."
        )

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """A function on the values, where that is the same."""
        kwargs = kwargs or {}
        name = func.__name__.strip("_").removesuffix("_method")
        with having(subclasses=False):
            if name in OWN:
                return OWN[name](*args, **kwargs)
            plain = name.removeprefix("r") if name not in ELEMENTWISE else name
            if name in ELEMENTWISE or plain in ELEMENTWISE:
                return _elementwise(func, args, kwargs)
            if name in LAST and isinstance(args[0], NestedTensor) and not args[0]._heads_first:
                return args[0]._like(func(args[0]._rows, *args[1:], **kwargs))
            if hasattr(cls, func.__name__) and func.__name__ in vars(cls):
                return vars(cls)[func.__name__](*args, **kwargs)
        raise NotImplementedError(
            f"{config.display_name}.nested: {name} is not there for nested tensors. Use unbind(), "
            "values() or to_padded_tensor()."
        )


def _made(values: Tensor, offsets: Tensor, heads_first: bool) -> NestedTensor:
    """One of the parts that it was pickled as."""
    return NestedTensor(values, offsets, heads_first=heads_first)


def _elementwise(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of each element by itself, on values of the same lengths."""
    nested = [x for x in (*args, *kwargs.values()) if isinstance(x, NestedTensor)]
    first = nested[0]
    for other in nested[1:]:
        if other._heads_first != first._heads_first:
            raise ShapeError(
                f"{func.__name__}: nested tensors of (B, *, H, D) and (B, H, *, D) together."
            )
        same = other._offsets is first._offsets
        if not same and other._offsets.tolist() != first._offsets.tolist():
            raise ShapeError(
                f"{func.__name__}: cannot call it on nested tensors of lengths "
                f"{first._lengths().tolist()} and {other._lengths().tolist()}."
            )

    def value(x: Any) -> Any:
        if isinstance(x, NestedTensor):
            return x._rows
        if first._heads_first and isinstance(x, Tensor) and x.ndim > 1 and x.shape[-2] != 1:
            raise ShapeError(
                f"{func.__name__}: {tuple(x.shape)} has a size for the ragged dimension of a "
                "nested tensor of (B, H, *, D)."
            )
        if isinstance(x, Tensor) and x.ndim >= first.ndim:
            if x.ndim > first.ndim or x.shape[0] not in (1, len(first)) or x.shape[1] != 1:
                raise ShapeError(
                    f"{func.__name__}: {tuple(x.shape)} does not go with a nested tensor of "
                    f"{first.ndim} dimensions, the second of which is ragged."
                )
            rows = x[:, 0].expand(len(first), *x.shape[2:])
            return rows.repeat_interleave(first._lengths(), 0)
        if isinstance(x, Tensor) and x.ndim > first.ndim - 2 and x.ndim > 0:
            raise ShapeError(
                f"{func.__name__}: {tuple(x.shape)} would reach the ragged dimension of a nested "
                "tensor."
            )
        return x

    values = func(*map(value, args), **{name: value(x) for name, x in kwargs.items()})
    return first._like(values)


def _written(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that writes into a nested tensor: into its values."""
    if not isinstance(args[0], NestedTensor):
        raise ShapeError(
            f"{func.__name__}: a nested tensor is written into a nested tensor of the same "
            f"lengths, received {tuple(args[0].shape)}."
        )
    _elementwise(func, args, kwargs)
    return args[0]


# -- functions with a meaning of their own ---------------------------------------------------------


def _dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front."""
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
            f"{dim})"
        )
    return dim % ndim


def transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """(B, *, H, D) as (B, H, *, D), and back."""
    dims = {_dim(dim0, input.ndim), _dim(dim1, input.ndim)}
    if dims != {1, 2} or input.ndim != 4:
        raise NotImplementedError("nested: only dimensions 1 and 2 of four are transposed.")
    return input._like(input._rows, heads_first=not input._heads_first)


def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    """The last dimension as several."""
    if _dim(dim, input.ndim) != input.ndim - 1 or input._heads_first:
        raise NotImplementedError("nested: only the last dimension is unflattened.")
    return input._like(input._rows.unflatten(-1, tuple(sizes)))


def reshape(input: NestedTensor, *shape: Any) -> NestedTensor:
    """Other sizes after the ragged dimension, which is -1 or the greatest length there."""
    sizes = tuple(shape[0] if shape and isinstance(shape[0], (tuple, list)) else shape)
    inner = tuple(input._rows.shape[1:])
    rest = sizes[2:]
    if -1 in rest and sizes[1] != -1:
        known = prod(n for n in rest if n != -1)
        rest = tuple(prod(inner) // max(known, 1) if n == -1 else n for n in rest)
    keeps_rows = len(sizes) > 1 and sizes[0] == len(input) and sizes[1] in (-1, input.shape[1])
    if (
        input._heads_first
        or not keeps_rows
        or min(rest, default=0) < 0
        or prod(rest) != prod(inner)
    ):
        raise NotImplementedError(
            f"nested: reshape keeps the rows and their lengths, ({len(input)}, -1, ...), and the "
            f"{prod(inner)} elements of each entry; received {sizes}."
        )
    return input._like(input._rows.reshape(len(input._rows), *rest))


def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """The last two dimensions as one."""
    last = (_dim(start_dim, input.ndim), _dim(end_dim, input.ndim))
    if input._heads_first or last[0] < 2 or last[1] != input.ndim - 1:
        raise NotImplementedError("nested: only dimensions after the ragged one are flattened.")
    return input._like(input._rows.flatten(last[0] - 1))


def glu(input: NestedTensor, dim: int = -1) -> NestedTensor:
    """Half of a dimension after the ragged one, gated by the other half."""
    return input._like(aten.glu(input._rows, _dense_dim("glu", input, dim)))


def normalize(
    input: NestedTensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None
) -> NestedTensor:
    """Norms of 1 along a dimension after the ragged one."""
    if out is not None:
        raise NotImplementedError("nested: normalize takes no `out`.")
    at = _dense_dim("normalize", input, dim)
    return input._like(aten.normalize(input._rows, p, at, eps))


def _normalised(name: str) -> Callable[..., NestedTensor]:
    def normalise(
        input: NestedTensor, dim: int | None = None, *_: Any, dtype: Any = None, **__: Any
    ) -> NestedTensor:
        """Over the ragged dimension, each row by itself, or over one after it."""
        at = 0 if dim is None else _dim(dim, input.ndim)
        if at == 0 or input._heads_first:
            raise NotImplementedError(f"nested: {name} is over a dimension of the rows.")
        if at == 1:
            rows = [getattr(row, name)(0, dtype=dtype) for row in input.unbind()]
            return input._like(aten.cat(rows))
        return input._like(getattr(input._rows, name)(at - 1, dtype=dtype))

    return normalise


def _reduced(name: str) -> Callable[..., Any]:
    def reduce(input: NestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        if dim is None:
            return getattr(input._rows, name)(**kwargs)
        dims = {_dim(at, input.ndim) for at in (dim if isinstance(dim, (tuple, list)) else (dim,))}
        function = getattr(aten, name)
        if input._heads_first or not dims or (dims & {0, 1} and dims != {1} and not dims >= {0, 1}):
            raise NotImplementedError(f"nested: {name} over dimensions {dim} is not there.")
        if dims == {1}:
            rows = [function(row, 0, keepdim=keepdim, **kwargs) for row in input.unbind()]
            return aten.stack(rows)
        places: Any = tuple(sorted({max(at - 1, 0) for at in dims}))
        places = places if len(places) > 1 else places[0]
        out = function(input._rows, places, keepdim=keepdim, **kwargs)
        if 0 not in dims:
            return input._like(out)
        return out.unsqueeze(0) if keepdim else out

    return reduce


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> NestedTensor:  # fmt: skip
    """Attention within each row; queries, keys and values are (B, H, *, D)."""
    operands = (query, key, value)
    if not all(isinstance(x, NestedTensor) and x._heads_first for x in operands):
        raise RuntimeError("nested: attention takes three nested tensors of (B, H, *, D).")
    if attn_mask is not None:
        raise NotImplementedError("nested: attention takes no mask; is_causal it does.")
    alike = all(x._offsets is query._offsets for x in operands)
    if query._rows.is_cuda and alike and not dropout_p:  # one kernel, whatever the lengths
        q, k, v = (x._rows for x in operands)
        out: Any = varlen_attn(
            q, k, v, query._offsets, None, 0, 0, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return query._like(out)
    rows = [
        aten.scaled_dot_product_attention(
            q[None],
            k[None],
            v[None],
            None,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )[0].transpose(0, 1)
        for q, k, v in zip(*(x.unbind() for x in operands), strict=True)
    ]
    return query._like(aten.cat(rows))


def matmul(input: NestedTensor, other: Any) -> NestedTensor:
    """The product with a matrix, or with one for each row, (B, *, D) by (B, D, E)."""
    if not isinstance(input, NestedTensor) or isinstance(other, NestedTensor):
        raise NotImplementedError("nested: products are of a nested tensor and of matrices.")
    if other.ndim == 3 and input.ndim == 3 and len(other) == len(input):
        pairs = zip(input.unbind(), other.unbind(0), strict=True)
        return input._like(aten.cat([row @ matrix for row, matrix in pairs]))
    if other.ndim != 2:
        raise NotImplementedError("nested: products are of a nested tensor and of matrices.")
    return input._like(input._rows @ other)


def _dense_dim(name: str, input: NestedTensor, dim: int, more: int = 0) -> int:
    """The dimension of the values that one after the ragged dimension is."""
    at = _dim(dim, input.ndim + more)
    if at < 2 or input._heads_first:
        raise NotImplementedError(f"nested: {name} is along dimensions after the ragged one.")
    return at - 1


def chunk(input: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    """Equal parts along a dimension after the ragged one, or of the rows."""
    if _dim(dim, input.ndim) == 0 and not input._heads_first:
        rows = input.unbind()
        size = -(-len(rows) // chunks)
        return tuple(_of_rows(rows[i : i + size]) for i in range(0, len(rows), size))
    at = _dense_dim("chunk", input, dim)
    return tuple(input._like(part) for part in input._rows.chunk(chunks, at))


def split(input: NestedTensor, split_size: Any, dim: int = 0) -> tuple[NestedTensor, ...]:
    """Parts along a dimension after the ragged one."""
    at = _dense_dim("split", input, dim)
    return tuple(input._like(part) for part in input._rows.split(split_size, at))


def unsqueeze(input: NestedTensor, dim: int) -> NestedTensor:
    """A dimension of size 1 after the ragged one."""
    return input._like(input._rows.unsqueeze(_dense_dim("unsqueeze", input, dim, more=1)))


def squeeze(input: NestedTensor, dim: int) -> NestedTensor:
    """Without a dimension of size 1 after the ragged one."""
    return input._like(input._rows.squeeze(_dense_dim("squeeze", input, dim)))


def select(input: NestedTensor, dim: int, index: int) -> Any:
    """A row, or one entry of a dimension after the ragged one."""
    if _dim(dim, input.ndim) == 0:
        return input.unbind()[index]
    return input._like(input._rows.select(_dense_dim("select", input, dim), index))


def cat(tensors: Sequence[NestedTensor], dim: int = 0) -> NestedTensor:
    """Rows of several, or beside each other along a dimension after the ragged one."""
    if not all(isinstance(tensor, NestedTensor) for tensor in tensors):
        raise RuntimeError("nested: cat takes nested tensors alone.")
    first = tensors[0]
    if any(tensor._heads_first for tensor in tensors):
        raise NotImplementedError("nested: cat of (B, H, *, D): transpose(1, 2) first.")
    if _dim(dim, first.ndim) == 0:
        return _of_rows([row for tensor in tensors for row in tensor.unbind()])
    at = _dense_dim("cat", first, dim)
    if any(t._offsets.tolist() != first._offsets.tolist() for t in tensors):
        raise ShapeError("nested: cat of rows of different lengths.")
    return first._like(aten.cat([tensor._rows for tensor in tensors], at))


def _of_rows(rows: Sequence[Tensor]) -> NestedTensor:
    values = aten.cat(list(rows))
    lengths = aten.tensor([0, *(len(row) for row in rows)], device=values.device)
    return NestedTensor(values, lengths.cumsum(0))


def getitem(input: NestedTensor, index: Any) -> Any:
    """A row, or what an index takes from it."""
    first, *rest = index if isinstance(index, tuple) else (index,)
    if isinstance(first, bool) or not isinstance(first, int):
        raise NotImplementedError("nested: an index begins with the number of a row.")
    row = input.unbind()[first]
    return row[tuple(rest)] if rest else row


def size(input: NestedTensor, dim: int | None = None) -> Any:
    """A size; that of the ragged dimension is the greatest."""
    shape = input.shape
    return shape if dim is None else shape[dim]


def _extreme(name: str) -> Callable[..., Any]:
    function, of_two = getattr(aten, name), getattr(aten, f"{name}imum")

    def extreme(input: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        """Of all elements, or values and places of a dimension of the rows; of two tensors."""
        other = kwargs.pop("other", dim)
        if kwargs:
            raise NotImplementedError(f"nested: {name} takes no {', '.join(kwargs)}.")
        if isinstance(other, Tensor):
            return _elementwise(of_two, (input, other), {})
        if dim is None:
            return function(input._rows)
        at = _dim(dim, input.ndim)
        if at == 0 or input._heads_first:
            raise NotImplementedError(f"nested: {name} over dimension {dim} is not there.")
        if at == 1:
            found = [function(row, 0, keepdim) for row in input.unbind()]
            return type(found[0])(aten.stack(parts) for parts in zip(*found, strict=True))
        of_values = function(input._rows, at - 1, keepdim)
        return type(of_values)(map(input._like, of_values))

    return extreme


def stack(tensors: Sequence[NestedTensor], dim: int = 0) -> NestedTensor:
    """Along a new dimension after the ragged one."""
    if not all(isinstance(tensor, NestedTensor) for tensor in tensors):
        raise RuntimeError("nested: stack takes nested tensors alone.")
    at = _dense_dim("stack", tensors[0], dim, more=1)
    return cat([unsqueeze(tensor, at + 1) for tensor in tensors], at + 1)


REDUCING = ("sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin")
OWN: dict[str, Callable[..., Any]] = {
    "transpose": transpose,
    "unflatten": unflatten,
    "flatten": flatten,
    "reshape": reshape,
    "view": reshape,
    "stack": stack,
    "softmax": _normalised("softmax"),
    "log_softmax": _normalised("log_softmax"),
    "scaled_dot_product_attention": attention,
    "glu": glu,
    "normalize": normalize,
    "numel": lambda input: input._rows.numel(),
    "nelement": lambda input: input._rows.numel(),
    "matmul": matmul,
    "bmm": matmul,
    "chunk": chunk,
    "split": split,
    "split_method": split,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "select": select,
    "cat": cat,
    "size": size,
    "getitem": getitem,
    **{name: _extreme(name) for name in ("max", "min")},
    **{name: _reduced(name) for name in REDUCING},
}
