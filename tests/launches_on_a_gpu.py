"""How few launches calls on a GPU take, and that they give what the CPU gives.

TRITON_INTERPRET=1 python -m tests.launches_on_a_gpu
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.nn import functional as F

# By name: a function, its operands, the launches of a call without the tape, and those of a call
# with its gradient by all operands that are floats (None: it has none).
LaunchCase = tuple[Callable[..., Any], tuple[Any, ...], int, int | None]


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    """Numbers that are the same every time."""
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def whole(most: int, *shape: int) -> Any:
    """The same of whole numbers."""
    return np.random.default_rng(most).integers(0, most, shape)


def last(x: Any) -> Any:
    """Images whose channels lie innermost."""
    return x.contiguous(memory_format=ad.channels_last)


def edges(like: Any) -> Any:
    """Numbers in order, on the device of others."""
    return ad.tensor([-1.0, -0.5, 0.0, 0.0, 1.0, 3.0], device=like.device)


def seeded(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What draws the same at each call."""

    def drawn(x: Any) -> Any:
        ad.manual_seed(7)
        return fn(x)

    return drawn


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    """Batch normalisation by the batch's own statistics."""
    return F.batch_norm(x, None, None, w, b, training=True)


def moved_statistics(x: Any, mean: Any, variance: Any) -> Any:
    """The running statistics after a batch."""
    mean, variance = mean.clone(), (variance * variance).clone()
    F.batch_norm(x, mean, variance, None, None, training=True)
    return mean, variance


