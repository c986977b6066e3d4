"""Complex numbers in compiled programs: native code, with the eager table's results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Function = Callable[..., Any]
SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e10)


def numbers(rng: np.random.Generator, *shape: int, double: bool = False) -> ad.Tensor:
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return ad.from_numpy(values.astype(np.complex128 if double else np.complex64))


def calls_of(compiled: Any) -> str:
    """What `explain` says of calls of the eager table."""
    (first, *_) = str(compiled.explain()).splitlines()
    return next(part.strip() for part in first.split(",") if "eager table" in part).split(";")[0]


def close(actual: Any, want: Any) -> None:
    a, w = (np.asarray(x.detach().numpy()) for x in (actual, want))
    assert a.dtype == w.dtype
    assert a.shape == w.shape
    bound = {4: 2e-5, 8: 1e-11}[a.real.itemsize]
    scale = max(float(np.abs(w).max(initial=0.0)), 1.0)
    np.testing.assert_allclose(a, w, rtol=bound, atol=bound * scale)


PROGRAMS: dict[str, Function] = {
    "product": lambda z, w: z * w,
    "quotient": lambda z, w: (z + 1j) / (w - 2),
    "by a number": lambda z, w: z / (1 + 2j) + z / 3 + 2 / w,
    "size and angle": lambda z, w: (z * w).abs() + (z - w).angle(),
    "exponential": lambda z, w: (z.exp() * w.conj()).sum(1),
    "parts": lambda z, w: (z * w).real + (z * w).imag * z.real,
    "product of matrices": lambda z, w: z @ w.conj().transpose(0, 1) + 1,
    "joined": lambda z, w: ad.cat([z * 2, w.conj(), z[:1]]).reshape(-1)[3:],
    "chosen": lambda z, w: ad.where(z.real > 0, z * w, w) * (z == z).float(),
    "mean": lambda z, w: (z - z.mean()).abs().square().mean(),
    "made of reals": lambda z, w: ad.complex(z.real, w.real) * 1j,
    "pairs": lambda z, w: ad.view_as_real(z * w).flatten(1) * 2,
    "with reals": lambda z, w: z * w.real + w.imag - 3,
    "logarithm and root": lambda z, w: z.log() + (z * w).sqrt() * (2 + w).log(),
    "powers": lambda z, w: z**2 + z**2.5 + (z + 3) ** w + z.sqrt() ** 0.5,
    "waves": lambda z, w: z.sin() * w.cos() + (z + w).sinh() - w.cosh(),
    "raised": lambda z, w: z.to(ad.complex128) * w,
}  # fmt: skip


# Machine code of many functions, which takes seconds to make.
LONG = ("logarithm and root", "powers", "waves")
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in PROGRAMS]


@pytest.mark.parametrize("name", NAMES)
def test_programs_are_native_and_the_same(name: str) -> None:
    function, rng = PROGRAMS[name], np.random.default_rng(3)
    for double in (False, True):
        z, w = (numbers(rng, 5, 7, double=double) for _ in range(2))
        wide = numbers(rng, 7, 12, double=double)
        for given in ((z, w), (wide.T[1:11:2], w), (z[:1].expand(5, 7), w)):
            compiled = ad.compile(function)
            close(compiled(*given), function(*given))
            assert calls_of(compiled) == "0 calls of the eager table"


@pytest.mark.parametrize("name", [n for n in NAMES if n != "chosen"])
def test_gradients_are_the_same(name: str) -> None:
    function, rng = PROGRAMS[name], np.random.default_rng(4)
    z, w = numbers(rng, 5, 7), numbers(rng, 5, 7)

    def gradients(z: ad.Tensor, w: ad.Tensor) -> Any:
        z, w = z.detach().requires_grad_(), w.detach().requires_grad_()
        out = function(z, w)
        size = ad.view_as_real(out) if out.is_complex() else out
        (size * size).sum().backward()
        return [x.grad for x in (z, w) if x.grad is not None]

    compiled = ad.compile(gradients)
    for actual, want in zip(compiled(z, w), gradients(z, w), strict=True):
        close(actual, want)


STEPS: list[Callable[[random.Random, Any, Any], Any]] = [
    lambda r, z, w: z * w,
    lambda r, z, w: z + w.conj(),
    lambda r, z, w: z / (w.abs() + 1),
    lambda r, z, w: z / (w * w.conj() + (1 + 1j)),
    lambda r, z, w: z - r.choice([2, 0.5, 1j, 1 - 2j]),
    lambda r, z, w: (z / (z.abs() + 2)).exp(),
    lambda r, z, w: ad.complex(z.real.tanh(), w.imag.sin()),
    lambda r, z, w: z.flip(0) * w.real,
    lambda r, z, w: z.sum(r.randrange(2), keepdim=True) / 4 + w,
    lambda r, z, w: ad.cat([z[:, 2:], w[:, :2]], 1),
    lambda r, z, w: ad.where(z.imag > w.real, z, w * 0.5),
    lambda r, z, w: (z @ w.transpose(0, 1).conj() @ w) / 8,
    lambda r, z, w: z.reshape(-1).roll(3).reshape(z.shape),
    lambda r, z, w: ad.view_as_complex(ad.view_as_real(z) * 0.5),
    lambda r, z, w: -z + z.mean(),
]


def check_random_program(seed: int) -> None:
    draw = random.Random(seed)
    chosen = [draw.choice(STEPS) for _ in range(draw.randint(3, 7))]
    seeds = [draw.random() for _ in chosen]

    def function(z: ad.Tensor, w: ad.Tensor) -> Any:
        z, w = z.detach().requires_grad_(), w.detach().requires_grad_()
        values = [z, w]
        for step, one in zip(chosen, seeds, strict=True):
            inner = random.Random(one)
            values.append(step(inner, values[-1], values[inner.randrange(len(values))]))
        loss = values[-1].abs().square().mean()
        return values[-1].detach(), *ad.autograd.grad(loss, (z, w), allow_unused=True)

    rng = np.random.default_rng(seed)
    z, w = (numbers(rng, 4, 6, double=True) for _ in range(2))
    for actual, want in zip(ad.compile(function)(z, w), function(z, w), strict=True):
        if want is None:
            assert actual is None
        else:
            close(actual, want)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    check_random_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 150))
def test_many_random_programs(seed: int) -> None:
    check_random_program(seed)


@pytest.mark.parametrize("name", ["mul", "div", "exp", "abs", "add"])
def test_infinities_and_nothing(name: str) -> None:
    """What is infinite, missing or zero by the table is so natively."""
    grid = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], np.complex64)
    z, w = ad.from_numpy(grid[:, None]), ad.from_numpy(grid[None, :].copy())
    functions: dict[str, Function] = {
        "mul": lambda z, w: z * w, "div": lambda z, w: z / w, "add": lambda z, w: z + w,
        "exp": lambda z, w: z.exp(), "abs": lambda z, w: z.abs(),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        want = functions[name](z, w).numpy()
        actual = ad.compile(functions[name])(z, w).numpy()
    for part in (np.real, np.imag):
        a, exact = part(actual), part(want)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(exact))
        np.testing.assert_array_equal(
            np.where(np.isinf(a), a, 0), np.where(np.isinf(exact), exact, 0)
        )
        finite = np.isfinite(want)
        size = np.abs(np.where(finite, want, 0))  # one part may be what rounding left of the other
        assert (np.abs(a[finite] - exact[finite]) <= 1e-5 * size[finite]).all()


def test_complex_state_is_written() -> None:
    """A step that changes a complex parameter, by what was there before."""
    rng = np.random.default_rng(5)
    first, target = numbers(rng, 6), numbers(rng, 6)

    def run(compile_it: bool) -> list[Any]:
        parameter = first.clone().requires_grad_()
        optimizer = ad.optim.SGD([parameter], lr=0.1)

        def step() -> ad.Tensor:
            optimizer.zero_grad()
            loss = (parameter * target - 1j).abs().square().sum()
            loss.backward()
            optimizer.step()
            with ad.no_grad():
                parameter[1:].mul_(1 + 0.5j)
            return loss.detach()

        call = ad.compile(step) if compile_it else step
        return [*[call().clone() for _ in range(4)], parameter.detach().clone()]

    for actual, want in zip(run(True), run(False), strict=True):
        close(actual, want)


def test_sizes_may_change() -> None:
    def function(z: ad.Tensor) -> ad.Tensor:
        return (z * z.conj() + 1j).sum(0)

    compiled = ad.compile(function, dynamic=True)
    for n in (3, 5, 9, 4):
        z = numbers(np.random.default_rng(n), n, 3)
        close(compiled(z), function(z))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "log": (ad.log, np.log),
    "sqrt": (ad.sqrt, np.sqrt),
    "sin": (ad.sin, np.sin),
    "cos": (ad.cos, np.cos),
    "sinh": (ad.sinh, np.sinh),
    "cosh": (ad.cosh, np.cosh),
    "power": (lambda z: z ** (0.75 - 0.5j), lambda z: z ** np.clongdouble(0.75 - 0.5j)),
}


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_functions_are_as_exact_as_numpy_s(kind: Any) -> None:
    """Near the unit circle too; zeros and infinities as C has them, but for signs it leaves open."""
    rng = np.random.default_rng(8)
    z = np.exp(rng.uniform(-4, 4, 500) * (rng.random(500) < 0.8) + 1j * rng.uniform(-3, 3, 500))
    z = z.astype(kind)
    limits = np.finfo(kind)
    parts = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, limits.max / 2, -limits.tiny])
    special = np.empty((len(parts), len(parts)), kind)
    special.real, special.imag = parts[:, None], parts
    names = [*FUNCTIONS]
    compiled = ad.compile(lambda z: [FUNCTIONS[name][0](z) for name in names])
    with np.errstate(all="ignore"):
        for name, got in zip(names, compiled(ad.from_numpy(z)), strict=True):
            want = FUNCTIONS[name][1](z.astype(np.clongdouble))
            error = np.abs(got.numpy() - want) / np.abs(want)
            assert error.max() < (8 if name == "power" else 2.5) * limits.eps, name
        for name, got in zip(names, compiled(ad.from_numpy(special)), strict=True):
            if name == "power":
                continue
            want = FUNCTIONS[name][1](special)
            for a, w in ((got.numpy().real, want.real), (got.numpy().imag, want.imag)):
                sized = np.where(np.isinf(w), np.abs(w), w)
                same = np.isclose(
                    np.where(np.isinf(a), np.abs(a), a), sized, 1e-4, 0, equal_nan=True
                )
                assert same.all(), (name, special[~same], a[~same], w[~same])
