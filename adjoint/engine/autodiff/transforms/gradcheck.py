"""Checking derivatives against finite differences: gradcheck, gradgradcheck."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.autodiff.transforms.forward import jvp
from adjoint.engine.autodiff.transforms.gradient import vjp
from adjoint.engine.core.dtype import complex128, float64
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.random.random import randn_like
from adjoint.engine.ops.shape.join import stack

Fn = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A derivative disagrees with finite differences."""


class Probe:
    """A function at a point: its differentiable outputs, and how they change with each input."""

    def __init__(self, func: Fn, inputs: tuple[Any, ...], eps: float) -> None:
        self.func = func
        self.inputs = inputs
        self.eps = eps
        self.places = [i for i, x in enumerate(inputs) if is_tensor(x) and x.requires_grad]
        self.kinds: list[int] = []  # which outputs count
        outs = self.call(*inputs)
        self.kinds = [i for i, o in enumerate(outs) if is_tensor(o) and o.dtype.is_inexact]
        self.outs = [outs[i] for i in self.kinds]

    def call(self, *inputs: Any) -> list[Any]:
        """All outputs, or those that count once that is known."""
        out = self.func(*inputs)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        return [outs[i] for i in self.kinds] if self.kinds else outs

    def slopes(self, place: int, direction: complex) -> list[list[Any]]:
        """Central differences: for each element of an input, the change of every output."""
        x = self.inputs[place].detach()
        table = []
        for j in range(x.numel()):
            nudge = x.new_zeros(x.numel())
            nudge[j] = self.eps * direction if x.dtype.is_complex else self.eps
            nudge = nudge.reshape(x.shape)
            sides = []
            for moved in (x + nudge, x - nudge):
                args = self.fresh()
                args[place] = moved.requires_grad_()
                sides.append([o.detach() for o in self.call(*args)])
            table.append([(up - down) / (2 * self.eps) for up, down in zip(*sides, strict=True)])
        return table

    def fresh(self) -> list[Any]:
        """The inputs as new leaves."""
        return [
            a.detach().requires_grad_(a.requires_grad) if is_tensor(a) else a for a in self.inputs
        ]

    def by_output(self, place: int, direction: complex) -> list[Any]:
        """Per output, the slopes as a tensor of shape (elements of the input, *output)."""
        table = self.slopes(place, direction)
        if not table:
            return [o.detach().new_zeros((0, *o.shape)) for o in self.outs]
        return [stack(column) for column in zip(*table, strict=True)]


def _units(out: Any) -> list[complex]:
    return [1, 1j] if out.dtype.is_complex else [1]


def _one_hot(like: Any, k: int, unit: complex) -> Any:
    hot = like.detach().new_zeros(like.numel())
    hot[k] = unit if like.dtype.is_complex else 1
    return hot.reshape(like.shape)


def _real_product(u: complex, slopes: Any) -> Any:
    """Re(conj(u) * slopes): the slope of the loss whose cotangent is u."""
    product = slopes * complex(u).conjugate() if slopes.dtype.is_complex else slopes
    return product.real if product.dtype.is_complex else product


def _check_backward(probe: Probe, atol: float, rtol: float, nondet_tol: float) -> None:
    xs = [probe.inputs[i] for i in probe.places]
    for n, place in enumerate(probe.places):
        x = probe.inputs[place]
        parts = [probe.by_output(place, d) for d in ((1, 1j) if x.dtype.is_complex else (1,))]
        for i, out in enumerate(probe.outs):
            for k in range(out.numel()):
                for unit in _units(out):
                    analytical = _pulled(out, xs, _one_hot(out, k, unit))[n]
                    again = _pulled(out, xs, _one_hot(out, k, unit))[n]
                    wanted = _wanted(x, [p[i].reshape(x.numel(), -1)[:, k] for p in parts], unit)
                    if not _close(analytical, again, nondet_tol, 0):
                        raise GradcheckError(
                            "Backward is not reentrant, i.e., running backward with same input "
                            "and grad_output multiple times gives different values: "
                            f"{analytical} and {again}"
                        )
                    _compare("analytical", analytical, wanted, (i, k), place, atol, rtol)


def _wanted(x: Any, parts: list[Any], unit: complex) -> Any:
    """The gradient that slopes along the real (and imaginary) axis amount to."""
    real = _real_product(unit, parts[0])
    if not x.dtype.is_complex:
        return real.reshape(x.shape)
    return (real + 1j * _real_product(unit, parts[1])).reshape(x.shape)


def _pulled(out: Any, xs: Sequence[Any], cotangent: Any) -> list[Any]:
    if not out.requires_grad:
        return [x.detach().new_zeros(x.shape) for x in xs]
    grads = grad(out, xs, cotangent, retain_graph=True, allow_unused=True)
    return [
        x.detach().new_zeros(x.shape) if g is None else g.detach()
        for g, x in zip(grads, xs, strict=True)
    ]


