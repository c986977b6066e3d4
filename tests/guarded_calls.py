"""Calls of native code whose operands, results and own values end at pages without access.

Run by `tests/test_guarded_memory.py` in a process of its own, which ends where a kernel reads or
writes outside an array. What is being run is said before it is.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.graph.eager.many_sizes import open_kinds
from adjoint.engine.ops.linalg.det import COFACTOR
from tests import guarded_memory, quick_code

DENSE, TURNED, APART = (
    "dense",
    "turned",
    "apart",
)  # row after row, column after column, every second
SIZES = (1, 7, 33)  # none, a part of one, and whole vectors with an element more


class GuardedCall(NamedTuple):
    """A function of tensors, and their shapes at a size; with gradients if `is_trained`."""

    name: str
    call: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]]
    is_trained: bool = False
    dtype: str = "float32"


def in_a_loop(w: Any, c: Any, xs: Any) -> Any:
    """One row and a part of a matrix, in every turn."""
    width = c.shape[1]
    turn = lambda c, x: ((c @ w[::2, ::3] * 0.1 + x).tanh()[:, :width], c.sum())
    return ad.scan(turn, c, xs)


def written(x: Any, y: Any) -> Any:
    """Fills and copies of parts."""
    x = x.clone()
    x[..., ::2].fill_(2)
    x[1:].copy_(y[1:].flip(-1))
    return x, (x > 0) & (y > 0).flip(0)


def by_channels(x: Any, w: Any, **geometry: Any) -> Any:
    """A convolution of images (N, H, W, C)."""
    return F.conv2d(x.permute(0, 3, 1, 2), w, **geometry)


CALLS = (
    GuardedCall("thin products", lambda a, b: a @ b, lambda n: [(n, n + 2), (n + 2, 3)], True),
    GuardedCall("products", lambda a, b: a @ b, lambda n: [(n + 40, n), (n, n + 33)], True),
    GuardedCall("products and a row", lambda a, b, c: a @ b + c, lambda n: [(n + 40, n), (n, n + 33), (n + 33,)], True),
    GuardedCall("products and a matrix", lambda a, b, c: c + a @ b, lambda n: [(n + 40, n), (n, n + 33), (n + 40, n + 33)], True),
    GuardedCall("rows times matrices", lambda a, b: a @ b, lambda n: [(1, n + 90), (n + 90, n)]),
    GuardedCall("products of halves", lambda a, b: a @ b, lambda n: [(n, n), (n, n)], False, "float16"),
    GuardedCall("loops", in_a_loop, lambda n: [(2 * n, 3 * n + 96), (1, n), (3, 1, n + 32)]),
    GuardedCall(
        "depthwise convolutions", lambda x, w: F.conv2d(x, w, padding=1, groups=3),
        lambda n: [(1, 3, 9, n + 8), (3, 1, 3, 3)], True,
    ),
    GuardedCall(
        "every second window", lambda x, w: F.conv2d(x, w, stride=2, groups=2),
        lambda n: [(2, 4, 11, n + 9), (2, 2, 3, 2)], True,
    ),
    GuardedCall(
        "convolutions", lambda x, w: F.conv2d(x, w, padding=1),
        lambda n: [(1, 5, 8, n + 5), (16, 5, 3, 3)], True,
    ),
    GuardedCall(
        "convolutions of channels innermost",
        lambda x, v, w: (by_channels(x, v, padding=1, groups=v.shape[0]), by_channels(x, w, stride=2)),
        lambda n: [(2, 9, 8, n + 9), (n + 9, 1, 3, 3), (6, n + 9, 3, 3)], True,
    ),
    GuardedCall(
        "points of channels innermost", lambda x, w: by_channels(x, w, padding=1),
        lambda n: [(2, 7, 10, n + 8), (n + 7, n + 8, 3, 3)], True,
    ),
    GuardedCall(
        "padded max pooling", lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda n: [(1, 3, 7, n + 4)], True,
    ),
    GuardedCall(
        "max pooling of channels innermost",
        lambda x: (
            F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1), F.max_pool2d(x.permute(0, 3, 1, 2), 2, 1)
        ),
        lambda n: [(2, 7, 6, n + 30)], True,
    ),
    GuardedCall(
        "pooling", lambda x: (F.avg_pool2d(x, 2), F.max_pool2d(x, (2, 3), 1)),
        lambda n: [(2, 2, 5, n + 4)],
    ),
    GuardedCall("rows", lambda x: (x.softmax(1), x.sum(0), x.argmax(1)), lambda n: [(n, n + 9)], True),
    GuardedCall("short rows", lambda x: (x.softmax(1), x.sum((0, 2))), lambda n: [(n, 3, 5)], True),
    GuardedCall("reversed", lambda x, y: x.flip(1) + y, lambda n: [(5, n), (5, n)], True),
    GuardedCall("order", lambda x: (x.sort(-1), x.median(0), x.topk(1)), lambda n: [(3, n + 120)]),
    GuardedCall("many best", lambda x: x.topk(40), lambda n: [(3, n + 330)]),
    GuardedCall("running", lambda x: (x.cumsum(1), x.logcumsumexp(1)), lambda n: [(3, n)], True),
    GuardedCall("running extremes", lambda x: (*x.cummax(1), *x.cummin(0)), lambda n: [(3, n + 16)]),
    GuardedCall(
        "transforms", lambda x: (ad.fft.rfft(x).abs(), ad.view_as_real(ad.fft.fft(ad.complex(x, x)))),
        lambda n: [(n, 512)],
    ),
    GuardedCall(
        "rows added in place", lambda x, y: x.index_add_(0, ad.arange(len(y)) * 3, y),
        lambda n: [(300, n + 15), (100, n + 15)],
    ),
    GuardedCall("writes", written, lambda n: [(4, n), (4, n)]),
    GuardedCall("halves", lambda x: (x.float() * 2).to(ad.bfloat16).float(), lambda n: [(n, 5)], False, "float16"),
    GuardedCall("truths", lambda x, y: ad.cat([x > 0, y > 0], 1).mT.clone(), lambda n: [(n, 3), (n, 5)]),
    GuardedCall(
        "factors", lambda a: ad.linalg.lu(a @ a.mT + a.shape[0] * ad.eye(a.shape[0])),
        lambda n: [(n, n)],
    ),
    GuardedCall("cofactors", lambda a: COFACTOR(a / a.shape[0]), lambda n: [(2, n, n)]),
)  # fmt: skip


def laid_out(values: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """An array of these values whose memory holds no element after its last."""
    shape = values.shape
    order = range(len(shape)) if layout == TURNED else range(len(shape) - 1, -1, -1)
    steps, step = [0] * len(shape), 2 if layout == APART else 1
    for d in order:
        steps[d], step = step, step * shape[d]
    room = np.empty(1 + sum(s * (n - 1) for s, n in zip(steps, shape, strict=True)), values.dtype)
    array = as_strided(room, shape, [s * values.itemsize for s in steps])
    array[...] = values
    return array


def leaves(result: Any) -> Iterator[Any]:
    """The tensors of a result."""
    if isinstance(result, tuple | list):
        for x in result:
            yield from leaves(x)
    else:
        yield result


def with_gradients(call: Callable[..., Any]) -> Callable[..., Any]:
    """The results and what they say of the operands."""

    def both(*operands: Any) -> list[Any]:
        results = [*leaves(call(*operands))]
        trained = [r for r in results if r.requires_grad]
        total = sum((r * r).sum() for r in trained)
        return [*results, *ad.autograd.grad(total, operands)]  # type: ignore[arg-type]

    return both


class PlacedCall(NamedTuple):
    """A call, eager or compiled, at one size and layout."""

    name: str
    call: Callable[..., Any]
    given: list[np.ndarray[Any, Any]]
    layout: str
    is_trained: bool

    def results(self) -> list[np.ndarray[Any, Any]]:
        """What the call gives for arrays that are made now."""
        operands = [
            ad.from_numpy(laid_out(x, self.layout)).requires_grad_(self.is_trained)
            for x in self.given
        ]
        return [x.detach().numpy().copy() for x in leaves(self.call(*operands))]


def prepared() -> list[PlacedCall]:
    """All calls, with numbers of their own."""
    rng = np.random.default_rng(0)
    found = []
    for k, (name, call, shapes, is_trained, dtype) in enumerate(CALLS):
        both = with_gradients(call) if is_trained else call
        for m, size in enumerate(SIZES):
            layout = (DENSE, TURNED, APART)[(k + m) % 3]
            given = [rng.standard_normal(shape).astype(dtype) for shape in shapes(size)]
            found.append(PlacedCall(f"{name} at {size}", both, given, layout, is_trained))
            if size == SIZES[-1]:
                name = f"{name} compiled"
                found.append(PlacedCall(name, ad.compile(both), given, DENSE, is_trained))
    return found


def is_guarded(place: str) -> bool:
    """Whether a process ends that reads beside an array."""
    array = np.empty(5, np.float32)
    outside = array.ctypes.data + (array.nbytes if place == "behind" else -1)
    child = os.fork()
    if not child:
        faulthandler.disable()  # this is no fault
        ctypes.string_at(outside, 1)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main() -> None:
    """Every call with arrays anywhere, before pages without access and behind such pages."""
    quick_code.leave_out_passes()
    ad.set_num_threads(1)
    open_kinds.OFTEN_MET = 2  # plans for many sizes, too
    guarded_memory.guard_arenas()
    calls = prepared()
    wanted = [call.results() for call in calls]
    for place in guarded_memory.PLACES:
        guarded_memory.guard_arrays(place)
        assert is_guarded(place), place
        for call, right in zip(calls, wanted, strict=True):
            print(place, call.name, call.layout, [x.shape for x in call.given], flush=True)
            for x, y in zip(call.results(), right, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
    print("nothing outside was touched")


if __name__ == "__main__":
    main()