def clipped(order: float, *gradients: Any) -> Any:
    """Gradients after their joint norm was limited, and what it was."""
    parameters = [ad.nn.Parameter(g.detach()) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g.clone()
    norm = ad.nn.utils.clip_grad_norm_(parameters, 0.7, order)
    return norm, *[parameter.grad for parameter in parameters]


def clip_shared(x: Any, y: Any) -> Any:
    """The same where two parameters have one gradient, which is scaled twice."""
    parameters = [ad.nn.Parameter(g.detach()) for g in (x, x, y)]
    shared = x.clone()
    for parameter, g in zip(parameters, (shared, shared, y.clone()), strict=True):
        parameter.grad = g
    norm = ad.nn.utils.clip_grad_norm_(parameters, 0.7)
    return norm, shared, parameters[2].grad


def clip_values(*gradients: Any) -> Any:
    """Gradients after each of their elements was limited."""
    parameters = [ad.nn.Parameter(g.detach()) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g.clone()
    ad.nn.utils.clip_grad_value_(parameters, 0.3)
    return tuple([parameter.grad for parameter in parameters])


images = draw(2, 3, 6, 5)
gradients = [draw(4, 5), draw(7), draw(2, 3, 4), draw(1), draw(9, 2), draw(3, 3)]
CASES: dict[str, LaunchCase] = {
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.3), (images,), 1, 2),
    "pad with more": (
        lambda x: F.pad(x, (1, 0, 0, 0, 1, 2), value=float("inf")), (images,), 1, 2
    ),
    "pad and cut": (lambda x: F.pad(x, (-1, 2, 2, -3)), (images,), 1, 2),
    "pad channels": (lambda x: F.pad(last(x), (1, 1, 1, 1)), (images,), 2, 4),
    "pad columns": (lambda x: F.pad(x.transpose(2, 3)[:, 1:], (0, 3), value=2), (images,), 1, 4),
    "pad halves": (lambda x: F.pad(x, (2, 1), value=0.1), (draw(4, 7, dtype=np.float16),), 1, 2),
    "pad doubles": (lambda x: F.pad(x, (2, 1), value=0.1), (draw(4, 7, dtype=np.float64),), 1, 2),
    "pad whole numbers": (lambda x: F.pad(x, (2, 1), value=-(2**40)), (whole(9, 4, 7),), 1, None),
    "pad truth": (lambda x: F.pad(x, (0, 1), value=1), (draw(4, 7) > 0,), 1, None),
    "unfold": (lambda x: F.unfold(x, (3, 2), 2, (1, 3), (2, 1)), (draw(2, 3, 8, 7),), 1, 2),
    "fold": (
        lambda x: F.fold(x, (6, 7), (3, 2), 1, (1, 0), (2, 3)), (draw(2, 12, 6),), 1, 2
    ),
    "fold apart": (lambda x: F.fold(x, (8, 7), 3, 2, 2, (1, 2)), (draw(2, 18, 32),), 1, 2),
    "fold halves": (
        lambda x: F.fold(x, (5, 5), 3), (draw(2, 18, 9, dtype=np.float16),), 1, 2
    ),
    "windows": (lambda x: x.unfold(1, 5, 2) * 1, (draw(4, 18, 3),), 1, 4),
    "windows of rows": (lambda x: x.unfold(0, 3, 1).sum(-1), (draw(9, 2, 3),), 1, 4),
    "stft": (
        lambda x, w: ad.stft(x, 8, 3, window=w, return_complex=False), (draw(2, 40), draw(8)), 2, 11
    ),
    "stft of columns": (
        lambda x, w: ad.stft(x.T, 9, 2, 5, w, pad_mode="circular", return_complex=True).abs(),
        (draw(40, 2), draw(5)), 4, 14,
    ),
    "stft without a window": (
        lambda x: ad.stft(x, 8, center=False, return_complex=True).abs(), (draw(33),), 2, 6
    ),
    "cartesian_prod": (
        lambda x, y: ad.cartesian_prod(x, y), (draw(4), draw(5)), 2, None
    ),
    "vander": (lambda x: ad.vander(x, 4), (draw(5),), 5, None),
    "max_unpool": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (draw(1, 2, 4, 6),), 3, None,
    ),
    "adaptive_max_pool": (
        lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), (draw(2, 3, 20, 19),), 1, None
    ),
    "adaptive_max_pool of NaN": (
        lambda x: F.adaptive_max_pool2d(x.log(), (2, 3), True), (draw(2, 3, 20, 19),), 2, None
    ),
    "max_pool of long windows": (
        lambda x: F.max_pool1d(x, 40, 3, 5, return_indices=True), (draw(2, 3, 70),), 1, None
    ),
    "bucketize": (lambda x: ad.bucketize(x, edges(x)), (draw(4, 5),), 1, None),
    "bucketize from the right": (
        lambda x: ad.bucketize(x, edges(x), right=True), (whole(6, 4, 5).astype(np.float32),), 1,
        None,
    ),
    "searchsorted by rows": (
        lambda x, y: ad.searchsorted(x, y), (np.sort(draw(3, 9)), draw(3, 4)), 1, None
    ),
    "searchsorted of another dtype": (
        lambda x, y: ad.searchsorted(x, y), (np.sort(whole(9, 7)), draw(3, 4)), 2, None
    ),
    "searchsorted beyond": (
        lambda x: ad.searchsorted(x, x.flip(0) * 2), (np.array([-1, 0, 3, np.inf, np.nan]),), 3,
        None,
    ),
    **{
        f"det of {n} rows": (ad.linalg.det, (draw(2, 3, n, n),), n // 2, 2 + n // 2)
        for n in (2, 3, 4)
    },
    "det of singular ones": (
        lambda x: ad.linalg.det((x > 0) * (x > 1.2).cumsum(-1) * 2.0), (draw(9, 3, 3),), 7, None
    ),
    "det of NaN": (lambda x: ad.linalg.det(x.clamp_min(0).log() * 0), (draw(9, 2, 2),), 4, None),
    "cat": (lambda x, y: ad.cat((x, y.T, x[:2])), (draw(4, 5), draw(5, 3)), 1, 4),
    "cat of many": (lambda x: ad.cat(x.tensor_split(11, 1), 1), (draw(4, 40),), 2, None),
    "stack": (lambda x, y: ad.stack((x, y.T), 1), (draw(4, 5), draw(5, 4)), 1, 1),
    **{
        f"{name} of numbers": (
            lambda x, name=name: getattr(ad, name)(20, device=x.device), (draw(3),), 2, None
        )
        for name in (
            "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"
        )
    },
    "frequencies": (lambda x: ad.fft.rfftfreq(9, 0.5, device=x.device), (draw(3),), 1, None),
    "masked put": (
        lambda x, v: x.index_put((x > 0,), v), (draw(4, 5), draw()), 2, 4
    ),
    "masked put of columns": (
        lambda x, v: x.T.index_put_((x.T > 0,), v), (whole(9, 4, 5) - 4, whole(99)), 3, None
    ),
    "masked_scatter": (
        lambda x, y: x.masked_scatter(x > 0, y), (draw(4, 5), draw(30)), 4, 10
    ),
    "masked_scatter over rows": (
        lambda x, y, m: x.masked_scatter(m > 4, y), (draw(4, 5), draw(20), whole(9, 5)), 4, None
    ),
    "attention with dropout": (
        seeded(lambda x: F.scaled_dot_product_attention(x, x, x, None, 0.3)),
        (draw(1, 2, 8, 16),), 1, 5,
    ),
    "bernoulli": (seeded(ad.bernoulli), (draw(4, 5) % 1,), 1, None),
    "poisson": (seeded(lambda x: ad.poisson(x * x)), (draw(4, 5),), 3, None),
    "gamma": (seeded(lambda x: ad._standard_gamma(x * x)), (draw(4, 5),), 3, None),
    "bernoulli of doubles": (
        seeded(ad.bernoulli), (draw(4, 5, dtype=np.float64) % 1,), 1, None
    ),
    "bernoulli of images": (
        seeded(lambda x: ad.bernoulli(last(x))), (draw(2, 3, 4, 5) % 1,), 3, None
    ),
    "rrelu of images": (
        seeded(lambda x: F.rrelu(last(x), training=True)), (draw(2, 3, 4, 5),), 2, 4
    ),
    "alpha_dropout": (
        seeded(lambda x: F.alpha_dropout(x, 0.3, True)), (draw(4, 5),), 1, 2
    ),
    "alpha_dropout of channels": (
        seeded(lambda x: F.feature_alpha_dropout(x, 0.6, True)), (draw(2, 3, 4, 5),), 2, 4
    ),
    "binary_cross_entropy": (
        lambda x, y: F.binary_cross_entropy(x % 1, y % 1), (draw(4, 5), draw(5, 4).T), 4, 11
    ),
    "binary_cross_entropy at the ends": (
        lambda x, y: F.binary_cross_entropy((x > 0).float(), y % 1, reduction="none"),
        (draw(4, 5), draw(4, 5)), 4, None,
    ),
    "cdist": (
        lambda x, y: ad.cdist(x, y, compute_mode="use_mm_for_euclid_dist"),
        (draw(3, 2), draw(4, 2)), 4, 16,
    ),
    "tril_indices": (lambda x: ad.tril_indices(17, 31, -5, device=x.device), (draw(1),), 1, None),
    "triu_indices": (
        lambda x: ad.triu_indices(31, 17, 5, dtype=ad.int32, device=x.device), (draw(1),), 1, None
    ),
    "rrelu": (seeded(lambda x: F.rrelu(x, training=True)), (draw(4, 5),), 1, 2),
    "rrelu of halves": (
        seeded(lambda x: F.rrelu(x, 0.2, 0.9, True)), (draw(4, 5, dtype=np.float16),), 1, 2
    ),
    "batch_norm": (batch_norm, (draw(4, 6, 5, 3) * 3 + 9, draw(6), draw(6)), 1, 2),
    "batch_norm of channels innermost": (
        lambda x, w, b: batch_norm(last(x), w, b), (draw(4, 8, 5, 3) * 3 + 9, draw(8), draw(8)), 2,
        None,
    ),
    "batch_norm by parts": (
        batch_norm, (draw(2, 3, 90, 124) * 3 + 9, draw(3), draw(3)), 3, 6
    ),
    "batch_norm of halves": (
        batch_norm, (draw(4, 6, 5, 3, dtype=np.float16), draw(6), draw(6)), 1, 2
    ),
    "batch_norm by its running statistics": (
        lambda x, w, b: F.batch_norm(x, w.detach(), (b * b).detach(), w, b),
        (draw(4, 6, 5, 3), draw(6), draw(6)), 2, 4,
    ),
    "instance_norm": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (draw(4, 6, 5, 4), *draw(2, 6)), 1, 3
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 2, w, b), (draw(4, 6, 5, 3), *draw(2, 6)), 1, 5
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (12,), w, b), (draw(4, 5, 12), *draw(2, 12)), 1, 3
    ),
    "running statistics": (moved_statistics, (draw(4, 6, 5, 3), draw(6), draw(6)), 5, None),
    **{
        f"clip_grad_norm_ of order {order}": (
            lambda *given, order=order: clipped(order, *given), (*gradients,), 12, None
        )
        for order in (2.0, 1.0, float("inf"))
    },
    "clip_grad_norm_ of a NaN": (
        lambda x, *given: clipped(2.0, x.log(), *given), (*gradients,), 13, None
    ),
    "clip_grad_norm_ of one gradient twice": (
        lambda x, y: clip_shared(x, y), (draw(4, 5), draw(7)), 9, None
    ),
    "clip_grad_value_": (
        lambda *given: clip_values(*given), (*gradients,), 8, None
    ),
    "multinomial": (seeded(lambda x: ad.multinomial(x, 1)), (np.abs(draw(3, 40)),), 2, None),
    "multinomial of several": (
        seeded(lambda x: ad.multinomial(x, 7)), (np.abs(draw(3, 40)),), 4, None
    ),
    "multinomial again": (
        seeded(lambda x: ad.multinomial(x, 50, True)), (np.abs(draw(3, 40)),), 6, None
    ),
}  # fmt: skip


