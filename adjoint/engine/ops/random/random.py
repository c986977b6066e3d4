"""Random tensors: the one primitive of draws from a law, and the functions that make tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.layout import check_layout, format_strides
from adjoint.engine.core.operations.families import composite, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import Generator, generator_for
from adjoint.engine.ops.common.arguments import need_tensor, sizes, whole
from adjoint.engine.ops.create.creation import EMPTY, finish, place, shape_of
from adjoint.engine.ops.elementwise.logical import BITWISE_AND, BITWISE_XOR
from adjoint.engine.ops.order.sort import ARGSORT

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# RANDOM(seed, offset, law, args, shape, dtype, device): independent samples of a law, from the
# blocks of the seed's stream that begin at offset (Note [random streams]).
RANDOM = primitive(
    "random",
    lambda seed, offset, *, law, args, shape, dtype, device: Spec(shape, dtype, device),
    None,
    None,
    draws=True,
    pointwise=True,
    creates=True,
    fragment="composed",
)
# Laws that make integers take 64-bit words whatever the dtype; an event takes 32 bits.
WORD_BITS = {"integers": 64, "bits": 64, "bernoulli": 32, "fraction": 32}
NARROW = frozenset({dt.float16, dt.bfloat16, dt.float32, dt.complex64})


def word_bits(law: str, dtype: DType) -> int:
    """The size of the words one value of a law is made from."""
    return WORD_BITS.get(law) or (32 if dtype in NARROW else 64)


def blocks(count: int, bits: int) -> int:
    """How many blocks `count` words take."""
    return -(-count * bits // 128)


def vmap_levels() -> list[Any]:
    """The active batching transforms, outermost first."""
    return [level for level in CONTEXT.levels if hasattr(level, "randomness")]


def batch_levels(name: str) -> list[Any]:
    """The batching transforms whose every element gets numbers of its own."""
    if not CONTEXT.levels:
        return []
    levels = vmap_levels()
    for level in levels:
        if level.randomness == "error":
            raise RuntimeError(
                f"{name}: vmap: called random operation while in randomness error mode. Pass "
                "randomness='different' or randomness='same' to vmap, or draw outside of it."
            )
    return [level for level in levels if level.randomness == "different"]


def wrap_batches(levels: list[Any], value: Tensor) -> Tensor:
    """A value with a leading dimension per level, as each level's own tensor."""
    for level in levels:
        value = level.wrap_payload(value)
    return value


def draw(
    name: str,
    law: str,
    args: tuple[Any, ...],
    shape: tuple[int, ...],
    dtype: DType,
    device: Device,
    generator: Generator | None,
) -> Tensor:
    """Samples of a law, batched as the active transforms ask."""
    levels = batch_levels(name)
    full = (*(level.size for level in levels), *shape)
    source = generator_for(name, generator, device)
    values = prod(full) * (2 if dtype.is_complex else 1)
    seed, offset = source.draw(blocks(values, word_bits(law, dtype)))
    out = RANDOM(seed, offset, law=law, args=args, shape=full, dtype=dtype, device=device)
    return wrap_batches(levels, out)


def check_inexact(name: str, dtype: DType) -> None:
    """Refuse dtypes that a continuous law does not fit."""
    if not dtype.is_inexact:
        raise NotImplementedError(
            f"{name}: not implemented for {dtype.name!r}. Pass a floating-point or complex dtype."
        )


def check_out(name: str, dtype: DType | None, out: Any) -> None:
    """Refuse a dtype that contradicts the tensor to write to."""
    if out is not None and dtype is not None and dtype is not out.dtype:
        raise DTypeError(
            f"{name}: dtype {dtype.name} does not match dtype of out parameter ({out.dtype.name})"
        )


def create(
    name: str,
    law: tuple[Any, ...],
    shape: tuple[int, ...],
    generator: Generator | None,
    dtype: DType | None,
    device: Any,
    requires_grad: bool,
    layout: Any = None,
    out: Any = None,
) -> Tensor:
    """A new tensor of samples of a law (its name and arguments), as its options ask for it."""
    check_layout(name, layout)
    check_out(name, dtype, out)
    if dtype is None:
        dtype = dt.get_default_dtype() if out is None else out.dtype
    if law[0] != "integers":
        check_inexact(name, dtype)
    where = place(device if device is not None or out is None else out.device)
    samples = draw(name, law[0], law[1:], shape, dtype, where, generator)
    return finish(samples, requires_grad, name, out)


def _like(name: str, law: tuple[Any, ...], x: Tensor, memory_format: Any, **options: Any) -> Tensor:
    need_tensor(name, x)
    options["dtype"] = options["dtype"] or x.dtype
    if options["device"] is None:
        options["device"] = x.device
    requires_grad = options.pop("requires_grad")
    shape = tuple(x.shape)
    samples = create(name, law, shape, requires_grad=False, **options)
    strides = format_strides(name, shape, x.stride(), memory_format)
    if strides is not None and tuple(strides) != contiguous_strides(shape):
        ordered = EMPTY(shape=shape, dtype=samples.dtype, device=samples.device, strides=strides)
        samples = ordered.copy_(samples)
    return finish(samples, requires_grad)


