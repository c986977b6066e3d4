"""Samples of laws whose parameters are numbers: in-place fills and their functional forms."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import Filling, Generator, generator_for
from adjoint.engine.ops.random.random import (
    RANDOM,
    blocks,
    check_bounds,
    check_inexact,
    draw,
    value_range,
    word_bits,
)

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def fill(
    name: str, law: str, args: tuple[Any, ...], like: Tensor, generator: Generator | Filling | None
) -> Tensor:
    """Samples in the shape, dtype and device of a tensor; a filled tensor itself (`Filling`)."""
    shape, dtype, device = tuple(like.shape), like.dtype, like.device
    if not isinstance(generator, Filling):
        return draw(name, law, args, shape, dtype, device, generator)
    source = generator_for(name, generator, device)
    values = prod(shape) * (2 if dtype.is_complex else 1)
    count = blocks(values, word_bits(law, dtype))
    drawn = source.draw(count)
    how = {"law": law, "args": args, "shape": shape, "dtype": dtype, "device": device}
    if HOOKS.put_into(RANDOM, drawn, how, like):
        if generator.generator is None:
            generator.done = source, count, how
        return like
    return RANDOM(*drawn, **how)


# By a method's name, its numbers and how a tensor on a GPU lies: what such a fill came to before.
FILLS_MET: dict[Any, tuple[Generator, int, dict[str, Any]]] = {}
KEPT_FILLS = 1 << 10
NUMBERS = (int, float)


def kind_of_fill(name: str, array: Any, args: tuple[Any, ...]) -> Any:
    """What decides a fill of a GPU's array from its default generator; None: more than that."""
    for x in args:
        if x.__class__ not in NUMBERS:
            return None
    return name, repr(args), array.dtype, array.shape, array.data.device_id


def fill_again(kind: Any, like: Tensor) -> bool:
    """Draw into a tensor as fills of its kind did before, if there was one that did so at once."""
    met = FILLS_MET.get(kind)
    if met is None or not CONTEXT.plain:
        return False
    source, count, how = met
    if HOOKS.put_into(RANDOM, source.draw(count), how, like):
        return True
    source.advance(-count)
    return False


def note_fill(kind: Any, filling: Filling) -> None:
    """Remember what a fill came to, if it was done at once."""
    if filling.done is not None:
        if len(FILLS_MET) >= KEPT_FILLS:
            FILLS_MET.clear()
        FILLS_MET[kind] = filling.done


def take_from(name: str, given: Any, keywords: dict[str, Any]) -> Any:
    """The argument PyTorch calls `from`, which Python cannot name in a signature."""
    if "from" in keywords:
        given = keywords.pop("from")
    if keywords:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(keywords))!r}")
    return given


def check_continuous(name: str, dtype: DType) -> None:
    """Refuse dtypes without fractions, for laws that PyTorch refuses by RuntimeError."""
    if not dtype.is_floating_point:
        raise DTypeError(
            f"{name}: a continuous probability distribution: dtype must be a floating point but "
            f"you specified {dtype.name}"
        )


@public(inplace=True, numbers="values")
def uniform(
    input: Tensor,
    from_: float = 0.0,
    /,
    to: float = 1.0,
    *,
    generator: Generator | None = None,
    **keywords: Any,
) -> Tensor:
    """Uniform numbers on [from, to) in the shape of `input`."""
    low, high = float(take_from("uniform", from_, keywords)), float(to)
    check_inexact("uniform", input.dtype)
    limit = LARGEST[input.dtype.to_real().name]
    if not low <= high:
        raise RuntimeError(
            f"uniform: expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if abs(low) > limit or abs(high) > limit or high - low > limit:
        raise RuntimeError(
            f"uniform: from={low} and to={high} (or their distance) are out of bounds for "
            f"{input.dtype.name}, whose largest value is {limit}"
        )
    return fill("uniform", "uniform", (low, high), input, generator)


def standard(like: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    """Normal samples in the shape of a tensor."""
    check_inexact("normal", like.dtype)
    if not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    if like.dtype.is_complex:  # the mean is real: it shifts one of the two parts
        out = fill("normal", "normal", (0.0, float(std)), like, generator)
        return out + mean if mean else out
    return fill("normal", "normal", (float(mean), float(std)), like, generator)


@public(inplace=True)
def exponential(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Exponentially distributed numbers of rate `lambd` in the shape of `input`."""
    check_continuous("exponential", input.dtype)
    if not lambd > 0:
        raise RuntimeError(f"exponential: expects lambda > 0.0, but found lambda={lambd}")
    return fill("exponential", "exponential", (float(lambd),), input, generator)


@public(inplace=True)
def cauchy(
    input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Cauchy-distributed numbers in the shape of `input`."""
    check_continuous("cauchy", input.dtype)
    if not sigma > 0:
        raise RuntimeError(f"cauchy: expects sigma > 0.0, but found sigma={sigma}")
    return fill("cauchy", "cauchy", (float(median), float(sigma)), input, generator)


@public(inplace=True, numbers="values")
def log_normal(
    input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Exponentials of normal numbers in the shape of `input`."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"log_normal: not implemented for {input.dtype.name!r}")
    if not std > 0:
        raise RuntimeError(f"log_normal: expects std > 0.0, but found std={std}")
    return fill("log_normal", "log_normal", (float(mean), float(std)), input, generator)


@public(inplace=True)
def geometric(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Numbers of trials of probability `p` up to the first success, in the shape of `input`."""
    if input.dtype.is_complex or input.dtype is dt.bool_:
        raise NotImplementedError(f"geometric: not implemented for {input.dtype.name!r}")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric: expects p to be in (0, 1), but got p={p}")
    return fill("geometric", "geometric", (float(p),), input, generator)


@public(inplace=True, function=False)
def random(
    input: Tensor,
    *bounds: int | None,
    generator: Generator | None = None,
    **keywords: Any,
) -> Tensor:
    """Uniform integers: random_(), random_(to) or random_(from, to), `to` excluded.

    Without `to`, up to the largest value of the dtype (for floats, that it counts exactly).
    """
    names = ("to",) if len(bounds) == 1 and "to" not in keywords else ("from", "to")
    given = dict(zip(names, bounds, strict=False))
    if len(bounds) > 2 or given.keys() & keywords.keys() or keywords.keys() - {"from", "to"}:
        raise TypeError(
            "random_() takes (), (to) or (from, to) with an optional generator, received "
            f"{bounds} and {keywords}"
        )
    given |= keywords
    if any(isinstance(bound, float) for bound in given.values()):
        raise TypeError(f"random_: the bounds must be integers, received {given}")
    if input.dtype.is_complex:
        raise NotImplementedError(f"random_: not implemented for {input.dtype.name!r}")
    low, high = given.get("from"), given.get("to")
    low = 0 if low is None else int(low)
    high = value_range(input.dtype)[1] + 1 if high is None else int(high)
    check_bounds("random_", low, high, input.dtype)
    return fill("random_", "integers", (low, high), input, generator)
