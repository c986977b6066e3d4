"""Random tensors: the one primitive of draws from a law, and the functions that make tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.core import dtype as dt
from adjoint.core.context import CONTEXT
from adjoint.core.device import CPU, Device
from adjoint.core.dtype import DType
from adjoint.core.families import primitive
from adjoint.core.public import public
from adjoint.core.rng import Generator, generator_for
from adjoint.core.spec import Spec
from adjoint.ops.creation import size_of

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

# RANDOM(seed, offset, law, args, shape, dtype, device): independent samples of a law, from the
# blocks of the seed's stream that begin at offset (Note [random streams]).
RANDOM = primitive(
    "random",
    lambda seed, offset, *, law, args, shape, dtype, device: Spec(shape, dtype, device),
    None,
    None,
)
PERMUTATION = primitive(
    "random_permutation",
    lambda seed, offset, *, length, batch, dtype, device: Spec((*batch, length), dtype, device),
    None,
    None,
)
# Laws that make integers take 64-bit words whatever the dtype; an event takes 32 bits.
WORD_BITS = {"integers": 64, "bits": 64, "bernoulli": 32, "fraction": 32}
NARROW = (dt.float16, dt.bfloat16, dt.float32, dt.complex64)


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


def check_size(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape from `f(2, 3)` or `f((2, 3))`, with no negative size."""
    shape = tuple(size_of(size))
    for n in shape:
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(f"{name}: sizes must be integers, received {n!r} in {shape}")
        if n < 0:
            raise RuntimeError(
                f"{name}: trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return tuple(n.__index__() for n in shape)


def check_inexact(name: str, dtype: DType) -> None:
    """Refuse dtypes that a continuous law does not fit."""
    if not dtype.is_inexact:
        raise NotImplementedError(
            f"{name}: not implemented for {dtype.name!r}. Pass a floating-point or complex dtype."
        )


def place_of(device: Any) -> Device:
    """The device of a `device=` argument."""
    return CPU if device is None else Device(device)


def finish(out: Tensor, requires_grad: bool) -> Tensor:
    """Mark a new tensor as a leaf that wants a gradient."""
    return out.requires_grad_() if requires_grad else out


@public(out=True)
def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform numbers on [0, 1).

    >>> import adjoint as ad
    >>> _ = ad.manual_seed(0)
    >>> ad.rand(2, 3).shape
    adjoint.Size([2, 3])
    """
    dtype = dtype or dt.get_default_dtype()
    check_inexact("rand", dtype)
    shape = check_size("rand", size)
    out = draw("rand", "uniform", (0.0, 1.0), shape, dtype, place_of(device), generator)
    return finish(out, requires_grad)


@public(out=True)
def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Standard normal numbers; complex ones have variance 1, shared by their two parts."""
    dtype = dtype or dt.get_default_dtype()
    check_inexact("randn", dtype)
    shape = check_size("randn", size)
    out = draw("randn", "normal", (0.0, 1.0), shape, dtype, place_of(device), generator)
    return finish(out, requires_grad)


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
    """Uniform numbers on [0, 1) in the shape of `input`."""
    return rand(
        tuple(input.shape),
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
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
    """Standard normal numbers in the shape of `input`."""
    return randn(
        tuple(input.shape),
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
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
        raise NotImplementedError(f"{name}: not implemented for {dtype.name!r}")
    least, most = value_range(dtype)
    if dtype.is_floating_point:
        most, least = {"float16": (65504, -65504)}.get(dtype.name, (1 << 63, -(1 << 63)))
    for which, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(
                f"{name}: {which} is out of bounds for {dtype.name}: received {value}, expected a "
                f"value in [{least}, {most}]"
            )


@public(out=True)
def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform integers of [low, high); `randint(high, size)` starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None or isinstance(size, int):
        raise TypeError(
            f"randint: argument 'size' must be a tuple of ints, received {size!r}. Call "
            "randint(high, size) or randint(low, high, size)."
        )
    dtype = dtype or dt.int64
    low, high = int(low), int(high)
    check_bounds("randint", low, high, dtype)
    shape = check_size("randint", (size,))
    out = draw("randint", "integers", (low, high), shape, dtype, place_of(device), generator)
    return finish(out, requires_grad)


@public()
def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
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
    low, high = (0, low) if high is None else (low, high)
    return randint(
        low,
        high,
        tuple(input.shape),
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


@public(out=True)
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random order of 0, 1, ... n - 1."""
    dtype = dtype or dt.int64
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative, received {n}")
    if n - 1 > value_range(dtype)[1] or dtype.is_complex:
        raise RuntimeError(f"randperm: n is too large for {dtype.name}: received {n}")
    where = place_of(device)
    levels = batch_levels("randperm")
    batch = tuple(level.size for level in levels)
    seed, offset = generator_for("randperm", generator, where).draw(blocks(prod(batch) * n, 64))
    out = PERMUTATION(seed, offset, length=n, batch=batch, dtype=dtype, device=where)
    return finish(wrap_batches(levels, out), requires_grad)
