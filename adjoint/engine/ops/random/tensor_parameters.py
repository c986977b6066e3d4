"""Samples of laws whose parameters are tensors.

Each is a deterministic function of its parameters and of random words or numbers drawn for it,
so that batching, capture and devices concern only the draw (ops.random). A sample does not depend
smoothly on the parameters: as in PyTorch its derivative is zero.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, DTypeValueError, ShapeError
from adjoint.engine.core.operations.families import composite, elementwise, primitive
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import Generator, generator_for
from adjoint.engine.ops.common.arguments import need_tensor, sizes, whole
from adjoint.engine.ops.create.creation import finish
from adjoint.engine.ops.random.random import (
    RANDOM,
    blocks,
    check_inexact,
    create,
    draw,
    word_bits,
)
from adjoint.engine.ops.random.samplers import fill, standard

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _first_dtype(words: Any, x: Any, *_: Any) -> DType:
    return x.dtype


# BERNOULLI(fractions, p): 1 where the fraction, uniform on (0, 1), is below p.
BERNOULLI = elementwise(
    "bernoulli",
    None,
    0.0,
    infer_dtype=_first_dtype,
    native_check=False,
    rounding="exact",
    fails="values",
    draws=True,
    fragment="device",
)
# NORMAL(z, mean, std): mean + std * z, each operation rounded on its own.
NORMAL = elementwise(
    "normal",
    None,
    0.0,
    0.0,
    promotes_from=1,
    infer_dtype=lambda z, *_: z.dtype,
    draws=True,
    fragment="device",
)
# POISSON(words, rate), BINOMIAL(words, count, prob): each word names a stream of its own. On a GPU
# they are one launch as they are.
POISSON = elementwise(
    "poisson",
    None,
    0.0,
    promotes_from=1,
    accepts="f",
    draws=True,
    fails="values",
    fragment="composed",
    by_library=True,
)
BINOMIAL = elementwise(
    "binomial",
    None,
    0.0,
    0.0,
    promotes_from=1,
    accepts="f",
    draws=True,
    fragment="composed",
    by_library=True,
)
# What is said of a rate that is none.
NEGATIVE_RATE = "poisson: invalid Poisson rate, expected rate to be non-negative"
# What is said of weights that are none, and of rows of weights without a sum.
NO_WEIGHTS = "multinomial: probability tensor contains either `inf`, `nan` or element < 0"
NO_DISTRIBUTION = "multinomial: invalid multinomial distribution (sum of probabilities <= 0)"
# MULTINOMIAL(weights, noise, replacement): categories, chosen by words or by exponential numbers.
MULTINOMIAL = primitive(
    "multinomial",
    lambda x, noise, *, count, replacement: Spec((*x.shape[:-1], count), dt.int64, x.device),
    None,
    None,
    batched_params=lambda params, size: params,
    draws=True,
    fragment="composed",
)


def room_of(categories: int) -> int:
    """The power of two by which weights, 1 at most, become whole numbers that sum exactly."""
    return 62 - (categories - 1).bit_length()


def _words(name: str, shape: tuple[int, ...], like: Tensor, generator: Any) -> Tensor:
    return draw(name, "bits", (), shape, dt.int64, like.device, generator)


def _law_of_fractions(p: Tensor) -> tuple[str, tuple[float, ...]]:
    return ("uniform", (0.0, 1.0)) if p.dtype is dt.float64 else ("fraction", ())


def _fractions(shape: tuple[int, ...], p: Tensor, generator: Any) -> Tensor:
    law, args = _law_of_fractions(p)
    return draw("bernoulli", law, args, shape, dt.float64, p.device, generator)


def _bernoulli_by_place(p: Tensor, seed: Any, offset: Any) -> Tensor:
    law, args = _law_of_fractions(p)
    fractions = RANDOM(
        seed, offset, law=law, args=args, shape=tuple(p.shape), dtype=dt.float64, device=p.device
    )
    return BERNOULLI(fractions, p)


# BERNOULLI_DRAWN(p, seed, offset of the draw): on a GPU one kernel, which draws what it compares.
BERNOULLI_DRAWN: Record = composite(
    "bernoulli_drawn",
    _bernoulli_by_place,
    None,
    None,
    None,
    operands=("x", "seed", "offset"),
    fails="values",
    fragment="device",
    given_a_draw=True,
)


def drawn_law(law: Record, name: str) -> Record:
    """A law of words and a parameter, given a place in a stream: on a GPU one launch.

    Its operands are the parameter, in rows of float32 or float64, seed and offset.
    """

    def by_words(x: Tensor, seed: Any, offset: Any) -> Tensor:
        shape, device = tuple(x.shape), x.device
        return law(
            RANDOM(seed, offset, law="bits", args=(), shape=shape, dtype=dt.int64, device=device), x
        )

    return composite(
        name, by_words, None, None, None, operands=("x", "seed", "offset"), fails="values",
        fragment="device", by_table=lambda operands, params: True, given_a_draw=True,
    )  # fmt: skip


POISSON_DRAWN = drawn_law(POISSON, "poisson_drawn")


def by_place(law: Record, name: str, x: Tensor, generator: Any) -> Tensor | None:
    """Samples on a GPU in eager mode; None elsewhere, and where the tape follows them."""
    array = x._array
    if array.__class__ not in DEVICE_LAYOUTS or not CONTEXT.settled:
        return None
    followed = CONTEXT.grad_enabled and x.requires_grad
    if followed or x.dtype not in (dt.float32, dt.float64) or not array.flags.c_contiguous:
        return None
    count = blocks(prod(x.shape), word_bits("bits", dt.int64))
    return law(x, *generator_for(name, generator, x.device).draw(count))


def _bernoulli(p: Tensor, generator: Any) -> Tensor:
    """1 with probabilities, else 0: row by row, however those lie."""
    at_once = p._array.__class__ in DEVICE_LAYOUTS and CONTEXT.settled
    if at_once and p._array.flags.c_contiguous:
        law, _ = _law_of_fractions(p)
        count = blocks(prod(p.shape), word_bits(law, dt.float64))
        place = generator_for("bernoulli", generator, p.device).draw(count)
        return BERNOULLI_DRAWN(p, *place)
    return BERNOULLI(_fractions(tuple(p.shape), p, generator), p)


@public(method=True, out=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probabilities in `input` (or with probability `p` in its shape), else 0.

    >>> import adjoint as ad
    >>> ad.bernoulli(ad.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    need_tensor("bernoulli", input)
    if p is not None:
        return _bernoulli_number(input, float(p), generator)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"bernoulli: not implemented for {input.dtype.name!r}: the probabilities must be "
            "floating-point. Convert them, or pass p=."
        )
    return _bernoulli(input, generator)


def _bernoulli_number(like: Tensor, p: float, generator: Generator | None) -> Tensor:
    if like.dtype.is_complex:
        raise NotImplementedError(f"bernoulli: not implemented for {like.dtype.name!r}")
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli: expects p to be in [0, 1], but got p={p}")
    return fill("bernoulli", "bernoulli", (p,), like, generator)


@public(inplace=True, function=False, name="bernoulli")
def bernoulli_fill(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability `p` (a number, or a tensor that broadcasts to `input`), else 0."""
    if not is_tensor(p):
        return _bernoulli_number(input, float(p), generator)
    if not p.dtype.is_floating_point:
        raise NotImplementedError(
            f"bernoulli_: expected probabilities tensor to have floating type, got {p.dtype.name}"
        )
    p = p.to(input.device).expand(tuple(input.shape))
    return _bernoulli(p, generator).to(input.dtype)


