"""Convolutions of eager mode on a GPU, met again and again, against the CPU.

TRITON_INTERPRET=1 python -m tests.convolutions_on_a_gpu
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.nn import functional as F
from tests.small_calls_on_a_gpu import counted

Convolved = Callable[..., Any]
# A function, and the shapes of images, filters and bias.
CASES: dict[str, tuple[Convolved, tuple[tuple[int, ...], ...]]] = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((2, 3, 5, 4), (4, 3, 3, 3), (4,))),
    "without a bias": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 5, 4), (4, 3, 3, 3))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 1, 1), ((2, 3, 8), (4, 3, 3), (4,))),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b), ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (2,))),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, groups=3), ((2, 3, 5, 4), (3, 1, 3, 3), (3,))
    ),
    "of a stride": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), ((2, 3, 5, 5), (4, 3, 3, 3), (4,))),
    "padded unevenly": (
        lambda x, w, b: F.conv2d(x, w, b, padding="same"), ((2, 3, 5, 4), (4, 3, 2, 2), (4,))
    ),
    "one image": (lambda x, w, b: F.conv2d(x, w, b), ((3, 5, 4), (4, 3, 3, 3), (4,))),
    "channels last": (
        lambda x, w, b: F.conv2d(x.contiguous(memory_format=ad.channels_last), w, b),
        ((2, 3, 5, 4), (4, 3, 3, 3), (4,)),
    ),
    "transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2), ((2, 3, 4, 3), (3, 2, 3, 3), (2,))
    ),
}  # fmt: skip
DTYPES = (ad.float32, ad.float16)
OFTEN = 30


def draw(shape: tuple[int, ...], number: int) -> Any:
    """Numbers that are the same every time."""
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


def leaves_of(name: str, dtype: Any, device: str, number: int, followed: int) -> list[Any]:
    """Operands, of which those whose bits are set are followed."""
    leaves = [ad.tensor(draw(shape, number + k)) for k, shape in enumerate(CASES[name][1])]
    leaves = [x.to(dtype).to(device) for x in leaves]
    for k, leaf in enumerate(leaves):
        leaf.requires_grad_(bool(followed >> k & 1))
    return leaves


def close(got: Any, want: Any, told: Any, dtype: Any) -> None:
    """The same up to rounding, lying the same way."""
    far = 2e-5 if dtype is ad.float32 else 1e-2
    assert got.dtype is want.dtype, told
    assert got.stride() == want.stride(), (told, got.stride(), want.stride())
    np.testing.assert_allclose(
        got.detach().cpu().float().numpy(), want.detach().float().numpy(), far, far, str(told)
    )


def check(name: str, dtype: Any) -> None:
    """Results and gradients of all sorts of operands, in turns, until calls are heard and later."""
    fn, shapes = CASES[name]
    for call in range(OFTEN):
        followed = call * 5 % (1 << len(shapes))
        there = leaves_of(name, dtype, "cuda", call, followed)
        here = leaves_of(name, dtype, "cpu", call, followed)
        got, want = fn(*there), fn(*here)
        close(got, want, (name, call), dtype)
        assert got.requires_grad == want.requires_grad == bool(followed)
        if not followed:
            continue
        g = ad.tensor(draw(tuple(want.shape), call)).to(dtype)
        spread = g[..., :1].expand(g.shape) if call % 3 == 0 else g
        got.backward(spread.to("cuda") if call % 2 else spread.contiguous().to("cuda"))
        want.backward(spread)
        for k, (x, y) in enumerate(zip(there, here, strict=True)):
            assert (x.grad is None) == (y.grad is None), (name, call, k)
            if y.grad is not None:
                close(x.grad, y.grad, (name, call, k), dtype)


def check_twice() -> None:
    """Second derivatives; a node that is asked again; one whose operand was written to."""
    for call in range(3):
        got = []
        for device in ("cuda", "cpu"):
            x, w, b = leaves_of("conv2d", ad.float32, device, call, 7)
            out = CASES["conv2d"][0](x, w, b)
            first = ad.autograd.grad((out * out).sum(), (x, w, b), create_graph=True)
            total = sum((g * g).sum() for g in first)
            got.append([*first, *ad.autograd.grad(total, (x, w, b), retain_graph=True)])
            again = ad.autograd.grad(total, x)[0]
            np.testing.assert_array_equal(again.cpu().numpy(), got[-1][3].detach().cpu().numpy())
        for a, b in zip(*got, strict=True):
            np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), 1e-3, 1e-3)
    x, w, b = leaves_of("conv2d", ad.float32, "cuda", 0, 7)
    out = CASES["conv2d"][0](x, w, b)
    assert type(out.grad_fn).__name__ == "ConvolutionBackward0"
    with ad.no_grad():
        w.mul_(2)
    try:
        out.sum().backward()
    except RuntimeError as error:
        assert "modified" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a filter that was written to went unnoticed")


def check_refusals() -> None:
    """Operands that do not fit are refused as on the CPU."""
    x, w, b = (ad.tensor(draw(shape, 1)).to("cuda") for shape in CASES["conv2d"][1])
    wrong: dict[str, Callable[[], Any]] = {
        "channels": lambda: F.conv2d(x[:, :2], w, b),
        "elements": lambda: F.conv2d(x, w, b[:3]),
        "dtypes": lambda: F.conv2d(x, w.double(), b.double()),
        "devices": lambda: F.conv2d(x, w, b.cpu()),
        "transposed": lambda: F.conv_transpose2d(x[:, :2], w.transpose(0, 1), b),
    }
    for name, call in wrong.items():
        try:
            call()
        except RuntimeError:
            continue
        raise AssertionError(f"{name}: nothing was refused")


def check_launches(launched: Callable[[], int]) -> None:
    """A convolution and its bias are two launches, whose second writes to what the first made."""
    x, w, b = leaves_of("conv2d", ad.float32, "cuda", 0, 0)
    for followed in (False, True):
        b.requires_grad_(followed)
        for _ in range(OFTEN + 10):
            before = launched()
            F.conv2d(x, w, b, padding=1)
        assert launched() - before == 2
    with counted("meet_into") as found:
        F.conv2d(x, w, b, padding=1)
    assert found[0] == 1


def check_found() -> None:
    """Gradients are found by native code, but where convolutions are to be timed now."""

    def gradients() -> list[bytes]:
        leaves = leaves_of("conv2d", ad.float32, "cuda", 0, 7)
        out = F.conv2d(*leaves, padding=1)
        found = ad.autograd.grad(out, leaves, out.detach())
        return [x.cpu().numpy().tobytes() for x in found]

    want = gradients()
    assert gradients() == want
    with counted("pull_prepared") as asked:
        assert gradients() == want
        assert list(asked) == [0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cuDNN itself may not be there
            ad.backends.cudnn.benchmark = True
        try:
            assert gradients() == want
        finally:
            ad.backends.cudnn.benchmark = False
        assert list(asked) == [1]
        assert gradients() == want
    assert list(asked) == [1]


def check_autocast() -> None:
    """In a region calls are heard as well, and give what they give of tensors cast before."""

    def outcome(call: int, *, region: bool) -> list[Any]:
        leaves = leaves_of("conv2d", ad.float32, "cuda", call, 7 - call % 2)
        with ad.autocast("cuda", dtype=ad.bfloat16, enabled=region):
            given = leaves if region else [x.bfloat16() for x in leaves]
            out = F.conv2d(*given, padding=call % 2)
        out.backward(ad.ones_like(out))
        parts = [out, *[x.grad for x in leaves if x.grad is not None]]
        about = [(x.dtype, x.stride(), x.detach().float().cpu().numpy().tobytes()) for x in parts]
        return [type(out.grad_fn), *about]

    for call in range(OFTEN):
        assert outcome(call, region=True) == outcome(call, region=False)
    with counted("meet_straight") as found:
        outcome(0, region=True)
    assert found[0] == 2  # forward and backward


def main(names: list[str]) -> None:
    """All of it on the stand-ins, or some cases of floats."""
    gpu = importlib.import_module("tests.cupy_stand_in").connect()
    importlib.import_module("tests.convolutions_stand_in").connect(gpu)
    check_launches(lambda: gpu.launched)
    for name in names or CASES:
        for dtype in DTYPES[: 1 if names else None]:
            check(name, dtype)
    check_twice()
    check_refusals()
    check_found()
    check_autocast()
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