def _check_forward(probe: Probe, atol: float, rtol: float) -> None:
    for place in probe.places:
        x = probe.inputs[place].detach()
        for direction in (1, 1j) if x.dtype.is_complex else (1,):
            slopes = probe.by_output(place, direction)

            def along(y: Any, place: int = place) -> tuple[Any, ...]:
                args = [a.detach() if is_tensor(a) else a for a in probe.inputs]
                args[place] = y
                return tuple(probe.call(*args))

            for j in range(x.numel()):
                pushed = jvp(along, (x,), (_one_hot(x, j, direction),))[1]
                for i, t in enumerate(pushed):
                    _compare("forward", t, slopes[i][j], (i, j), place, atol, rtol)


def _check_batched(probe: Probe, atol: float, rtol: float) -> None:
    xs = [probe.inputs[i] for i in probe.places]
    for i, out in enumerate(probe.outs):
        if not out.requires_grad:
            continue
        gs = [randn_like(out.detach()) for _ in range(2)]
        batched = grad(
            out, xs, stack(gs), retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        apart = [_pulled(out, xs, g) for g in gs]
        for n, derivative in enumerate(batched):
            if derivative is not None:
                wanted = stack([row[n] for row in apart])
                _compare("batched", derivative, wanted, (i, 0), probe.places[n], atol, rtol)


def _close(a: Any, b: Any, atol: float, rtol: float) -> bool:
    return bool(((a - b).abs() <= atol + rtol * b.abs()).all())


def _compare(
    kind: str,
    computed: Any,
    wanted: Any,
    out: tuple[int, int],
    place: int,
    atol: float,
    rtol: float,
) -> None:
    computed = computed.detach()
    if computed.shape != wanted.shape or not _close(computed, wanted, atol, rtol):
        raise GradcheckError(
            f"Jacobian mismatch for output {out[0]} with respect to input {place} (element "
            f"{out[1]}):\nnumerical: {wanted}\n{kind}: {computed}"
        )


def _as_inputs(inputs: Any) -> tuple[Any, ...]:
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not any(is_tensor(x) and x.requires_grad for x in given):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    for i, x in enumerate(given):
        if is_tensor(x) and x.requires_grad and x.dtype not in (float64, complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex.",
                stacklevel=3,
            )
    return given


def gradcheck(
    func: Fn,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare a function's derivatives with central differences at `inputs`.

    >>> import adjoint as ad
    >>> ad.autograd.gradcheck(ad.sin, ad.ones(2, dtype=ad.float64, requires_grad=True))
    True
    """
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    given = _as_inputs(inputs)
    try:
        with CONTEXT.having(grad_enabled=True):
            probe = Probe(func, given, eps)
            if check_backward_ad and not any(o.requires_grad for o in probe.outs):
                raise ValueError(
                    "gradcheck: no output of the function requires grad. Does it detach?"
                )
            if check_backward_ad:
                _check_backward(probe, atol, rtol, nondet_tol)
            if check_forward_ad:
                _check_forward(probe, atol, rtol)
            if check_batched_grad:
                _check_batched(probe, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _gradients(probe: Probe, tracked: list[int], count: int) -> tuple[Fn, Fn]:
    """First derivatives as functions of `count` inputs and the cotangents of tracked results.

    By the tape, and by `vjp`.
    """

    def by_tape(*args: Any) -> tuple[Any, ...]:
        outs = [probe.call(*args[:count])[i] for i in tracked]
        wanted = [args[i] for i in probe.places]
        grads = grad(outs, wanted, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    def by_transform(*args: Any) -> tuple[Any, ...]:
        def at(*xs: Any) -> tuple[Any, ...]:
            full = list(args[:count])
            for i, x in zip(probe.places, xs, strict=True):
                full[i] = x
            return tuple(probe.call(*full)[i] for i in tracked)

        return vjp(at, *(args[i] for i in probe.places))[1](tuple(args[count:]))

    return by_tape, by_transform


def gradgradcheck(
    func: Fn,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare a function's second derivatives with central differences of its first."""
    given = _as_inputs(inputs)
    probe = Probe(func, given, eps)
    tracked = [i for i, o in enumerate(probe.outs) if o.requires_grad]
    if grad_outputs is None:
        seeds = tuple(randn_like(probe.outs[i].detach()).requires_grad_() for i in tracked)
    else:
        listed = grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        seeds = tuple(listed)
    by_tape, by_transform = _gradients(probe, tracked, len(given))

    def check(gradients: Fn, **which: bool) -> bool:
        return gradcheck(
            gradients,
            (*given, *seeds),
            eps=eps,
            atol=atol,
            rtol=rtol,
            raise_exception=raise_exception,
            nondet_tol=nondet_tol,
            **which,
        )

    return (not check_rev_over_rev or check(by_tape, check_batched_grad=check_batched_grad)) and (
        not check_fwd_over_rev
        or check(by_transform, check_forward_ad=True, check_backward_ad=False)
    )