@public()
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers; `mean` and `std` may be tensors, or numbers with a `size`.

    Example:
        >>> import adjoint as ad
        >>> ad.normal(ad.zeros(3), ad.ones(3)).shape
        adjoint.Size([3])
    """
    if not is_tensor(mean) and not is_tensor(std):
        return _normal_numbers(
            mean,
            std,
            size,
            generator,
            out,
            dtype=dtype,
            device=device,
            requires_grad=requires_grad,
            layout=layout,
        )
    if size is not None:
        raise TypeError("normal: 'size' is for numbers; the tensors given have shapes already")
    like = mean if is_tensor(mean) else std
    if is_tensor(std):
        _check_std(std)
    elif not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    shape = broadcast_shapes("normal", *(x.shape for x in (mean, std) if is_tensor(x)))
    check_inexact("normal", like.dtype)
    z = draw("normal", "normal", (0.0, 1.0), tuple(shape), like.dtype, like.device, generator)
    return finish(NORMAL(z, mean, std), False, "normal", out)


def _normal_numbers(
    mean: float, std: float, size: Any, generator: Generator | None, out: Any, **options: Any
) -> Tensor:
    if size is None and out is None:
        raise TypeError(
            "normal: a mean and a standard deviation that are numbers need a size: "
            "normal(mean, std, size)"
        )
    if not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    dtype = options["dtype"] or (dt.get_default_dtype() if out is None else out.dtype)
    shape = tuple(out.shape) if size is None else sizes("normal", (), size)
    if dtype.is_complex and mean:  # the mean is real: it shifts one of the two parts
        grad = options.pop("requires_grad")
        law = ("normal", 0.0, float(std))
        samples = create("normal", law, shape, generator, requires_grad=False, **options)
        return finish(samples + mean, grad, "normal", out)
    law = ("normal", float(mean), float(std))
    return create("normal", law, shape, generator, out=out, **options)


def _check_std(std: Tensor) -> None:
    if std.dtype.is_complex:
        raise DTypeError("normal: expects standard deviation to be non-complex")
    # The elements of a symbolic tensor cannot be looked at.
    if CONTEXT.concrete and std.numel() and bool((std < 0).sum().item()):
        raise RuntimeError("normal: expects all elements of std >= 0.0")


@public(inplace=True, function=False, name="normal")
def normal_fill(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normal numbers in the shape of `input`."""
    return standard(input, mean, std, generator)