def close(got: Any, want: Any, name: str) -> None:
    """The same up to rounding, lying the same way."""
    many = got if isinstance(got, tuple) else (got,)
    wanted = want if isinstance(want, tuple) else (want,)
    for k, (a, b) in enumerate(zip(many, wanted, strict=True)):
        assert a.dtype is b.dtype, (name, k)
        assert a.stride() == b.stride(), (name, k, a.stride(), b.stride())
        here = a.detach().cpu().resolve_conj().numpy()
        there = b.detach().resolve_conj().numpy()
        rough = 2e-3 if b.dtype.itemsize == 2 else 2e-5
        np.testing.assert_allclose(here, there, rough, rough, err_msg=f"{name}, result {k}")


def called(name: str, device: str, *, followed: bool) -> Any:
    """The results of a call, and of its gradient."""
    fn, given, *_ = CASES[name]
    xs = [ad.tensor(x, device=device) for x in given]
    if not followed:
        return fn(*xs)
    floats = [x.requires_grad_() for x in xs if x.is_floating_point()]
    out = fn(*xs)
    g = ad.tensor(draw(*out.shape, dtype=out.dtype.name), device=device)
    return out, *ad.autograd.grad(out, floats, g)


def check(name: str, counted: Callable[[], int] | None = None) -> None:
    """Calls until they are what they will stay; then so many launches."""
    *_, forward, both = CASES[name]
    for followed, most in ((False, forward), (True, both)):
        if most is None:
            continue
        want = called(name, "cpu", followed=followed)
        launches = -1
        for _ in range(26 if counted and not followed else 3):
            before = counted() if counted else 0
            got = called(name, "cuda", followed=followed)
            launches = counted() - before if counted else 0
            if launches <= most:
                close(got, want, name)
        assert launches <= most, (name, followed, launches)
        close(got, want, name)


def main(names: list[str]) -> None:
    """All of it on the stand-in."""
    gpu = importlib.import_module("tests.cupy_stand_in").connect()
    for name in names or CASES:
        check(name, lambda: gpu.launched)
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
