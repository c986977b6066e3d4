"""Settings that a function reads and leaves: modes, the default dtype and device, switches."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, tried

# How each is set and read, and two values of it, the first of which it has at the start.
SETTINGS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], Any, Any]] = {
    "grad": (ad.set_grad_enabled, ad.is_grad_enabled, True, False),
    "anomaly": (ad.autograd.set_detect_anomaly, ad.is_anomaly_enabled, False, True),
    "dtype": (ad.set_default_dtype, ad.get_default_dtype, ad.float32, ad.float64),
    "device": (ad.set_default_device, ad.get_default_device, ad.device("cpu"), ad.device("meta")),
    "threads": (ad.set_num_threads, ad.get_num_threads, 1, 2),
    "deterministic": (
        ad.use_deterministic_algorithms, ad.are_deterministic_algorithms_enabled, False, True,
    ),
    "warnings": (ad.set_warn_always, ad.is_warn_always_enabled, False, True),
    "autocast": (
        lambda on: ad.set_autocast_enabled("cpu", on), lambda: ad.is_autocast_enabled("cpu"),
        False, True,
    ),
    "autocast dtype": (
        lambda dtype: ad.set_autocast_dtype("cpu", dtype), lambda: ad.get_autocast_dtype("cpu"),
        ad.bfloat16, ad.float16,
    ),
    "cuDNN": (
        lambda on: setattr(ad.backends.cudnn, "deterministic", on),
        lambda: ad.backends.cudnn.deterministic, False, True,
    ),
    "oneDNN": (
        lambda on: setattr(ad.backends.mkldnn, "deterministic", on),
        lambda: ad.backends.mkldnn.deterministic, False, True,
    ),
    "printing": (
        lambda digits: ad.set_printoptions(precision=digits),
        lambda: len(repr(ad.tensor(1.23456))), 4, 2,
    ),
}  # fmt: skip


def _with_each(play: Callable[..., list[Any]]) -> Any:
    out = {}
    for name, (put, read, first, second) in SETTINGS.items():
        before = ad.get_num_threads() if name == "threads" else first
        put(first)
        try:
            out[name] = [str(x) for x in play(put, read, first, second)]
        finally:
            put(before)
    return out


@program
def setting_left(wrap: Wrap) -> Any:
    def play(put, read, first, second):
        r, out = wrap(lambda x: (put(second), x * 2)[1]), []
        for _ in range(3):
            out += [tried(r, ad.ones(2, device="cpu")).shape, read()]
            put(first)
        return out

    return _with_each(play)


@program
def setting_left_as_it_was_at_first(wrap: Wrap) -> Any:
    def play(put, read, first, second):
        r, out = wrap(lambda x: (put(first), x * 2)[1]), []
        for before in (first, second, second):
            put(before)
            out += [tried(r, ad.ones(2, device="cpu", dtype=ad.float32)).shape, read()]
        return out

    return _with_each(play)


@program
def setting_read(wrap: Wrap) -> Any:
    def play(put, read, first, second):
        if isinstance(first, int) and not isinstance(first, bool) and first == 4:
            return []  # how tensors print is read by printing alone
        r, out = wrap(lambda x: x * (2 if read() == second else 3)), []
        for now in (first, second, first, second):
            put(now)
            x = ad.ones(1, device="cpu", dtype=ad.float32)
            out.append(tried(r, x).tolist())
        return out

    return _with_each(play)


@program
def grad_mode_turned(wrap: Wrap) -> Any:
    def f(x):
        ad.set_grad_enabled(not ad.is_grad_enabled())
        return x * 2

    r, x, out = wrap(f), ones(2).requires_grad_(), []
    try:
        for _ in range(5):
            out += [tried(r, x).requires_grad, ad.is_grad_enabled()]
    finally:
        ad.set_grad_enabled(True)
    return out


@program
def grad_mode_entered_and_not_left(wrap: Wrap) -> Any:
    def f(x):
        ad.no_grad().__enter__()
        return x * 2

    r, x, out = wrap(f), ones(2).requires_grad_(), []
    for _ in range(3):
        try:
            out += [tried(r, x).requires_grad, ad.is_grad_enabled()]
        finally:
            ad.set_grad_enabled(True)
    return out


@program
def setting_left_by_what_raises(wrap: Wrap) -> Any:
    def f(x):
        ad.set_grad_enabled(False)
        raise ValueError("no")

    r, out = wrap(f), []
    for _ in range(3):
        try:
            out += [tried(r, ones(1)), ad.is_grad_enabled()]
        finally:
            ad.set_grad_enabled(True)
    return out


@program
def gradients_looked_at_in_anomaly_mode(wrap: Wrap) -> Any:
    w = ad.zeros(2, requires_grad=True)
    looked_at = [False]

    def f(x: Any) -> Any:
        with ad.autograd.set_detect_anomaly(looked_at[0]):
            (w * x).sqrt().sum().backward()
        return w.grad

    run = wrap(f)
    out = [tried(run, ones(2))]
    for on in (True, False):
        w.grad, looked_at[0] = None, on
        out.append(type(tried(run, ones(2) * float("nan"))))
    return out