@public()
def rand(
    *args: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform numbers on [0, 1).

    >>> import adjoint as ad
    >>> _ = ad.manual_seed(0)
    >>> ad.rand(2, 2)
    tensor([[0.8805, 0.3990],
            [0.6055, 0.7357]])
    """
    shape = shape_of("rand", args, size)
    law = ("uniform", 0.0, 1.0)
    return create("rand", law, shape, generator, dtype, device, requires_grad, layout, out)


@public()
def randn(
    *args: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Standard normal numbers; complex ones have variance 1, shared by their two parts.

    Example:
        >>> import adjoint as ad
        >>> ad.randn(2, 3).shape
        adjoint.Size([2, 3])
    """
    shape = shape_of("randn", args, size)
    law = ("normal", 0.0, 1.0)
    return create("randn", law, shape, generator, dtype, device, requires_grad, layout, out)


@public()
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Uniform numbers on [0, 1) in the shape of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.rand_like(ad.ones(2, 3)).shape
        adjoint.Size([2, 3])
    """
    return _like(
        "rand_like",
        ("uniform", 0.0, 1.0),
        input,
        memory_format,
        generator=generator,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


@public()
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Standard normal numbers in the shape of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.randn_like(ad.ones(2, 3)).shape
        adjoint.Size([2, 3])
    """
    return _like(
        "randn_like",
        ("normal", 0.0, 1.0),
        input,
        memory_format,
        generator=generator,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def value_range(dtype: DType) -> tuple[int, int]:
    """The integers a dtype holds exactly: smallest and largest."""
    if dtype.is_floating_point:
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name]
        return -(1 << digits), 1 << digits
    if dtype is dt.bool_:
        return 0, 1
    bits = 8 * dtype.itemsize - dtype.is_signed
    return -(1 << bits) if dtype.is_signed else 0, (1 << bits) - 1


def check_bounds(name: str, low: int, high: int, dtype: DType) -> None:
    """Refuse an empty range of integers, or one the dtype cannot hold."""
    if low >= high:
        raise RuntimeError(
            f"{name}: expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if dtype.is_complex:
        raise DTypeError(
            f"{name}: handles only integral, floating-point and boolean types, received "
            f"{dtype.name}"
        )
    least, most = value_range(dtype)
    if dtype.is_floating_point:
        most, least = {"float16": (65504, -65504)}.get(dtype.name, (1 << 63, -(1 << 63)))
    for which, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(
                f"{name}: {which} is out of bounds for {dtype.name}: received {value}, expected a "
                f"value in [{least}, {most}]"
            )


def _bounds(name: str, low: Any, high: Any, dtype: DType) -> tuple[str, int, int]:
    least, most = (0, low) if high is None else (low, high)
    if isinstance(least, float) or isinstance(most, float):
        raise TypeError(f"{name}: the bounds must be integers, received {least!r} and {most!r}")
    bounds = int(least), int(most)  # tensors give their one element
    check_bounds(name, *bounds, dtype)
    return ("integers", *bounds)


@public()
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform integers of [low, high); `randint(high, size)` starts at 0.

    Example:
        >>> import adjoint as ad
        >>> ad.randint(0, 10, (100,)).max() < 10
        tensor(True)
    """
    if size is None:
        high, size = None, high
    low = 0 if low is None else low
    if size is None or isinstance(size, int):
        raise TypeError(
            f"randint: argument 'size' must be a tuple of ints, received {size!r}. Call "
            "randint(high, size) or randint(low, high, size)."
        )
    if dtype is None:
        dtype = dt.int64 if out is None else out.dtype
    law = _bounds("randint", low, high, dtype)
    shape = sizes("randint", (), size)
    return create("randint", law, shape, generator, dtype, device, requires_grad, layout, out)


@public()
def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Uniform integers of [low, high) in the shape and dtype of `input`."""
    need_tensor("randint_like", input)
    low, high = (0, high) if low is None else (low, high)
    return _like(
        "randint_like",
        _bounds("randint_like", low, high, dtype or input.dtype),
        input,
        memory_format,
        generator=generator,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def position_bits(n: int) -> int:
    """How many of the lowest bits of random words, of which there are `n`, say nothing."""
    return max(n - 1, 1).bit_length()


def _random_order(words: Tensor, dim: int) -> Tensor:
    """In the order of all but as many low bits as positions have: without a sign, and equal ones
    as they come.
    """
    keys = BITWISE_XOR(BITWISE_AND(words, -1 << position_bits(words.shape[dim])), -1 << 63)
    return ARGSORT(keys, dim=dim, descending=False, stable=True)


# RANDOM_ORDER(words): the positions of random words in their order. A position goes into the bits
# that say nothing, so that the CPU puts whole words in order.
RANDOM_ORDER = composite(
    "random_order", _random_order, operands=("words",), draws=True, fragment="host"
)


@public()
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random order of 0, 1, ... n - 1.

    Example:
        >>> import adjoint as ad
        >>> ad.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    check_layout("randperm", layout)
    check_out("randperm", dtype, out)
    if dtype is None:
        dtype = dt.int64 if out is None else out.dtype
    n = whole("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative, received {n}")
    if dtype.is_complex or dtype is dt.bool_:
        raise NotImplementedError(f"randperm: not implemented for {dtype.name!r}")
    if n - 1 > value_range(dtype)[1]:
        raise RuntimeError(f"randperm: n is too large for {dtype.name}: received {n}")
    where = place(device if device is not None or out is None else out.device)
    words = draw("randperm", "bits", (), (n,), dt.int64, where, generator)
    ordered = RANDOM_ORDER if where.type == "cpu" else _random_order
    order = ordered(words, dim=0)
    return finish(order.to(dtype), requires_grad, "randperm", out)