@public()
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson-distributed counts of the rates in `input`."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"poisson: not implemented for {input.dtype.name!r}")
    out = by_place(POISSON_DRAWN, "poisson", input, generator)
    if out is not None:
        return out
    return POISSON(_words("poisson", tuple(input.shape), input, generator), input)


@public()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in `count` trials of probability `prob`."""
    if not count.dtype.is_floating_point:
        raise DTypeValueError(
            f"binomial: expected a floating-point count, received {count.dtype.name}"
        )
    if count.dtype is not prob.dtype:
        raise DTypeError(
            f"binomial: expected count and prob of one floating-point dtype, received "
            f"{count.dtype.name} and {prob.dtype.name}"
        )
    shape = broadcast_shapes("binomial", count.shape, prob.shape)
    return BINOMIAL(_words("binomial", tuple(shape), count, generator), count, prob)


@public(method=True)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor:
    """Indices of categories drawn with the weights in each row of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.multinomial(ad.tensor([0.0, 1.0, 0.0]), 3, replacement=True)
        tensor([1, 1, 1])
    """
    num_samples = whole("multinomial", "num_samples", num_samples)
    _check_multinomial(input, num_samples, replacement)
    if out is not None and out.dtype is not dt.int64:
        raise DTypeError(f"multinomial: expects Long tensor out, got {out.dtype.name}")
    weights = input.detach()
    if replacement:
        shape = (*input.shape[:-1], num_samples)
        noise = _words("multinomial", shape, input, generator)
    else:
        shape = tuple(input.shape)
        noise = draw(
            "multinomial", "exponential", (1.0,), shape, dt.float64, input.device, generator
        )
    indices = MULTINOMIAL(weights, noise, count=num_samples, replacement=replacement)
    return finish(indices, False, "multinomial", out)


def _check_multinomial(input: Tensor, num_samples: int, replacement: bool) -> None:
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"multinomial: prob_dist must be 1 or 2 dim, received {input.ndim} dimensions"
        )
    if not input.dtype.is_floating_point:
        raise DTypeError(
            f"multinomial: only supports floating-point dtypes for input, got {input.dtype.name}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples: {num_samples}")
    categories = input.shape[-1]
    if not replacement and num_samples > categories:
        raise RuntimeError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without "
            f"replacement: received {num_samples} > {categories}"
        )
    if categories > 1 << 24:
        raise RuntimeError("multinomial: number of categories cannot exceed 2^24")
